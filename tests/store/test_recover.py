"""What a recovery writes, what it keeps and what it leaves alone; its kills are in tests/faults."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expdb.errors import Conflict, Corrupt, Unsupported
from expdb.model import Attempt, Pin, RunState
from expdb.store import attempts, series
from expdb.store.attempts import write_pin
from expdb.store.files import exclusive, write_json
from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from expdb.store.recover import needs_recovery, recount, recover
from expdb.store.runs import read_run
from expdb.store.status import Status, read_status, write_status
from tests.faults.lives import left_behind, others, steps

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]


def state(layout: RunLayout, store_root: Path) -> RunState:
    return read_run(layout.root, store_root=store_root).state


# ------------------------------------------------------------------------------- what it writes


def test_a_recovered_run_says_when_it_last_lived_and_how_far_it_came(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = make_run_dir()
    write_status(layout, Status(max_steps=300, last_step=3, unknown={"later": [1]}))
    left_behind(layout)
    for path in layout.attempt(1).iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    os.utime(max(layout.attempt(1).glob("*.wal")), (1_700_000_500, 1_700_000_500))
    assert recover(store_root, layout) is RunState.CRASHED
    status = read_status(layout)
    assert (status.state, status.reason) == ("crashed", "the process died without a word")
    assert (status.last_step, status.max_steps, status.attempt) == (13, 300, 1)
    assert status.ended_at_ms == 1_700_000_500_000
    assert status.unknown["later"] == [1]
    assert status.files["series.json"] == layout.series_json.stat().st_size
    assert series.load(layout.series_json)["a"].count == 14


def test_a_run_killed_before_its_first_status_or_attempt_is_recorded(
    make_run_dir: MakeRun, store_root: Path, dead: dict[str, Any]
) -> None:
    layout = make_run_dir(None, who=dead)
    assert recover(store_root, layout) is RunState.CRASHED
    assert read_status(layout).state == "crashed"
    layout = make_run_dir(None, who=dead)
    (layout.attempt(1) / "owner.json").unlink()
    layout.attempt(1).rmdir()
    assert recover(store_root, layout) is RunState.CRASHED


def test_an_ended_or_living_run_is_left_alone(
    make_run_dir: MakeRun, store_root: Path, dead: dict[str, Any]
) -> None:
    for layout in (make_run_dir("finished", who=dead), make_run_dir("running")):
        Recorder(layout, run=layout.id, attempt=1).close()
        was = layout.status_json.stat().st_mtime_ns
        found = recover(store_root, layout)
        assert found is state(layout, store_root)
        assert layout.status_json.stat().st_mtime_ns == was


def test_assume_dead_seals_what_seems_alive(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = make_run_dir()
    item = Recorder(layout, run=layout.id, attempt=1)
    item.write(("a",), (1.0,), 1, 0)
    assert recover(store_root, layout) is RunState.RUNNING
    assert recover(store_root, layout, assume_dead=True) is RunState.CRASHED
    item.abandon()
    assert others(layout) == [1]


def test_a_damaged_status_stays_for_who_looks_into_it(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = make_run_dir()
    left_behind(layout)
    layout.status_json.write_bytes(b"{")
    assert recover(store_root, layout) is RunState.CRASHED
    assert layout.status_json.read_bytes() == b"{"
    assert steps(layout) == others(layout) == list(range(14))
    assert "status.json" in read_run(layout.root, store_root=store_root).problems[0]
    assert recover(store_root, layout) is RunState.CRASHED


def test_damage_in_a_journal_is_kept_aside(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = make_run_dir()
    left_behind(layout, torn=False)
    first, last = sorted(layout.attempt(1).glob("*.wal"))
    data = bytearray(first.read_bytes())
    data[-30] ^= 1  # in its last frame
    first.write_bytes(data)
    (layout.attempt(1) / "rank-0.99.wal").write_bytes(b"something else")
    before = steps_with_problems(layout)
    assert recover(store_root, layout) is RunState.CRASHED
    assert others(layout) == before
    assert len(before) == 13
    found = [path for path in layout.attempt(1).iterdir() if path.suffix in (".torn", ".damaged")]
    assert {path.name: path.read_bytes() for path in found} == {
        f"{first.name}.torn": bytes(data),
        "rank-0.99.wal.damaged": b"something else",
    }
    assert not last.exists()
    run = read_run(layout.root, store_root=store_root)
    assert run.problems == (
        "rank-0.99.wal is not a journal; kept as attempts/1/rank-0.99.wal.damaged",
    )


def test_damage_in_the_middle_of_a_journal_is_named_for_as_long_as_its_file_is_there(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = make_run_dir()
    left_behind(layout, torn=False)
    last = max(layout.attempt(1).glob("*.wal"))
    data = bytearray(last.read_bytes())
    data[-100] ^= 1  # in the last frame but one
    last.write_bytes(data)
    live = read_run(layout.root, store_root=store_root)
    said = f"{last.name}: damaged after 2 whole frames; 1 of 1 behind it could be read"
    assert live.problems == (said,)
    assert recover(store_root, layout) is RunState.CRASHED
    assert others(layout) == [*range(12), 13]  # what stands behind the damage is kept
    assert not needs_recovery(layout)
    for _ in range(2):
        run = read_run(layout.root, store_root=store_root)
        kept = layout.attempt(1) / f"{last.name}.damaged"
        assert run.problems == (f"{said}; kept as attempts/1/{kept.name}",)
        assert run.series["a"].count == live.series["a"].count == 13
        assert recover(store_root, layout) is RunState.CRASHED
    assert kept.read_bytes() == bytes(data)
    kept.with_name(f"{kept.name}.json").unlink()
    [problem] = read_run(layout.root, store_root=store_root).problems
    assert problem == f"{last.name}: damaged; kept as attempts/1/{kept.name}"
    kept.unlink()
    assert read_run(layout.root, store_root=store_root).problems == ()


def test_a_torn_end_is_no_problem_after_the_recovery(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = make_run_dir()
    left_behind(layout)
    assert "torn at its end" in read_run(layout.root, store_root=store_root).problems[0]
    recover(store_root, layout)
    assert [path.name for path in layout.attempt(1).glob("*.torn")] != []
    assert read_run(layout.root, store_root=store_root).problems == ()


# ---------------------------------------------------------------------------------- summaries


def two_parts(layout: RunLayout) -> list[Path]:
    """A finished run of two parts with the keys `a` and `b`."""
    for number, start in ((1, 0), (2, 10)):
        layout.attempt(number).mkdir(exist_ok=True)
        write_pin(layout, Attempt(number=number, pin=Pin(), resumed_from=start or None))
        book = series.load(layout.series_json)
        item = Recorder(layout, run=layout.id, attempt=number, book=book)
        for step in range(start + (start > 0), start + 11):
            item.write(("a", "b"), (float(step), 0.5), step, step)
        item.close()
    write_status(layout, Status(state="finished", last_step=20, attempt=2))
    return sorted(layout.points.iterdir())


@pytest.mark.parametrize("keys", [None, ["a"]])
def test_points_that_cannot_be_read_take_nothing_from_a_summary(
    make_run_dir: MakeRun, store_root: Path, keys: list[str] | None
) -> None:
    layout = make_run_dir()
    first, _ = two_parts(layout)
    whole = read_run(layout.root, store_root=store_root)
    assert (whole.series["a"].count, whole.series["a"].min, whole.problems) == (21, 0.0, ())
    data = bytearray(first.read_bytes())
    data[len(data) // 3] ^= 1
    first.write_bytes(data)
    problems: list[str] = []
    book = recount(layout, keys=keys, problems=problems)
    assert problems == [f"{first.name} is damaged"]
    assert dict(book.series) == dict(series.load(layout.series_json).series) == dict(whole.series)
    run = read_run(layout.root, store_root=store_root)
    num = 2 if keys is None else 1
    assert run.problems == (f"series.json: {num} series were not counted from all their points",)
    layout.series_json.unlink()  # what can be counted is better than nothing, and is marked
    assert recount(layout)["a"].count == 10
    assert series.load(layout.series_json).unordered == {"a", "b"}
    data[len(data) // 3] ^= 1
    first.write_bytes(data)
    assert dict(recount(layout, problems=problems).series) == dict(whole.series)
    assert read_run(layout.root, store_root=store_root).problems == ()
    assert len(problems) == 1


def test_a_crashed_run_with_a_damaged_part_keeps_what_was_counted(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = make_run_dir()
    left_behind(layout, torn=False)
    [part] = layout.points.iterdir()
    live = read_run(layout.root, store_root=store_root)
    assert live.series["a"].count == 14
    part.write_bytes(part.read_bytes()[:50])
    assert recover(store_root, layout) is RunState.CRASHED
    run = read_run(layout.root, store_root=store_root)
    assert dict(run.series) == dict(live.series)
    assert run.last_step == 13
    assert run.problems != ()


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"series":{"a":{}}}'])
@pytest.mark.parametrize("state", ["finished", "failed", "preempted", "crashed"])
def test_summaries_that_are_missing_or_damaged_are_named_and_counted_again(
    make_run_dir: MakeRun, store_root: Path, content: bytes | None, state: str
) -> None:
    layout = make_run_dir()
    two_parts(layout)
    write_status(layout, Status(state=state, last_step=20, attempt=2))
    was = read_run(layout.root, store_root=store_root)
    assert not needs_recovery(layout)
    layout.series_json.unlink()
    if content is not None:
        layout.series_json.write_bytes(content)
    [problem] = read_run(layout.root, store_root=store_root).problems
    assert problem.startswith("series.json is ")
    assert needs_recovery(layout)
    assert recover(store_root, layout) is RunState(state)
    run = read_run(layout.root, store_root=store_root)
    assert (run.state, run.problems) == (was.state, ())
    assert dict(run.series) == dict(was.series)


def test_a_run_without_points_misses_no_summaries(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = make_run_dir("finished")
    assert read_run(layout.root, store_root=store_root).problems == ()
    assert not needs_recovery(layout)


def test_a_checkpoint_cut_off_between_two_renames_comes_back(
    make_run_dir: MakeRun, store_root: Path, dead: dict[str, Any]
) -> None:
    layout = make_run_dir("crashed", who=dead)
    aside = layout.checkpoints / ".tmp-old-step=300"
    aside.mkdir(parents=True)
    write_json(aside / "manifest.json", {"format": 1, "attempt": 1, "parts": {}, "files": {}})
    (layout.checkpoints / ".tmp-step=300").mkdir()
    assert read_run(layout.root, store_root=store_root).checkpoints == ()
    assert needs_recovery(layout)
    with exclusive(store_root / f".expdb/locks/run-{layout.id}.lock", what="it"):
        with pytest.raises(Conflict):
            recover(store_root, layout)
        assert aside.exists()
    recover(store_root, layout)
    [found] = read_run(layout.root, store_root=store_root).checkpoints
    assert (found.step, found.complete) == (300, True)
    assert (layout.checkpoints / ".tmp-step=300").exists()  # only a new owner takes things away
    assert not needs_recovery(layout)


def steps_with_problems(layout: RunLayout) -> list[int]:
    problems: list[str] = []
    found = read_series(layout.root, ["a"], problems=problems)["step"].to_pylist()
    assert len(problems) == 2
    return sorted(found)


def test_a_newer_journal_or_a_damaged_list_stops_the_recovery_and_nothing_goes(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    for spoil, error in (
        (lambda at: at.parts_list(1, 0).write_bytes(b"{"), Corrupt),
        (lambda at: at.journal(1, 0, 9).write_bytes(b"EXPDBJ\x63" + bytes(50)), Unsupported),
    ):
        layout = make_run_dir()
        left_behind(layout)
        spoil(layout)
        was = {path.name for path in layout.attempt(1).iterdir()}
        with pytest.raises(error):
            recover(store_root, layout)
        assert {path.name for path in layout.attempt(1).iterdir()} == was


def test_points_of_the_attempt_that_goes_on_are_not_sealed(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = make_run_dir()
    left_behind(layout, torn=False)
    number = attempts.claim(layout)
    item = Recorder(layout, run=layout.id, attempt=number)
    item.write(("a",), (1.0,), 20, 0)
    assert state(layout, store_root) is RunState.RUNNING
    assert recover(store_root, layout) is RunState.RUNNING
    assert others(layout) == list(range(7))
    item.write(("a",), (1.0,), 21, 0)
    item.close()
    assert steps(layout) == [*range(14), 20, 21]


def test_a_lost_list_takes_no_part_with_it(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = make_run_dir()
    left_behind(layout, torn=False)
    sound = steps(layout)
    listed = layout.parts_list(1, 0)
    before = listed.read_bytes()
    listed.unlink()
    parts = sorted(path.name for path in layout.points.iterdir())
    with pytest.raises(Corrupt, match="is on no list, and no journal has its points") as caught:
        recover(store_root, layout)
    assert caught.value.hints == (f"expdb fsck {layout.id} --repair",)
    assert sorted(path.name for path in layout.points.iterdir()) == parts
    listed.write_bytes(before)
    assert steps(layout) == sound
    recover(store_root, layout)
    assert steps(layout) == sound == others(layout)
