"""`status`, `show` and `compare` over a declared run with gates, from config to exit code."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from expdb.cli.main import main
from expdb.query.declared_cache import declaration
from expdb.query.entry import Entry
from tests.query.made import make_run, make_store, write_run

RUN = "k3f9x2m7qd"


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "conf" / "exp").mkdir(parents=True)
    (tmp_path / "conf" / "train.yaml").write_text("seed: 0\nlr: 1\n")
    (tmp_path / "conf" / "exp" / "baseline.yaml").write_text("# @package _global_\nlr: 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXPDB_HINTS", "0")
    for name in ("EXPDB_STORE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def write(top: Path, run: str, value: float, **settings: object) -> None:
    store = make_store(top / "runs")
    entry = Entry(folder=top / "conf", name="train", script="train.py")
    (baseline,) = declaration(entry, store.layout.index).experiments
    (cell,) = baseline.runs
    made = make_run(run, value=value, seed=cell.seed, settings={"seed_key": "seed", **settings})
    write_run(store, replace(made, digest=cell.digest, canonical=cell.canonical))


@pytest.mark.parametrize(
    ("value", "settings", "why", "code"),
    [
        (1.85, {"gates": {"val/loss": {"max": 1.9}}}, "gate passes", 0),
        (2.1, {"gates": {"val/loss": {"max": 1.9}}}, "gate val/loss fails", 1),
        (1.85, {"gates": {"x": {"max": 1.9}}}, "gate x has no value", 1),
        (1.85, {"require": ["val/loss", "x"]}, "lacks x", 1),
        (
            1.89, {"gates": {"val/loss": {"max": 1.9}}, "noise": {"val/loss": 0.008}},
            "gate val/loss is inconclusive", 0,
        ),
    ],
)  # fmt: skip
def test_status_says_it_and_exits_by_it(
    top: Path, capsys: pytest.CaptureFixture[str],
    value: float, settings: dict[str, object], why: str, code: int,
) -> None:  # fmt: skip
    write(top, RUN, value, **settings)
    assert main(["status"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "up to date  " in line)
    assert row.rstrip().endswith(why)
    assert main(["status", "--exit-code"]) == code
    capsys.readouterr()
    main(["status", "-q"])
    assert capsys.readouterr().out == ""  # training it again would give the same


def test_show_and_compare_name_value_and_mark(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(top, RUN, 1.85, gates={"val/loss": {"max": 1.9}})
    assert main(["show", RUN]) == 0
    assert "  gate         val/loss 1.850 <= 1.9  pass\n" in capsys.readouterr().out
    assert main(["show", RUN, "--json"]) == 0
    (gate,) = json.loads(capsys.readouterr().out)["gates"]
    assert (gate["max"], gate["value"], gate["outcome"]) == (1.9, 1.85, "pass")
    write(top, "a" * 10, 2.1, gates={"val/loss": {"max": 1.9}})
    assert main(["compare", RUN, "a" * 10]) == 0
    assert "  val/loss <= 1.9" in capsys.readouterr().out
    main(["compare", RUN, "a" * 10, "--json"])
    (gate,) = json.loads(capsys.readouterr().out)["gates"]
    assert (gate["values"], gate["outcomes"]) == ([1.85, 2.1], ["pass", "fail"])


def test_groups_over_seeds_have_them_in_every_form(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = make_store(top / "runs")
    gates = {"gates": {"val/loss": {"max": 1.9}}}
    for name, values in (("baseline", (1.80, 1.82, 1.84)), ("wide", (1.7, 1.9, 2.1))):
        for seed, value in enumerate(values):
            run = f"{name[0]}{seed}".ljust(10, "0")
            digest = {"digest": f"v1:{name}", "canonical": f'{{"a":"{name}"}}'}
            made = make_run(run, experiment=name, seed=seed, value=value, settings=gates)
            write_run(store, replace(made, **digest))

    def said(*words: str) -> str:
        main([*words, "--over", "seed"])
        return capsys.readouterr().out

    wanted = {"baseline": "pass", "wide": "inconclusive"}
    for words in (("rank",), ("ls",)):
        text = said(*words)
        assert text.splitlines()[2 if words == ("rank",) else 0].endswith("gates")
        assert {row["experiment"]: row["gates"] for row in rows(said(*words, "--csv"))} == wanted
        table = said(*words, "--md")
        assert [line.rpartition(" | ")[2] for line in table.splitlines() if "wide" in line] == [
            "? val/loss |"
        ]
        assert "? val/loss" in text
        groups = json.loads(said(*words, "--json"))["groups"]
        assert {one["experiment"]: one["gates"][0]["outcome"] for one in groups} == wanted
    both = ("compare", "baseline", "wide")
    held = [row for row in rows(said(*both, "--csv")) if row["metric"] == "val/loss <= 1.9"]
    assert {row["experiment"]: row["outcome"] for row in held} == wanted
    assert [(row["seeds"], float(row["mean"])) for row in held] == [
        ("3", pytest.approx(1.82)), ("3", pytest.approx(1.9))
    ]  # fmt: skip
    (line,) = (line for line in said(*both, "--md").splitlines() if "val/loss \\<= 1.9" in line)
    assert [cell.split()[-1] for cell in line.strip("| ").split(" | ")[1:]] == ["pass", "?"]


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))
