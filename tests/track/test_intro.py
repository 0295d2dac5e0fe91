"""The lines of a start, word for word."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from expdb.digest import ABSENT, Secret
from expdb.model import Objective, Pin, Run, RunState, Series
from expdb.track import intro

COMMIT = "4be1f02" + "0" * 33
SNAPSHOT = "0d57b3a" + "0" * 33
LOSS = Objective(metric="val/loss")


def run_of(**changes: Any) -> Run:
    series = Series(
        key="val/loss", count=7, nonfinite=0, first_step=0, first=5.6, last_step=300, last=1.848
    )
    values: dict[str, Any] = {
        field.name: None
        for field in dataclasses.fields(Run)
        if field.default is dataclasses.MISSING
    }
    values |= {
        "id": "k3f9x2m7qd", "experiment": "baseline", "variant": "", "seed": 0, "objective": LOSS,
        "state": RunState.FINISHED, "series": {"val/loss": series}, "canonical": "{}",
    }  # fmt: skip
    return Run(**(values | changes))


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({}, "exp01  t1h6y3cz8r  seed 0  from scratch"),
        ({"fork": "k3f9@300"}, "exp01  t1h6y3cz8r  seed 0  forks k3f9@300"),
        (
            {"attempt": 2, "resumed_from": 200},
            "exp01  t1h6y3cz8r  seed 0  resumes at step 200  attempt 2",
        ),
        ({"attempt": 2}, "exp01  t1h6y3cz8r  seed 0  resumes at step 0  attempt 2"),
        ({"seed": None}, "exp01  t1h6y3cz8r  from scratch"),
    ],
)
def test_the_first_line(values: dict[str, Any], line: str) -> None:
    given = {"seed": 0, "attempt": 1, "resumed_from": None, "fork": ""} | values
    seed = given.pop("seed")
    assert intro.head_line("exp01", "t1h6y3cz8r", seed, **given) == line


def parent(keys: dict[str, Any], *, same_seed: bool = True) -> list[str]:
    return intro.parent_lines(run_of(), keys, run="t1h6y3cz8r", same_seed=same_seed)


def test_the_parent_and_what_differs_from_it() -> None:
    assert intro.parent_lines(None, {}, run="t1h6y3cz8r", same_seed=False) == ["  parent     none"]
    assert parent({"optim.lr": (0.003, 0.01)}) == [
        "  parent     k3f9 baseline, 1 key differs",
        "               optim.lr  0.003 → 0.01",
    ]
    assert parent({"a": (1, ABSENT), "long.name": (Secret(), "1")}) == [
        "  parent     k3f9 baseline, 2 keys differ",
        "               a          1 → -",
        "               long.name  <redacted> → '1'",
    ]
    many = {f"g{number % 3}.k{number}": (0, 1) for number in range(9)}
    lines = parent(dict(sorted(many.items())))
    assert lines[0] == (
        "  parent     k3f9 baseline, 9 keys in 3 groups differ"
        " (5 shown; all: expdb compare k3f9 t1h6)"
    )
    assert len(lines) == 6
    assert parent({}) == [
        "  parent     k3f9 baseline, nothing differs (also the seed): a repeat of k3f9"
    ]
    assert parent({}, same_seed=False) == [
        "  parent     k3f9 baseline, nothing differs but the seed"
    ]


def test_hostile_keys_are_text() -> None:
    assert parent({"a\x1b[1m": (0, 1)})[1] == "               a\\x1b[1m  0 → 1"


@pytest.mark.parametrize(
    ("pin", "line"),
    [
        (Pin(commit=COMMIT, branch="main"), "  code       main 4be1f02, clean"),
        (Pin(commit=COMMIT, branch="detached"), "  code       detached 4be1f02, clean"),
        (
            Pin(commit=COMMIT, branch="main", dirty=True, num_edits=3, snapshot=SNAPSHOT),
            "  code       main 4be1f02 with 3 edits, kept as snapshot 0d57b3a",
        ),
        (
            Pin(commit=COMMIT, branch="main", dirty=True, num_edits=1),
            "  code       main 4be1f02 with 1 edit, not kept",
        ),
        (
            Pin(reasons=("not in a git repository",)),
            "  code       not in a git repository: the run cannot be rolled back to its code",
        ),
    ],
)  # fmt: skip
def test_the_code(pin: Pin, line: str) -> None:
    assert intro.code_line(pin) == line


def test_the_objective_and_what_to_beat() -> None:
    def line(parent: Run | None = None, objective: Objective | None = LOSS, **noise: float) -> str:
        return intro.objective_line(objective, parent, noise)

    assert line() == "  objective  val/loss, lower is better"
    assert intro.objective_line(LOSS, run_of(), {"val/loss": 0.008}) == (
        "  objective  val/loss, lower is better; to beat 1.848 (k3f9), noise ±0.022"
    )
    assert line(run_of(objective=None)) == "  objective  val/loss, lower is better"
    best = Objective(metric="acc", mode="max")
    assert line(run_of(), best) == "  objective  acc, higher is better"
    assert line(objective=None) == "  objective  none declared: this run is not ranked"


def test_the_path_is_relative_where_that_is_shorter(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert intro.path_line(tmp_path / "runs" / "x") == f"  path       {os.path.join('runs', 'x')}"
    assert intro.path_line(Path("/x")) == "  path       /x"
