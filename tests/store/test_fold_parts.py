from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.errors import Conflict, Corrupt
from expdb.model import Attempt, Pin
from expdb.store import attempts, fold_parts, parts, recorder, writers
from expdb.store.files import write_json
from expdb.store.fold_parts import MAX_PARTS
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.store.parts import read_folded, read_list, read_part, write_list
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from expdb.store.recover import run_lock
from expdb.store.status import Status, read_status, write_status
from tests.faults.lives import STRIDES

KEYS = ["a", "b", "Loss", "loss", "é/数", "\U0001f600", "\uffff"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store")
    (root / ".expdb").mkdir()
    return root


def made(store: Path, logged: list[tuple[int, list[str], int]], *, limit: int = 4) -> RunLayout:
    """A finished run of the logged (rank, keys, step), with a part for every few points."""
    run = new_id()
    layout = RunLayout(store / "exp=exp01" / f"run={run}")
    layout.attempt(1).mkdir(parents=True)
    attempts.write_pin(layout, Attempt(number=1, pin=Pin()))
    write_json(layout.attempt(1) / "owner.json", {"host": "", "boot": "", "pid": 0})
    identity = {"format": 1, "needs": "0", "id": run, "experiment": "exp01", "created_at_ms": 0}
    write_json(layout.root / "run.json", identity)
    recorders: dict[int, Recorder] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "SEAL_POINTS", limit)
        patch.setattr(recorder, "RETRY_S", 0.0)
        for at, (rank, keys, step) in enumerate(logged):
            item = recorders.get(rank)
            if item is None:
                item = recorders[rank] = Recorder(layout, run=run, attempt=1, rank=rank)
            item.write(tuple(keys), [at + place / 8 for place in range(len(keys))], step, at)
            if item._sealing is not None:
                item._sealing.join()
        for item in recorders.values():
            item.close()
    write_status(layout, Status(state="finished", last_step=1, ended_at_ms=1))
    return layout


def many(store: Path) -> RunLayout:
    return made(store, [(0, ["a", "b"], step) for step in range(24)])


def rows(layout: RunLayout) -> list[str]:
    return sorted(map(repr, read_series(layout.root, attempts=True).to_pylist()))


def entries(layout: RunLayout, rank: int = 0) -> tuple[parts.PartEntry, ...]:
    return read_list(layout.parts_list(1, rank))


def later(layout: RunLayout, rank: int = 0, *, seconds: float = fold_parts.KEPT_S) -> None:
    """Let the list be older than it is."""
    path = layout.parts_list(1, rank)
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def files(layout: RunLayout) -> set[str]:
    return {path.name for path in layout.points.iterdir()}


LOGGED = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True),
        st.integers(-3, 12),
    ),
    max_size=30,
)


@settings(max_examples=25)
@given(LOGGED, st.sampled_from([1, 5, 1 << 20]), st.sampled_from([6, 1 << 24]))
def test_folding_changes_no_point(store: Path, logged: list, batch: int, most: int) -> None:
    layout = made(store, logged)
    ranks = sorted({rank for rank, _, _ in logged})
    before = rows(layout)
    count = sum(len(entries(layout, rank)) for rank in ranks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_parts, "BATCH_POINTS", batch)
        patch.setattr(fold_parts, "FOLD_POINTS", most)
        fewer = fold_parts.fold_parts(store, layout)
        after = [entry for rank in ranks for entry in entries(layout, rank)]
        assert len(after) == count - fewer
        assert (fewer > 0) <= (count > MAX_PARTS)
        if count > MAX_PARTS and most > 6:
            assert len(after) == len(ranks)
        assert rows(layout) == before
        for rank in ranks:
            later(layout, rank)
        fold_parts.fold_parts(store, layout)
    assert rows(layout) == before
    assert files(layout) == {entry.file for entry in after} if logged else True
    for entry in after:
        table = read_part(layout.points / entry.file)
        assert table.num_rows == entry.num_points
        order = list(
            zip(*(table[name].to_pylist() for name in ("key", "step", "seq")), strict=True)
        )
        assert order == sorted(order)


def test_old_files_stay_for_ten_minutes(store: Path) -> None:
    layout = many(store)
    old, before, status = entries(layout), rows(layout), read_status(layout)
    assert len(old) > MAX_PARTS
    assert fold_parts.fold_parts(store, layout) == len(old) - 1
    (new,) = entries(layout)
    assert files(layout) == {entry.file for entry in (*old, new)}
    assert set(read_folded(layout.parts_list(1, 0))) == {entry.file for entry in old}
    assert f"points/{new.file}" in read_status(layout).files
    # Who has read the old list still finds all it names.
    assert sum(read_part(layout.points / entry.file).num_rows for entry in old) == 48
    later(layout, seconds=fold_parts.KEPT_S - 60)
    assert fold_parts.fold_parts(store, layout) == 0
    assert len(files(layout)) == len(old) + 1
    later(layout)
    assert fold_parts.fold_parts(store, layout) == 0
    assert files(layout) == {new.file}
    assert rows(layout) == before
    assert read_folded(layout.parts_list(1, 0)) == ()
    now = read_status(layout)
    assert [name for name in now.files if name.startswith("points/")] == [f"points/{new.file}"]
    assert (now.state, now.last_step) == (status.state, status.last_step)
    everyone = f"select count(*) from '{layout.points}/part-*.parquet'"
    seen = duckdb.sql(everyone).fetchall()
    assert seen == [(48,)]


