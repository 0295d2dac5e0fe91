"""What is declared as a matrix: cells by seed, means of what counts, the row of the baseline."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from expdb.index.reader import open_reader
from expdb.query.matrix import matrix_of
from expdb.query.matrix_results import Matrix
from expdb.query.results import Outcome
from expdb.query.runs import run_rows
from expdb.query.status_results import StatusRow, StoreStatus, WorkTreeStatus
from tests.query.made import make_run, make_store, write_run

ENDS = {
    ("baseline", 0): 2.0, ("baseline", 1): 2.1, ("baseline", 2): 2.05, ("a", 0): 1.0,
    ("a", 1): 1.1, ("b", 0): math.nan, ("b", 1): 3.0,
}  # fmt: skip


@pytest.fixture
def matrix(tmp_path: Path) -> Matrix:
    store = make_store(tmp_path / "runs")
    for at, ((name, seed), value) in enumerate(ENDS.items()):
        made = make_run(f"a{at:09d}", experiment=name, seed=seed, minutes=at, value=value)
        write_run(store, made)
    with open_reader(store) as reader:
        found = {(row.experiment, row.seed): row for row in run_rows(reader)}
        states = {("a", 1): "stale", ("b", 1): "failed"}
        rows = [
            StatusRow(
                experiment=name, seed=seed, is_declared=True, run=found[name, seed],
                state=states.get((name, seed), "up to date"),
            )
            for name, seed in ENDS
        ]  # fmt: skip
        rows.append(StatusRow(experiment="a", seed=2, is_declared=True, state="missing"))
        rows.append(StatusRow(experiment="bad", is_declared=True, state="invalid", fault="why"))
        rows.append(replace(rows[0], experiment="gone", is_declared=False))
        status = StoreStatus(
            work_tree=WorkTreeStatus(in_git=False), store="runs", num_runs=7, bytes=0,
            rows=tuple(rows), counts={},
        )  # fmt: skip
        return matrix_of(reader, status, head=None)


def test_rows_are_by_name_and_cells_by_seed(matrix: Matrix) -> None:
    assert [row.name for row in matrix.rows] == ["a", "b", "bad", "baseline"]
    assert matrix.seeds == (0, 1, 2)
    states = [[cell and cell.state for cell in row.cells] for row in matrix.rows]
    assert states == [
        ["up to date", "stale", "missing"], ["up to date", "failed", None], [None, None, None],
        ["up to date"] * 3,
    ]  # fmt: skip
    assert [row.fault for row in matrix.rows] == ["", "", "why", ""]
    assert matrix.counts == {
        "up to date": 5, "stale": 1, "failed": 1, "missing": 1, "invalid": 1,
    }  # fmt: skip
    assert matrix.num_others == 1


def test_means_are_of_finite_values_of_runs_that_count(matrix: Matrix) -> None:
    a, b, bad, base = matrix.rows
    assert a.values == ((0, 1.0), (1, 1.1))
    assert a.mean == pytest.approx(1.05)
    assert a.sd == pytest.approx(0.0707, abs=1e-4)
    assert (b.values, b.mean, b.sd) == ((), None, None)
    assert bad.values == ()
    assert base.mean == matrix.base == pytest.approx(2.05)


def test_rows_are_measured_against_that_of_the_baseline(matrix: Matrix) -> None:
    a, b, _, base = matrix.rows
    assert base.is_baseline
    assert base.delta is None
    assert b.delta is None
    assert a.delta is not None
    assert a.delta.value == pytest.approx(-1.0)
    assert a.delta.outcome is Outcome.BETTER
