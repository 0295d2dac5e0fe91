"""A repair that is killed before any one of its file operations, and done again: the same store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from expdb.store.layout import RunLayout, StoreLayout
from tests.faults.killing import Child, kill_before
from tests.store.fsck_made import (
    check,
    finished,
    flip,
    killed,
    name_ref,
    points,
    repair,
    said,
    whole,
)

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]
STRIDES = pytest.mark.parametrize(
    "stride", [pytest.param(53, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)]
)


def dies(root: Path, number: int) -> bool:
    """Repair in a child that dies before its `number`-th operation; False when it came through."""

    def work(child: Child) -> None:
        kill_before(number)
        repair(root)

    return not Child(work).survives()


def spoil(make_run_dir: MakeRun, root: Path) -> list[Path]:
    """A store with damage of many kinds; return its run folders."""
    lost, parts = (killed(make_run_dir, torn=b"") for _ in range(2))
    flip(lost.attempt(1) / "rank-0.2.wal", 20)
    lost.parts_list(1, 0).unlink()
    flip(parts.attempt(1) / "rank-0.2.wal", -150)
    with (parts.attempt(1) / "rank-0.2.wal").open("ab") as file:
        file.write(b"\xdb\xe7")
    parts.parts_list(1, 0).write_bytes(b"")
    many = finished(make_run_dir)
    (many.attempt(1) / "pin.json").write_bytes(b"")
    (many.evals / "e1.json").write_bytes(b"")
    many.series_json.write_bytes(b"{")
    many.status_json.write_bytes(b"{")
    flip(many.checkpoint(20) / "model.pt", 2)
    many.marks.write_bytes(many.marks.read_bytes().replace(b"{", b"<", 1))
    gone = finished(make_run_dir)
    flip(next(gone.points.iterdir()), 60)
    (gone.points / "part-x.parquet").write_bytes(b"1")
    name_ref(root, "baseline", many.id)
    StoreLayout(root).ref("baseline").write_bytes(b"")
    return [layout.root for layout in (lost, parts, many, gone)]


@STRIDES
def test_a_repair_that_is_killed_and_done_again_comes_to_the_same(
    make_run_dir: MakeRun, store_root: Path, tmp_path: Path, stride: int
) -> None:
    folders = [path.relative_to(store_root) for path in spoil(make_run_dir, store_root)]
    before = {path: points(RunLayout(store_root / path)) for path in folders}
    spoilt = tmp_path / "spoilt"
    shutil.copytree(store_root, spoilt)
    repair(store_root)
    wanted = whole(store_root)
    left = said(check(store_root).problems)
    assert len(left) == 1
    after = {path: points(RunLayout(store_root / path)) for path in folders}
    assert all(set(before[path]) <= set(after[path]) for path in folders)
    assert [len(after[path]) for path in folders] == [32, 30, 40, 0]
    number = 1
    while True:
        shutil.rmtree(store_root)
        shutil.copytree(spoilt, store_root)
        was_killed = dies(store_root, number)
        for path in folders:  # half mended it reads no worse
            assert set(before[path]) <= set(points(RunLayout(store_root / path)))
        repair(store_root)
        assert whole(store_root) == wanted, number
        assert said(check(store_root).problems) == left
        if not was_killed:
            break
        number += stride
    assert number > 60
