"""`probe repro` as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from expdb.actions.probe.repro import Repro, ReproPlan
from expdb.query.compare_results import ConfigDiff, NamedDiff
from expdb.query.series_match import match
from expdb.report import repro
from expdb.report.json import dumps
from tests.report.conftest import make_run

HOSTILE = "train/\x1b[31m\u202eloss"
MINE = {(step, key): 2.0 - step / 8 for step in range(8) for key in ("train/loss", "train/w")}
TIMES = {(0, "sys/x"): 1.0, (0, "train/tokens_per_s"): 1.0}


def found(other: dict[tuple[int, str], float], **more: object) -> Repro:
    run = make_run("k3f9x2m7qd")
    plan = ReproPlan(
        run=run,
        run_dir=Path(),
        store_root=Path(),
        attempt=run.attempts[0],
        commit="4be1f02" + "a" * 33,
        argv=("python", "train.py", "+exp=baseline", "name=it's"),
        script="train.py",
        stop_at=8,
        start=0,
        source=None,
    )
    facts = {"config": (), "environment": (), "data": (), "code": (), "seconds": 8.4, **more}
    return Repro(plan=plan, match=match({**MINE, **TIMES}, other, rtol=1e-5), **facts)  # type: ignore[arg-type]


def test_the_screens(screen, golden) -> None:
    lines = repro.begin_lines(found(MINE).plan, screen())
    for name, other in (
        ("equal", MINE),
        ("within", {**MINE, (7, "train/w"): MINE[7, "train/w"] * (1 + 1e-9)}),
        ("differs", {**MINE, (7, "train/w"): 5.0, (7, "train/loss"): 1.25}),
    ):
        lines += ["", name, *repro.render_repro(found(other), screen())]
    causes = found(
        {**MINE, (3, "train/loss"): 9.0},
        config=(ConfigDiff(key="optim.lr", values=(0.1, 0.2), differs=True),),
        environment=(NamedDiff(name="package torch", values=("2.9", "2.13")),),
        data=(NamedDiff(name="train", values=("sha256:1", None)),),
        code=tuple(f"file{i}.py" for i in range(7)),
        kept="/tmp/expdb-probe-x",
    )
    golden("repro-100.txt", [*lines, "", "causes", *repro.render_repro(causes, screen())])


def test_names_are_text(screen) -> None:
    other = {**MINE, (0, HOSTILE): 1.0}
    lines = repro.render_repro(found(other, code=(HOSTILE,)), screen())
    assert not any(char in "\x1b\u202e" for line in lines for char in line)


def test_the_document(screen) -> None:
    text = dumps(repro.json_of_repro(found({**MINE, (7, "train/w"): float("nan")})))
    data = json.loads(text)
    assert (data["schema_version"], data["outcome"], data["points"]) == (1, "differs", 16)
    assert data["first"] == {
        "step": 7, "metric": "train/w", "values": ["1.125", "nan"], "relative": "Infinity",
    }  # fmt: skip
    assert data["left_out"] == ["sys/x", "train/tokens_per_s"]
    kept = json.loads(dumps(repro.json_of_repro(replace(found(MINE), kept="/tmp/x"))))
    assert (kept["outcome"], kept["first"], kept["kept"]) == ("bit_equal", None, "/tmp/x")
