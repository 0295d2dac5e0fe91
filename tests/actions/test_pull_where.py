"""A pull of the runs that a filter selects, by what the remote says of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from expdb.errors import BadInput, NotFound
from expdb.store.layout import RunLayout
from expdb.store.marks import add_mark
from tests.actions.conftest import World
from tests.actions.exchanged import contents, outcomes, pulled, pushed

pytestmark = pytest.mark.slow


def test_the_runs_come_that_the_filter_selects_there(two: tuple[World, World], lab: Path) -> None:
    one, other = two
    good = one.run("exp01", values={100: 2.0, 200: 1.5, 300: 1.6}, config={"optim": {"lr": 0.1}})
    one.run("exp01", state="failed")
    one.run("exp02", values={100: 2.0, 300: 1.9})
    add_mark(RunLayout(one.folder(good)), "label", "keep")
    pushed(one)
    before = contents(lab)
    for where in (
        "label = keep",
        "state = finished and exp = exp01",
        "optim.lr > 0.01",
        "val/loss.best < 1.6",
        "val/loss.at(200) = 1.5",  # of the points: no summary has it
    ):
        assert outcomes(pulled(other, where=where, dry_run=True)) == {good: "new"}, where
    assert outcomes(pulled(other, where="label = keep")) == {good: "new"}
    assert [path.name for path in other.store.root.glob("exp=*/run=*")] == [f"run={good}"]
    assert outcomes(pulled(other, where="label = keep")) == {good: "same"}
    assert contents(lab) == before
    with pytest.raises(NotFound, match="the filter selects no run of lab") as caught:
        pulled(other, where="seed = 7")
    assert caught.value.hints == ("what it has: expdb pull lab --dry-run",)
    with pytest.raises(NotFound, match="no run has a metric val/los"):
        pulled(other, where="val/los < 2")
    with pytest.raises(BadInput):
        pulled(other, where="state =")


def test_what_cannot_be_read_there_is_selected_by_none_and_named(
    two: tuple[World, World], lab: Path
) -> None:
    one, other = two
    good, pipe, link, torn, moved = (one.run(f"exp0{number}") for number in range(5))
    pushed(one)
    folders = {run: next(lab.glob(f"exp=*/run={run}")) for run in (pipe, link, torn, moved)}
    (folders[pipe] / "run.json.x").write_text("x")
    (folders[pipe] / "series.json").unlink()
    os.mkfifo(folders[pipe] / "series.json")  # to open it would wait for ever
    (folders[link] / "status.json").unlink()
    (folders[link] / "status.json").symlink_to("/etc/hostname")
    (folders[torn] / "run.json").write_text("{")
    folders[moved].rename(folders[moved].with_name("run=zzzzzzzzzz"))
    done = pulled(other, where="state = finished")
    assert outcomes(done) == {good: "new"}
    named = sorted(note for note in done.notes if "no filter selects" in note)
    assert len(named) == 4
    for run in (pipe, link, torn, "zzzzzzzzzz"):
        assert any(run in note for note in named), run


def test_a_filter_is_no_name_of_what_was_removed_here(two: tuple[World, World]) -> None:
    one, other = two
    run = one.run(checkpoints=(100, 300))
    pushed(one)
    pulled(other)
    from expdb.store import checkpoints

    checkpoints.remove(RunLayout(other.folder(run)), 100)
    assert outcomes(pulled(other, where="exp = baseline")) == {run: "same"}
    assert outcomes(pulled(other, run)) == {run: "updated"}
