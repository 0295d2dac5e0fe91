"""What processes do that are then killed or find no space, and how their runs are looked at."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from expdb.model import Run, RunState
from expdb.store import owner, recorder
from expdb.store.files import write_json
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from expdb.store.recover import needs_recovery, recount, recover
from expdb.store.runs import read_run
from tests.faults.counting import Tally
from tests.faults.killing import Child
from tests.store.fsck_made import check, said

SOAK = int(os.environ.get("SOAK", "1"))
STRIDES = pytest.mark.parametrize(
    "stride", [pytest.param(5, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)]
)
"""Every how many operations a sweep strikes: all of them in `make soak`."""
DEAD = (RunState.CRASHED, RunState.FINISHED)


def sweep(survives: Callable[[int], bool], faults: Tally, stride: int) -> int:
    """Strike at operation after operation until the process comes through; return the last one."""
    number = random.randrange(stride) + 1
    while not survives(number):
        faults.fault()
        number += stride
    return number


def far(stride: int) -> int:
    """Stand further apart where only some operations are struck: each costs much."""
    return stride if stride == 1 else 4 * stride


def own(layout: RunLayout) -> None:
    """Make this process the owner of the first attempt."""
    write_json(layout.attempt(1) / "owner.json", owner.describe(), durable=False)


def steps(layout: RunLayout, *, attempts: bool = True, key: str = "a") -> list[int]:
    """The steps of a key; a torn end is no problem, all else is."""
    problems: list[str] = []
    found = read_series(layout.root, [key], attempts=attempts, problems=problems)
    assert [text for text in problems if "torn at its end" not in text] == []
    return sorted(found["step"].to_pylist())


def others(layout: RunLayout, key: str = "a") -> list[int]:
    """What an engine that knows nothing of lists reads of a key."""
    found: list[int] = []
    for path in layout.points.glob("part-*.parquet"):
        found += pq.read_table(path, filters=[("key", "=", key)])["step"].to_pylist()
    return sorted(found)


def unsound(root: Path) -> list[str]:
    """What fsck calls a problem of a store."""
    return said(check(root).problems)


def finish(layout: RunLayout, root: Path) -> None:
    """See that fsck finds nothing wrong with a store, and take a run away that was looked at."""
    assert unsound(root) == []
    shutil.rmtree(layout.root)


def check_recovered(layout: RunLayout, store_root: Path, told: int, faults: Tally) -> None:
    """All that was told is there once, before and after, and recovering again changes nothing."""
    before, live = steps(layout), read_run(layout.root, store_root=store_root)
    faults.compare(range(told + 1), before, begun=[told + 1])
    assert live.state in DEAD
    recover(store_root, layout)
    assert steps(layout) == before == others(layout)
    assert not needs_recovery(layout)
    run = read_run(layout.root, store_root=store_root)
    assert run.state is live.state
    if before:
        assert run.series["a"].count == len(before)
        assert repr(run.series["a"]) == repr(live.series["a"])
    assert repr(dict(run.series)) == repr(dict(recount(layout).series))
    was = {path: path.stat().st_mtime_ns for path in layout.root.rglob("*") if path.is_file()}
    assert recover(store_root, layout) is run.state
    assert {path: path.stat().st_mtime_ns for path in was} == was


def left_behind(layout: RunLayout, *, torn: bool = True) -> None:
    """What a process leaves that dies after a seal, with points in two journals."""

    def work(child: Child) -> None:
        own(layout)
        item = Recorder(layout, run=layout.id, attempt=1)
        for step in range(14):
            item.write(("a", "b"), (float(step), 0.5), step, step)
            if step == 5:
                recorder.SEAL_POINTS = 1  # type: ignore[misc]
                item._look_at = 0
            elif step == 6:
                assert item._sealing is not None
                item._sealing.join()
                item._seal_at = time.monotonic() + 3600
            elif step == 10:
                item._switch_journal(seq=item._seq + 1)
                item._seq += 1

    assert Child(work).survives()
    assert len(list(layout.attempt(1).glob("*.wal"))) == 2
    if torn:
        last = max(layout.attempt(1).glob("*.wal"))
        last.write_bytes(last.read_bytes() + b"\xdb\xe7\x30")


def run_dirs_of(root: Path) -> list[Path]:
    """The run folders of a store that have an identity."""
    return sorted(path.parent for path in root.glob("exp=*/run=*/run.json"))


def only_run(root: Path) -> Run | None:
    """The one run of a store, if it came as far as having an identity."""
    found = run_dirs_of(root)
    assert len(found) <= 1
    return read_run(found[0], store_root=root) if found else None


def config(**more: Any) -> dict[str, Any]:
    """The config of a run that says nothing but warnings."""
    return {"expdb": {"print": "quiet", **more}}


def leftovers(root: Path, names: Sequence[str] = (".tmp-*",)) -> list[str]:
    """Temporary files of a store, relative to it, but those of the index."""
    index = StoreLayout(root).index
    found = [path for name in names for path in root.rglob(name)]
    return sorted(str(p.relative_to(root)) for p in found if not p.is_relative_to(index))


def fill(disk: Path, *, leave: int = 0) -> Path:
    """Take all space of a file system but some bytes; return the file that has it."""
    path = disk / "filler"
    with path.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
    if leave:
        os.truncate(path, path.stat().st_size - leave)
    return path