def test_few_parts_are_left_alone(store: Path) -> None:
    layout = made(store, [(0, ["a", "b"], step) for step in range(2 * MAX_PARTS)])
    before = files(layout)
    assert len(before) == MAX_PARTS
    assert fold_parts.fold_parts(store, layout) == 0
    assert files(layout) == before


def test_a_gap_stays_a_gap(store: Path) -> None:
    """A list that says `all from here to there` would let a part that comes back be thrown away."""
    layout = many(store)
    old = entries(layout)
    write_list(layout.parts_list(1, 0), [*old[:5], *old[6:]])
    fold_parts.fold_parts(store, layout)
    spans = [(entry.first_seq, entry.last_seq) for entry in entries(layout)]
    assert spans == [(old[0].first_seq, old[4].last_seq), (old[6].first_seq, old[-1].last_seq)]
    later(layout)
    fold_parts.fold_parts(store, layout)
    assert old[5].file in files(layout)


def test_a_run_that_may_be_written_is_left_alone(store: Path) -> None:
    layout = many(store)
    before = files(layout)
    write_status(layout, Status(state="running"))
    write_json(layout.attempt(1) / "owner.json", attempts_owner())
    assert fold_parts.fold_parts(store, layout) == 0
    write_status(layout, Status(state="finished", ended_at_ms=1))
    writers.claim_rank(layout, 1, 3)  # another rank lives
    assert fold_parts.fold_parts(store, layout) == 0
    writers.close(layout, 1, 3)
    with run_lock(store, layout), pytest.raises(Conflict, match=f"run {layout.id} is held by"):
        fold_parts.fold_parts(store, layout)
    left = layout.journal(1, 0, 99)
    left.write_bytes(b"")
    assert fold_parts.fold_parts(store, layout) == 0  # it waits for its recovery
    assert files(layout) == before
    left.unlink()
    assert fold_parts.fold_parts(store, layout) > 0


def attempts_owner() -> dict[str, Any]:
    from expdb.store import owner

    return owner.describe()


@pytest.mark.parametrize("how", ["flip", "lose", "other"])
def test_a_damaged_part_leaves_all_as_it_is(store: Path, how: str) -> None:
    layout = many(store)
    old = entries(layout)
    path = layout.points / old[4].file
    if how == "lose":
        path.unlink()
    elif how == "other":
        path.write_bytes((layout.points / old[-1].file).read_bytes())
        write_list(layout.parts_list(1, 0), [*old[:4], replaced(old[4]), *old[5:]])
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 1
        path.write_bytes(data)
    old, before = entries(layout), files(layout)
    with pytest.raises(Corrupt):
        fold_parts.fold_parts(store, layout)
    assert entries(layout) == old
    assert files(layout) == before


def replaced(entry: parts.PartEntry) -> parts.PartEntry:
    last = entry.last_seq
    return parts.PartEntry(entry.file, entry.first_seq, last, entry.num_points + 1, entry.bytes)


def test_a_folded_file_goes_only_where_another_part_has_its_frames(store: Path) -> None:
    """A list that was written by hand, or by a mistake of ours, deletes nothing of worth."""
    layout = many(store)
    old, other = entries(layout), many(store)
    names = [old[0].file, "../../run.json", f"../../../{other.root.name}/points/x.parquet"]
    write_list(layout.parts_list(1, 0), old[1:], folded=names)
    later(layout)
    before = files(layout)
    fold_parts.fold_parts(store, layout)
    assert before <= files(layout)
    assert (layout.root / "run.json").exists()


def test_readers_see_every_point_once_while_parts_are_folded(store: Path) -> None:
    layout = many(store)
    before, stop, seen = rows(layout), threading.Event(), list[list[str]]()

    def read() -> None:
        while not stop.is_set():
            seen.append(rows(layout))

    thread = threading.Thread(target=read)
    thread.start()
    fold_parts.fold_parts(store, layout)
    stop.set()
    thread.join()
    assert seen
    assert all(found == before for found in seen)


KILLED = """
import os, sys
from pathlib import Path
from expdb.store import fold_parts
from expdb.store.layout import RunLayout
left = int(sys.argv[3])
def counted(real):
    def call(*args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        return real(*args, **kwargs)
    return call
for name in ("fsync", "replace", "rename", "unlink", "link", "open"):
    setattr(os, name, counted(getattr(os, name)))
fold_parts.fold_parts(Path(sys.argv[1]), RunLayout(Path(sys.argv[2])))
fold_parts.KEPT_S = -1.0
fold_parts.fold_parts(Path(sys.argv[1]), RunLayout(Path(sys.argv[2])))
"""


@pytest.mark.slow
@STRIDES
def test_a_kill_between_any_two_file_operations_loses_and_doubles_nothing(
    store: Path, stride: int
) -> None:
    number, code = 0, -9
    while code == -9:
        layout = many(store)
        before = rows(layout)
        script = textwrap.dedent(KILLED)
        args = [sys.executable, "-c", script, str(store), str(layout.root), str(number)]
        done = subprocess.run(args, capture_output=True, text=True, timeout=120)
        code = done.returncode
        assert code in (0, -9), done.stderr
        assert rows(layout) == before
        for _ in range(2):  # it is done again, and old files go
            fold_parts.fold_parts(store, layout)
            assert rows(layout) == before
            later(layout)
        fold_parts.fold_parts(store, layout)
        assert rows(layout) == before
        assert files(layout) == {entry.file for entry in entries(layout)}
        assert len(entries(layout)) == 1
        number += stride
    assert number > 10
