from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expdb.store import attempts, fold_parts, recorder
from expdb.store.fsck.check import check_store
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.parts import read_folded
from expdb.store.points import read_series
from tests.store.fsck_made import (
    check,
    finished,
    flip,
    killed,
    log,
    name_ref,
    points,
    repair,
    said,
    save,
    seal_now,
    whole,
)

MakeRun = Callable[..., RunLayout]


def test_a_sound_store_is_sound_and_counted(make_run_dir: MakeRun, store_root: Path) -> None:
    runs = [finished(make_run_dir) for _ in range(2)]
    name_ref(store_root, "baseline", runs[0].id)
    name_ref(store_root, "baseline", runs[1].id, before=runs[0].id)
    before = whole(store_root)
    found = check(store_root)
    assert found.findings == []
    counts = found.counts
    assert (counts.runs, counts.checkpoints, counts.refs, counts.ops) == (2, 4, 1, 2)
    num_files = sum(path.is_file() for run in runs for path in run.root.rglob("*"))
    assert counts.files == num_files + 1 + 2
    assert whole(store_root) == before


def test_an_empty_store_is_sound(store_root: Path) -> None:
    assert check(store_root).findings == []


def test_the_progress_comes_to_its_end(make_run_dir: MakeRun, store_root: Path) -> None:
    for _ in range(3):
        finished(make_run_dir)
    told: list[tuple[int, int]] = []
    check_store(StoreLayout(store_root), tick=lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_killed_run_whose_journal_is_whole_is_no_damage(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = killed(make_run_dir, torn=b"")
    assert check(store_root).findings == []
    before = points(layout)
    assert len(before) == 32
    repair(store_root)
    assert points(layout) == before
    assert list(layout.attempt(1).glob("*.wal*")) == []
    assert check(store_root).findings == []


def test_a_run_of_several_attempts_is_sound(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = killed(make_run_dir, torn=b"")
    repair(store_root)
    number = attempts.claim(layout)
    item = log(layout, range(10, 14), attempt=number)
    seal_now(item)
    item.write(("late",), (float("nan"),), 3, 4)
    item.close()
    found = check(store_root)
    assert (found.live, found.findings) == ([layout.id], [])


def test_a_live_run_is_looked_at_and_never_touched(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = make_run_dir()
    item = log(layout, range(6))
    seal_now(item)
    item.write(("a",), (1.0,), 7, 0)
    save(layout, 5)
    assert check(store_root).live == [layout.id]
    assert check(store_root).findings == []
    [part] = layout.points.iterdir()
    flip(part, 60)
    flip(layout.checkpoint(5) / "model.pt", 3)
    before = whole(store_root)
    rows, left = repair(store_root)
    assert [row.result for row in rows] == ["kept", "kept"]
    assert said(left.problems) == said(rows)
    assert whole(store_root) == before
    item.abandon()


def test_what_is_not_expdbs_is_named_and_left_alone(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = finished(make_run_dir)
    (store_root / "exp=old").mkdir()
    (store_root / "exp=old" / "model.bin").write_bytes(b"1")
    (layout.root.parent / "copy of run").mkdir()
    (store_root / "notes.txt").write_text("mine")
    (layout.points / "readme.txt").write_text("mine")
    for folder in (store_root, layout.root.parent, layout.root, layout.points, layout.checkpoints):
        for name in (".gitkeep", ".gitignore", ".DS_Store", ".nfs0000a1", "._x", "lost+found"):
            (folder / name).touch()  # what git, file managers and file systems leave anywhere
    (layout.checkpoints / ".tmp-step=30").mkdir()
    (layout.checkpoints / ".tmp-step=30" / "model.pt").write_bytes(b"12")
    before = whole(store_root)
    rows, left = repair(store_root)
    assert sorted(said(rows)) == [
        "leftover checkpoints/.tmp-step=30",
        "stray exp=baseline/copy of run",
        "stray exp=old",
        "stray notes.txt",
        "stray points/readme.txt",
    ]
    assert left.problems == []
    assert whole(store_root) == before


@pytest.mark.parametrize("state", ["alive", "dead"])
def test_a_folder_that_is_no_run_yet(
    make_run_dir: MakeRun, store_root: Path, dead: dict[str, Any], state: str
) -> None:
    layout = make_run_dir(None, who="me" if state == "alive" else dead)
    layout.run_json.unlink()
    found = check(store_root)
    assert found.counts.runs == 0
    assert [item.kind for item in found.findings] == ["leftover"] * (state == "dead")


def test_only_the_named_runs_are_looked_at(make_run_dir: MakeRun, store_root: Path) -> None:
    good, bad = finished(make_run_dir), finished(make_run_dir)
    bad.run_json.write_bytes(b"{")
    assert check_store(StoreLayout(store_root), [good.root]).findings == []
    assert said(check_store(StoreLayout(store_root), [bad.root]).findings) == ["damaged run.json"]


def test_the_points_of_a_test_run_are_what_they_seem(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = finished(make_run_dir)
    assert read_series(layout.root)["step"].to_pylist() == [*range(20)] * 2


def test_files_that_wait_for_their_end_after_a_folding_are_no_finding(
    make_run_dir: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 10)
    monkeypatch.setattr(fold_parts, "MAX_PARTS", 1)
    layout = finished(make_run_dir)
    root = layout.root.parents[1]
    before = points(layout)
    assert fold_parts.fold_parts(root, layout) > 0
    assert read_folded(layout.parts_list(1, 0)) != ()
    assert check(root).findings == []
    assert points(layout) == before
