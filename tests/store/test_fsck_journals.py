"""Damaged journals: what can be read of them is kept, and nothing else is taken."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from expdb.store.files import write_json
from expdb.store.journal import encode_header
from expdb.store.layout import RunLayout
from expdb.store.parts import read_list, write_list
from expdb.store.runs import read_run
from tests.store.fsck_made import (
    check,
    flip,
    killed,
    points,
    repair,
    said,
)

pytestmark = pytest.mark.slow


MakeRun = Callable[..., RunLayout]


def test_a_torn_journal_is_named_and_sealed(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = killed(make_run_dir)
    before = points(layout)
    [found] = check(store_root).findings
    assert found.what == "rank-0.2.wal: torn at its end; all 9 whole frames kept"
    assert (found.can_mend, found.points_lost) == (True, 0)
    [row], left = repair(store_root)
    assert (row.result, left.findings) == ("mended", [])
    assert points(layout) == before
    assert read_run(layout.root, store_root=store_root).series["val/loss"].count == 16


def test_a_zeroed_journal_end_is_not_data(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = killed(make_run_dir, torn=bytes(4096))
    before = points(layout)
    [row], left = repair(store_root)
    assert (row.result, left.findings, points(layout)) == ("mended", [], before)


def test_damage_within_a_journal_keeps_what_is_behind_it(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = killed(make_run_dir, torn=b"")
    flip(layout.attempt(1) / "rank-0.2.wal", -150)
    before = points(layout)
    assert len(before) == 30
    [found] = check(store_root).findings
    assert "damaged after 6 whole frames; 2 of 2 behind it could be read" in found.what
    assert (found.points_lost, found.is_least) == (1, True)
    rows, left = repair(store_root)
    assert (len(rows), left.findings, points(layout)) == (1, [], before)
    assert [path.name for path in layout.attempt(1).glob("*.wal*")] == []
    [kept] = (store_root / ".expdb/trash").rglob("rank-0.2.wal.damaged")
    assert len(kept.read_bytes()) > 500


def test_a_damaged_header_costs_nothing(make_run_dir: MakeRun, store_root: Path) -> None:
    sound, layout = killed(make_run_dir, torn=b""), killed(make_run_dir, torn=b"")
    flip(layout.attempt(1) / "rank-0.2.wal", 20)
    assert len(points(layout)) == 16
    [found] = check(store_root).findings
    assert found.what == "the header of rank-0.2.wal is damaged; 8 whole frames behind it"
    assert found.points_lost == 0
    _, left = repair(store_root)
    assert left.findings == []
    assert points(layout) == points(sound)
    assert check(store_root).findings == []
    assert read_run(layout.root, store_root=store_root).series["val/loss"].count == 16


def test_a_journal_that_was_set_beside_before_is_looked_through(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    from expdb.store.recover import recover

    sound, layout = killed(make_run_dir, torn=b""), killed(make_run_dir, torn=b"")
    flip(layout.attempt(1) / "rank-0.2.wal", 20)
    recover(store_root, layout)
    assert len(points(layout)) == 16
    [found] = check(store_root).problems
    assert found.path.endswith("attempts/1/rank-0.2.wal.damaged")
    _, left = repair(store_root)
    assert (left.findings, points(layout)) == ([], points(sound))


def test_what_is_no_journal_is_set_aside(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = killed(make_run_dir)
    layout.journal(1, 0, 9).write_bytes(b"something else")
    before = points(layout)
    repair(store_root)
    assert points(layout) == before
    assert check(store_root).findings == []
    [kept] = (store_root / ".expdb/trash").rglob("rank-0.9.wal.damaged")
    assert kept.read_bytes() == b"something else"


def test_frames_of_another_run_are_not_taken(make_run_dir: MakeRun, store_root: Path) -> None:
    other, layout = killed(make_run_dir, torn=b""), killed(make_run_dir, torn=b"")
    repair(store_root)
    data = other_journal(make_run_dir)
    (layout.attempt(1) / "rank-0.7.wal.damaged").write_bytes(data)
    before = points(layout)
    repair(store_root)
    assert points(layout) == before == points(other)
    assert check(store_root).findings == []


def other_journal(make_run_dir: MakeRun) -> bytes:
    layout = killed(make_run_dir, torn=b"")
    data = (layout.attempt(1) / "rank-0.2.wal").read_bytes()
    shutil.rmtree(layout.root)
    assert data.startswith(encode_header(run=layout.id, attempt=1, rank=0)[:6])
    return data


def test_a_lost_part_comes_back_from_a_journal_that_has_its_points(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = killed(make_run_dir)
    sound = points(layout)
    repair(store_root)
    assert [path.name for path in layout.attempt(1).glob("*.torn")] == ["rank-0.2.wal.torn"]
    last = max(layout.points.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    flip(last, 80)
    assert len(points(layout)) == 16
    [found] = check(store_root).findings
    assert found.what.endswith("its journal has them all")
    assert (found.can_mend, found.points_lost) == (True, 0)
    _, left = repair(store_root)
    assert (left.findings, points(layout)) == ([], sound)
    last.unlink()
    assert said(check(store_root).findings) == [f"missing points/{last.name}"]
    _, left = repair(store_root)
    assert (left.findings, points(layout)) == ([], sound)


def test_a_lost_list_beside_a_journal_costs_no_part(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    for spoiled in (b"{", None):
        layout = killed(make_run_dir, torn=b"")
        sound = points(layout)
        if spoiled is None:
            layout.parts_list(1, 0).unlink()
        else:
            layout.parts_list(1, 0).write_bytes(spoiled)
        kind = "missing" if spoiled is None else "damaged"
        assert said(check(store_root).problems) == [f"{kind} attempts/1/rank-0.json"]
        _, left = repair(store_root)
        assert (left.findings, points(layout)) == ([], sound)
        assert len(read_list(layout.parts_list(1, 0))) == 2


def test_a_part_whose_frames_the_journal_still_has_is_left_to_the_recovery(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = killed(make_run_dir, torn=b"")
    sound = points(layout)
    entries = read_list(layout.parts_list(1, 0))
    before = (layout.attempt(1) / "rank-0.2.wal").read_bytes()
    repair(store_root)
    (layout.attempt(1) / "rank-0.2.wal").write_bytes(before)
    write_list(layout.parts_list(1, 0), entries)  # as a kill between the part and its list leaves
    write_json(layout.status_json, {"state": "running"})
    assert check(store_root).findings == []
    repair(store_root)
    assert points(layout) == sound
    assert check(store_root).findings == []
