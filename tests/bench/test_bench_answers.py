"""The checker of the benchmarks takes right answers and no wrong ones."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import adapter, check, data, results, summary
from bench.bars.bar import Bar
from bench.bars.bar import shown as bar_table
from bench.pairs import Options, Row, repeated
from bench.peers import REFERENCES
from bench.peers.jsonl import Jsonl
from bench.peers.peer import Points

RUNS, STEPS = data.run_names(4), 12
METRICS = data.metric_names(3)


def single(values: Sequence[float]) -> list[float]:
    return list(array("f", values))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each reference answers over the same runs."""
    return {name: asked(adapter.load(name), tmp_path_factory.mktemp(name)) for name in REFERENCES}


def asked(peer: Any, store: Path) -> dict[str, Any]:
    job: dict[str, Any] = {"store": store, "steps": STEPS, "metrics": len(METRICS)}
    jobs = adapter.JOBS
    jobs["prepare"](peer, job)
    jobs["fill"](peer, {**job, "runs": RUNS})
    jobs["filled"](peer, job)
    best = {**job, "metric": METRICS[0], "num": 3}
    return {
        "last": jobs["top"](peer, {**best, "reading": "last"})["answer"],
        "min": jobs["top"](peer, {**best, "reading": "min"})["answer"],
        "compare": jobs["compare"](peer, {**job, "first": RUNS[1], "second": RUNS[3]})["answer"],
        "series": jobs["series"](peer, {**job, "metric": METRICS[2], "runs": RUNS})["answer"],
        "recovered": jobs["recovered"](peer, {**job, "run": RUNS[0]}),
    }


def verdict(name: str, answer: Any) -> check.Verdict:
    if name == "compare":
        return check.compare(answer, RUNS[1], RUNS[3], METRICS, STEPS)
    if name == "series":
        return check.series(answer, RUNS, METRICS[2], STEPS)
    return check.top(answer, RUNS, METRICS[0], STEPS, reading=name, num=3)


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("question", ["last", "min", "compare", "series"])
def test_the_references_answer_exactly(
    answers: dict[str, dict[str, Any]], name: str, question: str
) -> None:
    found = verdict(question, answers[name][question])
    assert (found.right, found.exact, found.why) == (True, True, "")


@pytest.mark.parametrize("name", REFERENCES)
def test_every_point_is_counted_after_the_end(
    answers: dict[str, dict[str, Any]], name: str
) -> None:
    assert answers[name]["recovered"]["points"] == STEPS * len(METRICS)


def test_a_wrong_top_is_caught(answers: dict[str, dict[str, Any]]) -> None:
    right = answers["jsonl-flush"]["last"]
    swapped = [right[1], right[0], right[2]]
    value = [[right[0][0], right[0][1] + 1e-3], *right[1:]]
    for wrong in (swapped, right[:2], value, answers["jsonl-flush"]["min"]):
        found = verdict("last", wrong)
        assert not found.right
        assert "expected" in found.why


def test_a_wrong_comparison_is_caught(answers: dict[str, dict[str, Any]]) -> None:
    right = answers["jsonl-flush"]["compare"]
    fewer, other, unlike = (copy.deepcopy(right) for _ in range(3))
    del fewer["params"]["p01"]
    other["metrics"][METRICS[0]].reverse()
    del unlike["metrics"][METRICS[1]]
    assert not any(verdict("compare", wrong).right for wrong in (fewer, other, unlike))


def test_values_kept_as_float32_are_right_and_not_exact(
    answers: dict[str, dict[str, Any]],
) -> None:
    top = [[run, single([value])[0]] for run, value in answers["jsonl-flush"]["last"]]
    found = verdict("last", top)
    assert (found.right, found.exact) == (True, False)
    kept = {
        run: check.digest(range(STEPS), single(data.curve(run, METRICS[2], STEPS))) for run in RUNS
    }
    found = verdict("series", kept)
    assert (found.right, found.exact) == (True, False)


