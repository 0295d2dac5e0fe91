"""Gates on the screens of `show`, `status` and `compare`, and in JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from expdb.model import RunState
from expdb.query.gates import GateOutcome, GateResult, outcome_of
from expdb.query.seed_results import SeedComparison, SeedGroup
from expdb.report import (
    comparison,
    comparison_tables,
    gates,
    json_status,
    seed_comparison,
    shown,
    status,
)
from expdb.report import json as documents
from expdb.report.rows_out import write_csv
from expdb.store.gates import Gate
from tests.report.test_comparison_lines import compare_exp01
from tests.report.test_shown_lines import PATH, against, declared, make_exp01

LOSS = Gate(metric="val/loss", high=1.9)
ACC = Gate(metric="eval/cloze/acc", low=0.4, reading="best")
NORM = Gate(metric="train/grad_norm", low=0.0, high=10.0, reading="max")


def held(gate: Gate, value: float | None, half: float | None = None) -> GateResult:
    outcome = outcome_of(gate, value, half)
    return GateResult(gate=gate, value=value, half_width=half, outcome=outcome)


OF_EXP01 = (
    held(LOSS, 2.028, 0.016),
    held(ACC, 0.430, 0.048),
    held(NORM, 3.418),
    held(Gate(metric="\x1b[31m", high=1e-05), None),
)


def test_show_has_a_line_for_each_gate(cast: Any, screen: Any, golden: Any) -> None:
    settings = {"require": ["val/loss", "eval/mmlu/acc", "\x1b]0;x"]}
    run = make_exp01(cast, settings=settings)
    drawn = {"path": PATH, "num_keys": 41, "against": against(cast, run), "gates": OF_EXP01}
    golden("show-gates-100.txt", shown.render(run, screen(), **drawn))
    pipe = shown.render(run, screen(terminal=False, ascii=True), **drawn)
    golden("show-gates-pipe.txt", pipe)
    assert all(line.isascii() for line in pipe)
    bright = shown.render(run, screen(color=True), **drawn)
    assert any("\x1b[31mfail\x1b[0m" in line for line in bright)
    live = replace(run, state=RunState.RUNNING)
    lines = shown.render(live, screen(), **drawn)
    assert sum(line.endswith(" so far") for line in lines) == len(OF_EXP01)
    assert not any("does not count" in line for line in lines)


def gated(cast: SimpleNamespace) -> Any:
    rows = (
        (held(LOSS, 1.848, 0.016), held(LOSS, 2.028, 0.016)),
        (held(ACC, 0.460, 0.049), held(ACC, 0.430, 0.048)),
        (held(NORM, math.nan), held(NORM, 3.418)),
        (held(Gate(metric="\u202eevil", high=1e9), None), held(LOSS, 1.0)),
    )
    return replace(compare_exp01(cast), gates=rows)


def test_compare_has_a_row_for_each_gate(cast: Any, screen: Any, golden: Any) -> None:
    found = gated(cast)
    golden("compare-gates-100.txt", comparison.render(found, screen()))
    pipe = comparison.render(found, screen(terminal=False, ascii=True))
    golden("compare-gates-pipe.txt", pipe)
    table = comparison_tables.to_markdown(found, screen())
    assert any("val/loss" in line and "1.848 pass" in line for line in table)
    rows = write_csv(*comparison_tables.table(found)).splitlines()
    assert "gates,eval/cloze/acc best >= 0.4,,pass,inconclusive,," in rows
    assert not any("\u202e" in line for line in (*pipe, *table))


def test_status_says_it_beside_what_is_up_to_date(cast: Any, screen: Any, golden: Any) -> None:
    made = declared(cast)
    (base, *others) = made.rows
    names = ("passes", "pass", "unclear", "missing", "fails", "lacks", "both")
    lacking = replace(base.run, lacks=("eval/cloze/acc", "val/ppl"))
    results: dict[str, tuple[GateResult, ...]] = {
        "passes": (held(LOSS, 1.848),),
        "pass": (held(LOSS, 1.848), held(ACC, 0.5)),
        "unclear": (held(LOSS, 1.848), held(ACC, 0.41, 0.05)),
        "missing": (held(ACC, 0.41, 0.05), held(LOSS, None)),
        "fails": (held(LOSS, None), held(ACC, 0.1), held(NORM, 11.0)),
        "lacks": (),
        "both": (held(LOSS, 2.0), held(ACC, None), held(Gate(metric="val/ppl", low=1), None)),
    }
    rows = [
        replace(
            base, experiment=name, gates=results[name],
            run=lacking if name in ("lacks", "both") else base.run,
        )
        for name in names
    ]  # fmt: skip
    found = replace(made, rows=(*rows, *others))
    golden("status-gates-100.txt", status.render(found, screen()))
    well = {row.name: status.is_up_to_date(replace(made, rows=(row,))) for row in rows}
    assert well == {name: name in ("passes", "pass", "unclear") for name in names}
    assert status.need_a_run(replace(made, rows=tuple(rows))) == []
    told = {row["experiment"]: row for row in json_status.status(found)["experiments"]}
    assert told["both"]["lacks"] == ["eval/cloze/acc", "val/ppl"]
    assert told["both"]["gates"][0]["outcome"] == "fail"
    # What a run lacked that is not what is declared any more says nothing of what is.
    stale = replace(rows[-1], state="stale")
    assert (stale.lacks, stale.is_well) == ((), False)


def test_json_has_marks_values_and_outcomes(cast: Any) -> None:
    made = json.loads(documents.dumps(documents.shown(make_exp01(cast), None, OF_EXP01)))
    assert made["gates"][0] == {
        "metric": "val/loss", "reading": "last", "min": None, "max": 1.9, "value": 2.028,
        "half_width": 0.016, "outcome": "fail",
    }  # fmt: skip
    assert made["lacks"] == []
    assert json.loads(documents.dumps(documents.shown(make_exp01(cast))))["gates"] == []
    both = json.loads(documents.dumps(documents.comparison(gated(cast))))
    assert both["gates"][2] == {
        "metric": "train/grad_norm", "reading": "max", "min": 0.0, "max": 10.0,
        "values": ["NaN", 3.418], "half_widths": [None, None], "outcomes": ["fail", "pass"],
    }  # fmt: skip
    assert both["runs"][0]["lacks"] == []


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        (LOSS, "val/loss <= 1.9"),
        (ACC, "eval/cloze/acc best >= 0.4"),
        (NORM, "0 <= train/grad_norm max <= 10"),
        (Gate(metric="train/lr", high=1.23456789e-07), "train/lr <= 1.23456789e-07"),
        (Gate(metric="a", high=1e20), "a <= 1e+20"),
    ],
)
def test_marks_are_not_rounded(gate: Gate, text: str) -> None:
    assert gates.name_of(gate) == text


def test_no_gates_say_nothing() -> None:
    assert gates.in_few_words(()) == ""
    assert gates.table(()) == []
    assert set(gates.COLOURS) == set(gates.SHORT) == set(gates.VERBS) == set(GateOutcome)


def test_over_seeds_each_gate_has_a_row(cast: Any, screen: Any) -> None:
    def group(name: str) -> SeedGroup:
        return SeedGroup(
            experiment=name, variant="", digest="v1:0", runs=(), seeds=(), values=(), newest_ms=0,
            states={},
        )  # fmt: skip

    found = SeedComparison(
        groups=(group("baseline"), group("exp01")), objective=cast.loss, noise=None, metrics=(),
        gates=((held(LOSS, 1.856, 0.02), held(LOSS, 1.89, 0.02)),),
    )  # fmt: skip
    lines = seed_comparison.render_comparison(found, screen())
    at = next(at for at, line in enumerate(lines) if line.strip().startswith("gate"))
    assert lines[at].split() == ["gate", "baseline", "exp01"]
    assert lines[at + 1].split() == [
        "val/loss",
        "<=",
        "1.9",
        "1.856",
        "pass",
        "1.890",
        "±0.020",
        "?",
    ]
