"""`log --why` as text and as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from expdb.model import Objective
from expdb.query.results import ABSENT, Outcome
from expdb.query.seed_results import MeanDelta
from expdb.query.why_results import Cause, Change, Pair, Step, Why
from expdb.report import json_why, why
from expdb.report.json import dumps
from expdb.text import cells
from tests.report.conftest import NOISE

WORSE, BETTER, SAME = Outcome.WORSE, Outcome.BETTER, Outcome.NO_DIFFERENCE
LR = Change(kind="config", name="optim.lr", before=0.003, after=0.01)
WIDTH = Change(kind="config", name="model.width", before=96, after=128)
EMA = Change(kind="config", name="loop.ema", before=ABSENT, after=0.99)
FILE = Change(kind="file", name="train.py", before="4be1f02" + "0" * 33, after="7c1e88a" + "0" * 33)
TORCH = Change(kind="environment", name="torch", before="2.12.0+cpu", after="2.13.0+cpu")


def delta(value: float, outcome: Outcome, half: float | None = 0.0222) -> MeanDelta:
    return MeanDelta(value=value, half_width=half, how="noise", outcome=outcome)


def cause(change: Change, value: float, outcome: Outcome, *pairs: tuple[str, str], **more: Any):
    effect = delta(value, outcome)
    made = tuple(
        Pair(before=tuple(old.split()), after=tuple(new.split()), delta=effect)
        for old, new in pairs
    )
    return Cause(change=change, effect=effect, pairs=made, **more)


def step(run: str, parent: str, value: float, change: MeanDelta, *changes: Change, **more: Any):
    return Step(
        run=run, name="exp01", parent=parent, value=value, delta=change, changes=changes, **more
    )


K3, T1, H4, G2, E7, D6 = (
    "k3f9x2m7qd", "t1h6y3cz8r", "h4q8z1rn6c", "g2z8r5n1fs", "e7s5g2p0va", "d6v3m9s2xk",
)  # fmt: skip


@pytest.fixture
def found() -> Why:
    return Why(
        objective=Objective(metric="val/loss"),
        noise=NOISE,
        run=H4,
        root=K3,
        root_name="baseline",
        root_value=1.848,
        steps=(
            step(T1, K3, 2.028, delta(0.180, WORSE), LR),
            step(G2, T1, 2.020, delta(-0.008, SAME), FILE),
            step(H4, G2, 2.019, delta(-0.001, SAME), WIDTH, EMA, TORCH, left=(WIDTH, EMA, TORCH)),
        ),
        total=delta(0.171, WORSE),
        causes=(
            cause(LR, 0.180, WORSE, (K3, T1), (E7, D6), (G2, H4)),
            cause(FILE, -0.008, SAME, (T1, G2)),
            Cause(change=WIDTH, effect=None, pairs=()),
            Cause(change=TORCH, effect=None, pairs=()),
        ),
        beside=(
            cause(
                Change(kind="config", name="schedule.jump", before=1, after=30),
                -0.031, BETTER, (K3, f"{E7} {D6}"),
            ),
            cause(
                Change(kind="config", name="data.name", before="a", after="b" * 90),
                0.002, Outcome.INCONCLUSIVE, (K3, E7), disagree=True,
            ),
        ),
    )  # fmt: skip


def test_the_way_to_a_run_at_100_columns(found, screen, golden):
    lines = why.render(found, screen())
    assert max(map(cells, lines)) <= 100
    golden("log-why-100.txt", lines)


def test_at_80_columns(found, screen, golden):
    lines = why.render(found, screen(width=80))
    assert max(map(cells, lines)) <= 80
    golden("log-why-80.txt", lines)


def test_in_a_pipe_it_is_ascii(found, screen, golden):
    lines = why.render(found, screen(terminal=False, ascii=True))
    assert all(line.isascii() for line in lines)
    golden("log-why-pipe.txt", lines)


def test_of_all_runs(found, screen, golden):
    every = replace(found, run=None, root=None, total=None, steps=found.steps[2:], beside=())
    golden("log-why-all-100.txt", why.render(every, screen()))
    limited = why.render(every, screen(), limit=1)
    assert "3 more: -n 4" in limited


def test_colour_never_moves_a_column(found, screen):
    plain = why.render(found, screen())
    coloured = why.render(found, screen(color=True))
    assert coloured != plain
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in coloured] == plain


@pytest.mark.parametrize("terminal", [True, False])
def test_hostile_names_are_text(found, screen, terminal):
    bad = "\x1b[31m[red]\u202eevil\n"
    change = Change(kind="config", name=bad, before=bad, after="\x00\r")
    file = Change(kind="file", name=bad + ".py", before=bad, after=bad)
    hostile = replace(
        found,
        root_name=bad,
        objective=Objective(metric="val/" + bad),
        causes=(cause(change, 0.1, WORSE, (K3, T1)), cause(file, 0.1, WORSE, (K3, T1))),
        steps=(
            step(T1, K3, 2.0, delta(0.1, WORSE), change),
            step(H4, T1, 2.0, delta(0.1, WORSE), change, file, left=(change, file)),
        ),
    )
    for width in (100, 60):
        for line in why.render(hostile, screen(terminal=terminal, width=width)):
            assert line.isprintable(), ascii(line)
    assert all(name.isprintable() for name in why.names_moved(hostile))
    json.loads(dumps(json_why.why(hostile)))


def test_what_ends_it_without_a_cause(found, screen):
    def last(**more: Any) -> str:
        return why.render(replace(found, beside=(), **more), screen())[-1]

    still = (cause(LR, 0.01, SAME, (K3, T1)),)
    assert last(causes=still) == "no cause  val/loss: no single change moved it beyond noise"
    alone = (Cause(change=LR, effect=None, pairs=()),)
    assert last(causes=alone) == "no cause  val/loss: no two runs differ in one thing alone"
    unknown = (cause(LR, 0.01, Outcome.INCONCLUSIVE, (K3, T1)),)
    assert last(causes=unknown, noise=None).endswith("or a declared one, would tell")


def test_the_next_command_shows_what_is_confounded(found, screen):
    assert why.next_commands(found, screen()) == [("compare", "expdb compare g2z8 h4q8 --code")]
    assert why.next_commands(replace(found, steps=found.steps[:2]), screen()) == []
    assert why.names_moved(found) == ["optim.lr", "schedule.jump"]


def test_json_has_every_pair_and_what_is_confounded(found):
    data = json.loads(dumps(json_why.why(found)))
    assert list(data) == [
        "schema_version", "objective", "noise", "run", "root", "root_value", "total", "way",
        "causes", "beside", "warnings",
    ]  # fmt: skip
    assert data["causes"][0] == {
        "kind": "config", "name": "optim.lr", "values": [0.003, 0.01], "absent": [],
        "effect": {"value": 0.18, "half_width": 0.0222, "outcome": "worse"},
        "pairs_disagree": False,
        "pairs": [
            {"before": [old], "after": [new],
             "delta": {"value": 0.18, "half_width": 0.0222, "outcome": "worse"}}
            for old, new in ((K3, T1), (E7, D6), (G2, H4))
        ],
    }  # fmt: skip
    assert [one["name"] for one in data["way"][2]["confounded"]] == [
        "model.width", "loop.ema", "torch",
    ]  # fmt: skip
    assert data["way"][2]["changes"][1]["absent"] == [0]