class Lossy(Jsonl):
    """A tracker that loses, moves or alters one point."""

    fault = ""

    def series(self, store: Path, metric: str, runs: Sequence[str]) -> dict[str, Points]:
        found = super().series(store, metric, runs)
        steps, values = map(list, found[runs[-1]])
        if self.fault == "lost":
            steps, values = steps[:-1], values[:-1]
        elif self.fault == "moved":
            steps[3], steps[4] = steps[4], steps[3]
        elif self.fault == "altered":
            values[5] += 1e-5
        elif self.fault == "missing":
            return {run: found[run] for run in runs[:-1]}
        return {**found, runs[-1]: (steps, values)}


@pytest.mark.parametrize("fault", ["lost", "moved", "altered", "missing"])
def test_a_series_with_one_wrong_point_is_caught(tmp_path: Path, fault: str) -> None:
    peer = Lossy()
    peer.fault = fault
    assert not verdict("series", asked(peer, tmp_path)["series"]).right
    peer.fault = ""
    job = {"store": tmp_path, "metric": METRICS[2], "runs": RUNS}
    assert verdict("series", adapter.series(peer, job)["answer"]).exact


def test_a_result_file_comes_to_a_line_a_tracker(tmp_path: Path) -> None:
    ours = [{"steps": 10, "us_a_step": 2.0, "bytes_a_point": 4.0, "exact": True}]
    theirs = [{"steps": 10, "us_a_step": 9.0, "bytes_a_point": 2.0, "exact": False}]
    rows = [
        Row(workload="W1", name="expdb", reps=ours),
        Row(workload="W1", name="aim", reps=theirs, ours=ours),
        Row(workload="W5", name="aim, full speed", reps=[{"lost_pct": 1.5, "state": "active"}]),
    ]
    bars = [Bar(what="a thing", unit="ms", most=3, found=[5.0, 2.0, 4.0])]
    path = tmp_path / "kept.json"
    results.write(path, Options(), rows, bars)
    section = summary.text(*results.read(path))
    lines = [[cell.strip() for cell in line.split("|")] for line in section.splitlines()]
    (aim,) = (cells for cells in lines if cells[1:2] == ["aim"])
    assert aim[2:7] == ["10", "9 (x4.5)", "-", "2.0 (x0.5)", "no"]
    assert aim[11:13] == ["- % / 1.50 %", "active"]
    (bar,) = (cells for cells in lines if cells[1:2] == ["a thing"])
    assert bar[2:7] == ["<= 3 ms", "4.00 ms", "2.00-5.00", "3", "NOT MET"]


def test_a_bar_that_noise_covers_is_neither_met_nor_missed() -> None:
    found = Bar(what="a stall", unit="ms", most=25, found=[-900.0], is_noise=True)
    assert found.met is None
    assert "noise" in bar_table([found])
    assert Bar(what="a stall", unit="ms", most=25, found=[24.0]).met is True


def test_the_data_is_the_same_everywhere() -> None:
    assert data.curve("r0000", "train/m0", 2) == [5.154155292589617, 3.9735235053487137]
    assert data.curve("r0000", "train/m0", 9)[:2] == data.curve("r0000", "train/m0", 2)
    params = data.params("r0000")
    assert (len(params), params["p01"], params["p02"]) == (20, 658463, "variant r0000")


def test_a_ratio_is_taken_within_each_pair() -> None:
    ours = iter([{"s": 1.0}, {"s": 10.0}, {"s": 4.0}])
    theirs = iter([{"s": 2.0}, {"s": 20.0}, {"s": 12.0}])
    mine, others = repeated(Options(reps=3), lambda: next(ours), lambda: next(theirs))
    row = Row(workload="W", name="x", reps=others, ours=mine)
    assert (row.ratio("s"), row.median("s")) == (2.0, 12.0)
    assert row.shown("s", 1) == "12.0 (2.0-20.0)"
    assert (row.ratio("no"), row.median("no"), row.shown("no", 1)) == (None, None, "-")
