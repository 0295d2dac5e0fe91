"""Readers beside writers, and an index or a store that changes under a reader."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import expdb
from expdb.errors import NotFound
from expdb.index import generations
from expdb.index.generations import Generations
from expdb.index.reader import open_reader
from expdb.store import recorder
from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from expdb.store.runs import read_run
from expdb.store.store import open_store
from tests.faults.counting import Tally
from tests.faults.killing import Barrier, Child
from tests.faults.lives import SOAK, config, run_dirs_of, steps, unsound
from tests.store.fsck_made import finished

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]
NEVER = 10**9


# ------------------------------------------------------------------------------------ case A27


def write_until(end: Barrier, root: Path, child: Child, pause_s: float) -> None:
    """Log until the end; seals come often, so that points move while they are read."""
    recorder.SEAL_POINTS, recorder.RETRY_S = 200, 0.0  # type: ignore[misc]
    with expdb.start(config(), name="many", store=root) as run:
        for step in range(NEVER):
            run.log({"a": float(step), "b": 0.5}, step=step)
            child.tell(step)
            if end.is_open:
                return
            time.sleep(pause_s)


def read_until(end: Barrier, root: Path, child: Child) -> None:
    """Poll as `ls` and a plot do: each answer is a state of the past, and none goes back."""
    seen: dict[str, int] = {}
    looks = 0
    while not (end.is_open and looks):
        with open_reader(open_store(root)) as reader:
            assert reader.warnings == ()
            rows = reader.rows("SELECT id, state, problems FROM runs")
            assert {row[1] for row in rows} <= {"running", "finished"}
            assert all(not row[2] for row in rows)
        for run, _, _ in rows[:: max(1, len(rows) // 5)]:
            folder = next(root.glob(f"exp=*/run={run}"))
            found = read_series(folder, ["a"])["step"].to_pylist()
            assert found == list(range(len(found)))
            assert len(found) >= seen.get(run, 0)
            seen[run] = len(found)
            summary = read_run(folder, store_root=root)
            assert summary.problems == ()
            if found:
                assert summary.series["a"].count >= len(found)
        looks += 1
        child.tell(looks)


@pytest.mark.parametrize(
    ("writers", "readers", "seconds"),
    [
        pytest.param(6, 2, 3.0, id="short"),
        pytest.param(50, 3, 60.0 * SOAK, id="fifty", marks=pytest.mark.soak),
    ],
)
def test_case_a27_writers_and_readers_at_once_neither_fail_nor_lose(
    tmp_path: Path, faults: Tally, writers: int, readers: int, seconds: float
) -> None:
    root = tmp_path / "runs"
    open_store(root, create=True)
    end, over = Barrier(), Barrier()
    pause = 0.01 if writers < 10 else 0.1
    writing = [Child(lambda own: write_until(end, root, own, pause)) for _ in range(writers)]
    reading = [Child(lambda own: read_until(over, root, own)) for _ in range(readers)]
    time.sleep(seconds)
    while min(child.told for child in writing) < 20:
        time.sleep(0.05)
    end.open()
    assert all([child.survives() for child in writing])
    over.open()
    assert all([child.survives() for child in reading])
    assert min(child.told for child in reading) > 0
    faults.fault(writers + readers)
    folders = run_dirs_of(root)
    assert len(folders) == writers
    found = [step for folder in folders for step in steps(RunLayout(folder))]
    faults.compare([step for child in writing for step in range(child.told + 1)], found)
    with open_reader(open_store(root)) as reader:
        assert reader.warnings == ()
        assert reader.rows("SELECT DISTINCT state FROM runs") == [("finished",)]
        assert reader.rows("SELECT sum(count) FROM series WHERE key = 'a'") == [(len(found),)]
    assert unsound(root) == []


# ------------------------------------------------------------------------ the index under readers


def test_a_reader_keeps_its_generation_while_newer_ones_are_built_and_old_ones_go(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "KEEP", 1)
    monkeypatch.setattr(generations, "KEEP_S", -1.0)
    store = open_store(store_root)
    first = finished(make_run_dir).id
    settle(store_root)
    with open_reader(store) as old:
        held = Generations(store.layout.index).current()
        assert held is not None
        for number in range(5):
            finished(make_run_dir)
            settle(store_root)
            with open_reader(store) as reader:
                assert len(reader.rows("SELECT id FROM runs")) == number + 2
        assert not held.exists()
        faults.fault()
        for _ in range(3):
            assert old.rows("SELECT id, num_attempts FROM runs") == [(first, 1)]
            assert len(old.rows("SELECT * FROM series")) == 2
            assert old.run(first).id == first


def settle(root: Path) -> None:
    """Make every status old enough to be kept in a generation."""
    then = time.time() - 60
    for path in root.glob("exp=*/run=*/status.json"):
        os.utime(path, (then, path.stat().st_mtime - 60))


Harm = Callable[[Path], object]


def harm_all(index: Path) -> None:
    shutil.rmtree(index)


def harm_files(index: Path) -> None:
    for path in index.glob("gen-*"):
        path.unlink()


def harm_current(index: Path) -> None:
    (index / "CURRENT").write_bytes(b"\0" * 40)


def harm_current_empty(index: Path) -> None:
    (index / "CURRENT").write_bytes(b"")


def harm_current_elsewhere(index: Path) -> None:
    (index / "CURRENT").write_text(json.dumps({"format": 1, "name": "gen-1-2.duckdb", "bytes": 3}))


def harm_generation_cut(index: Path) -> None:
    for path in index.glob("gen-*"):
        os.truncate(path, path.stat().st_size // 2)


def harm_generation_zeroed(index: Path) -> None:
    for path in index.glob("gen-*"):
        path.write_bytes(bytes(path.stat().st_size))


def harm_folder(index: Path) -> None:
    shutil.rmtree(index)
    index.write_bytes(b"no folder")


@pytest.mark.parametrize(
    "harm",
    [
        harm_all, harm_files, harm_current, harm_current_empty, harm_current_elsewhere,
        harm_generation_cut, harm_generation_zeroed, harm_folder,
    ],
)  # fmt: skip
def test_an_index_that_is_harmed_under_a_reader_is_built_again(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, harm: Harm
) -> None:
    store = open_store(store_root)
    ids = {finished(make_run_dir).id for _ in range(3)}
    settle(store_root)
    with open_reader(store) as reader:
        assert {row[0] for row in reader.rows("SELECT id FROM runs")} == ids
        harm(store.layout.index)
        faults.fault()
        assert {row[0] for row in reader.rows("SELECT id FROM runs")} == ids
        assert len(reader.rows("SELECT * FROM params")) == 2 * len(ids)
    for _ in range(2):
        with open_reader(store) as reader:
            assert {row[0] for row in reader.rows("SELECT id FROM runs")} == ids
            if harm is not harm_folder:
                assert reader.warnings == ()


def test_a_store_that_is_replaced_under_a_reader(
    make_run_dir: MakeRun, store_root: Path, tmp_path: Path, faults: Tally
) -> None:
    store = open_store(store_root)
    first = finished(make_run_dir).id
    settle(store_root)
    other = tmp_path / "other"
    with expdb.start(config(), name="of the other", store=other) as run:
        run.log({"a": 1.0}, step=0)
    with open_reader(store) as old:
        store_root.rename(tmp_path / "aside")
        other.rename(store_root)
        faults.fault()
        assert old.rows("SELECT id FROM runs") == [(first,)]
        with pytest.raises(NotFound):
            old.run(first)
    for _ in range(2):
        with open_reader(open_store(store_root)) as reader:
            assert reader.rows("SELECT id, experiment FROM runs") == [(run.id, "of the other")]
            assert reader.warnings == ()
    with open_reader(store) as reader:  # who still has the id of the one before
        assert reader.rows("SELECT id FROM runs") == [(run.id,)]
    shutil.rmtree(store_root)
    (tmp_path / "aside").rename(store_root)
    with open_reader(open_store(store_root)) as reader:
        assert reader.rows("SELECT id FROM runs") == [(first,)]
