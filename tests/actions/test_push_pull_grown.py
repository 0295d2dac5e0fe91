"""Runs that changed between two pushes: folded, attached to, resumed twice, saved again, torn."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import expdb
from expdb.actions.exchange import Exchanged
from expdb.actions.rm import plan_removal, remove
from expdb.store import fold_parts, owner, recorder
from expdb.store.layout import RunLayout
from expdb.store.marks import add_mark
from expdb.store.parts import read_folded, read_list
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from expdb.store.runs import read_run
from expdb.store.series import load
from expdb.store.status import read_status, write_status
from tests.actions.conftest import World
from tests.actions.exchanged import (
    contents,
    outcomes,
    pulled,
    pushed,
    resumed,
    rich,
    stamps,
)
from tests.faults.lives import unsound

pytestmark = pytest.mark.slow

Two = tuple[World, World]


def there(lab: Path, run: str) -> Path:
    return next(lab.glob(f"exp=*/run={run}"))


def points(folder: Path) -> list[tuple[int, float]]:
    found = read_series(folder, ["val/loss"], problems=[])
    return sorted(zip(found["step"].to_pylist(), found["value"].to_pylist(), strict=True))


def others(folder: Path) -> int:
    """How many points an engine reads that knows nothing of lists."""
    return sum(pq.read_table(path).num_rows for path in folder.glob("points/part-*.parquet"))


def in_many_parts(world: World, monkeypatch: pytest.MonkeyPatch, experiment: str = "many") -> str:
    """A finished run of 40 points in 10 parts."""
    run = world.run(experiment, values={}, checkpoints=())
    layout = RunLayout(world.folder(run))
    with monkeypatch.context() as patch:
        patch.setattr(recorder, "SEAL_POINTS", 4)
        patch.setattr(recorder, "RETRY_S", 0.0)
        item = Recorder(layout, run=run, attempt=1)
        for step in range(40):
            item.write(("val/loss",), (step / 7,), step, step)
            if item._sealing is not None:
                item._sealing.join()
        item.close()
    item.book.save(layout.series_json)
    write_status(layout, read_status(layout))
    assert len(read_list(layout.parts_list(1, 0))) > fold_parts.MAX_PARTS
    return run


def test_a_run_of_many_parts_is_folded_and_the_remote_has_each_point_once(
    two: Two, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    run = in_many_parts(one, monkeypatch)
    before = points(one.folder(run))
    assert outcomes(pushed(one)) == {run: "new"}
    here = RunLayout(one.folder(run))
    assert len(read_list(here.parts_list(1, 0))) == 1
    assert read_folded(here.parts_list(1, 0))  # for 10 minutes
    folder = there(lab, run)
    assert read_folded(RunLayout(folder).parts_list(1, 0)) == ()
    assert (points(folder), others(folder)) == (before, 40)
    stamped = stamps(lab)
    assert outcomes(pushed(one)) == {run: "same"}
    monkeypatch.setattr(fold_parts, "KEPT_S", -1.0)
    assert outcomes(pushed(one)) == {run: "same"}
    assert others(one.folder(run)) == 40
    assert stamps(lab) == stamped
    assert outcomes(pulled(other)) == {run: "new"}
    assert (points(other.folder(run)), others(other.folder(run))) == (before, 40)
    assert unsound(other.store.root) == []
    assert read_run(other.folder(run), store_root=other.store.root).problems == ()


def test_a_run_that_the_remote_has_in_many_parts_is_not_sent_again_when_it_was_folded(
    two: Two, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    run = in_many_parts(one, monkeypatch)
    before = points(one.folder(run))
    with monkeypatch.context() as patch:
        patch.setattr(fold_parts, "MAX_PARTS", 100)
        pushed(one)
    pulled(other)
    stamped = stamps(lab)
    assert fold_parts.fold_parts(one.store.root, RunLayout(one.folder(run))) == 9
    assert outcomes(pushed(one)) == {run: "same"}
    assert stamps(lab) == stamped
    add_mark(RunLayout(one.folder(run)), "label", "more")
    assert outcomes(pushed(one)) == {run: "updated"}
    assert (points(there(lab, run)), others(there(lab, run))) == (before, 40)
    assert outcomes(pulled(other)) == {run: "updated"}
    assert points(other.folder(run)) == before
    found = read_run(other.folder(run), store_root=other.store.root)
    assert (found.labels, found.problems) == (("more",), ())
    assert unsound(other.store.root) == []


def test_what_an_attached_process_wrote_comes_along(
    two: Two, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    run = rich(one)
    pushed(one)
    pulled(other)
    monkeypatch.chdir(one.top)
    with expdb.attach(f"{run}@300", store=one.store.root) as attached:
        attached.log_eval("cloze", {"acc": 0.5})
        attached.log({"val/acc": 0.7}, step=300)
        attached.note("looked at")
    assert outcomes(pushed(one)) == {run: "updated"}
    assert contents(there(lab, run)) == contents(one.folder(run))
    assert outcomes(pulled(other)) == {run: "updated"}
    assert contents(other.folder(run)) == contents(one.folder(run))
    runs = [read_run(w.folder(run), store_root=w.store.root) for w in two]
    assert runs[0].series == runs[1].series
    assert runs[1].series["val/acc"].last == 0.7
    assert runs[1].notes[-1] == "looked at"
    assert unsound(other.store.root) == []


def test_a_run_that_went_on_in_both_places_is_refused_by_name(two: Two, lab: Path) -> None:
    one, other = two
    run, fine = rich(one, state="preempted"), rich(one, "exp01")
    pushed(one)
    pulled(other)
    for world, step in ((one, 400), (other, 500)):
        resumed(world, run, step=step)
    assert outcomes(pushed(one)) == {run: "updated", fine: "same"}
    before = contents(there(lab, run)), contents(other.folder(run))
    done: list[Exchanged] = [pushed(other), pulled(other)]
    host = owner.describe()["host"]
    for one_way in done:
        assert outcomes(one_way) == {run: "refused", fine: "same"}
        [refused] = one_way.of("refused")
        assert refused.why == (
            f"it went on in both places: here on {host} to step 500, in lab on {host} to step 400"
        )
        assert refused.hint == (
            f"take that of lab: expdb rm {run}, then expdb pull lab {run};"
            " the one here stays in the trash"
        )
    assert (contents(there(lab, run)), contents(other.folder(run))) == before
    # The hint holds.
    with other.reader() as reader:
        remove(reader, plan_removal(reader, [run]), worktree=other.worktree)
    assert outcomes(pulled(other, run)) == {run: "new"}
    assert contents(other.folder(run)) == contents(one.folder(run))


def test_a_checkpoint_that_a_later_attempt_saved_again_takes_its_place(two: Two, lab: Path) -> None:
    one, other = two
    run = rich(one, state="preempted")
    pushed(one)
    pulled(other)
    old = RunLayout(one.folder(run)).checkpoint(300)
    old.rename(old.with_name("step=999"))
    resumed(one, run, step=300)
    (RunLayout(one.folder(run)).checkpoint(300) / "model.pt").write_bytes(b"other weights")
    import hashlib

    manifest = RunLayout(one.folder(run)).checkpoint(300) / "manifest.json"
    data = json.loads(manifest.read_text())
    digest = hashlib.sha256(b"other weights").hexdigest()
    data["files"]["model.pt"] = {"bytes": 13, "sha256": digest}
    manifest.write_text(json.dumps(data))
    import shutil

    shutil.rmtree(old.with_name("step=999"))
    write_status(RunLayout(one.folder(run)), read_status(RunLayout(one.folder(run))))
    assert outcomes(pushed(one)) == {run: "updated"}
    assert outcomes(pulled(other)) == {run: "updated"}
    for folder in (there(lab, run), other.folder(run)):
        assert contents(folder) == contents(one.folder(run))
    assert unsound(other.store.root) == []
    # Who still has the older one pushes nothing over it.
    assert outcomes(pushed(other)) == {run: "same"}


def test_a_torn_line_keeps_nothing_from_coming(two: Two, lab: Path) -> None:
    one, other = two
    run = rich(one)
    pushed(one)
    pulled(other)
    marks = RunLayout(other.folder(run)).marks
    marks.write_bytes(marks.read_bytes()[:-9])
    add_mark(RunLayout(one.folder(run)), "label", "late")
    assert outcomes(pushed(one)) == {run: "updated"}
    assert outcomes(pulled(other)) == {run: "updated"}
    found = read_run(other.folder(run), store_root=other.store.root)
    assert set(found.labels) == {"keep", "late"}
    assert found.notes == ("a note",)
    assert outcomes(pushed(other)) == {run: "same"}


def test_what_was_lost_on_one_side_comes_again(two: Two, lab: Path) -> None:
    one, other = two
    run = rich(one)
    pushed(one)
    pulled(other)
    whole = contents(one.folder(run))
    lost = ("points/part-a1-r0-1-3.parquet", "checkpoints/step=300/model.pt", "artifacts/plot.bin")
    for folder, again in (
        (there(lab, run), lambda: pushed(one)),
        (other.folder(run), lambda: pulled(other)),
    ):
        for path in lost:
            (folder / path).unlink()
        assert outcomes(again()) == {run: "updated"}
        assert contents(folder) == whole


def test_files_of_the_user_that_differ_stay_as_they_are_and_are_named(two: Two, lab: Path) -> None:
    one, other = two
    run = rich(one)
    pushed(one)
    pulled(other)
    own = other.folder(run) / "plots/own.txt"
    own.write_text("drawn again")
    (other.folder(run) / "plots/more.txt").write_text("more")
    done = pushed(other)
    assert outcomes(done) == {run: "updated"}
    assert done.runs[0].kept == ("plots/own.txt",)
    assert (there(lab, run) / "plots/own.txt").read_text() == "of the user's script\n"
    assert (there(lab, run) / "plots/more.txt").read_text() == "more"
    got = pulled(other)
    assert own.read_text() == "drawn again"
    assert got.runs[0].kept == ("plots/own.txt",)


def test_a_log_that_grew_comes_and_one_that_differs_stays(two: Two, lab: Path) -> None:
    one, other = two
    run = rich(one)
    pushed(one)
    pulled(other)
    log = RunLayout(one.folder(run)).attempt(1) / "log.txt"
    log.write_text(log.read_text() + "step 2\n")
    assert outcomes(pushed(one)) == {run: "updated"}
    assert outcomes(pulled(other)) == {run: "updated"}
    assert contents(other.folder(run)) == contents(one.folder(run))
    log.write_text("another\n")
    assert pushed(one).runs[0].kept == ("attempts/1/log.txt",)


def test_summaries_follow_the_side_that_went_on(two: Two, lab: Path) -> None:
    one, other = two
    run = rich(one, state="preempted")
    pushed(one)
    pulled(other)
    resumed(one, run)
    pushed(one)
    add_mark(RunLayout(other.folder(run)), "label", "mine")
    assert outcomes(pushed(other)) == {run: "updated"}
    assert load(RunLayout(there(lab, run)).series_json).attempt == 2
    assert outcomes(pulled(one)) == {run: "updated"}
    assert outcomes(pulled(other)) == {run: "updated"}
    for world in two:
        found = read_run(world.folder(run), store_root=world.store.root)
        assert (found.labels, found.last_step, found.problems) == (("keep", "mine"), 400, ())
        assert unsound(world.store.root) == []


def test_a_killed_run_is_sealed_by_the_look_and_then_pushed(two: Two, lab: Path) -> None:
    one, _ = two
    run = one.run(state="running", checkpoints=())
    layout = RunLayout(one.folder(run))
    item = Recorder(layout, run=run, attempt=1)
    for step in range(301, 310):
        item.write(("val/loss",), (1.0,), step, step)
    item.abandon()
    assert list(layout.attempt(1).glob("*.wal"))
    assert outcomes(pushed(one)) == {run: "new"}
    assert list(there(lab, run).glob("attempts/*/*.wal")) == []
    assert points(there(lab, run)) == points(one.folder(run))
    assert read_run(there(lab, run), store_root=lab).state.value == "crashed"


def test_it_goes_through_a_pipe_of_rsync_without_times(two: Two, lab: Path) -> None:
    one, other = two
    run = rich(one)
    pushed(one)
    for path in lab.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assert outcomes(pulled(other)) == {run: "new"}
    assert contents(other.folder(run)) == contents(one.folder(run))
    assert outcomes(pushed(other)) == {run: "same"}
