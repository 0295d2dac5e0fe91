"""A run is attached to, resumed or asked for something while another process removes it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.actions.ctl import ask
from expdb.actions.restore import restore
from expdb.actions.rm import put_all, trash_op
from expdb.errors import ExpdbError, NotFound
from expdb.index.reader import open_reader
from expdb.model import Pin, RunState
from expdb.store import trash
from expdb.store.attempts import numbers
from expdb.store.layout import RunLayout
from expdb.store.media import read_media
from expdb.store.resolve import Resolved
from expdb.store.runs import find_run_dir, read_run
from expdb.store.store import Store
from expdb.track.resume import join_run
from tests.query.made import make_run, make_store, write_run

pytestmark = pytest.mark.slow

RUN = "k3f9x2m7qd"
ROUNDS = 16
STEP_MS, BEFORE_MS = 5.0, 60.0
"""`rm` begins from so long after the other process to some milliseconds before it."""
PIN = Pin(reproducible=False)


def child(code: Any, word: str) -> int:
    """Fork a process that writes what became of it into a file; expdb's own errors are words."""
    pid = os.fork()
    if pid:
        return pid
    said = "an error that is none of ours"
    try:
        code()
        said = "done"
    except ExpdbError as error:
        said = f"{type(error).__name__}: {error.message}"
    finally:
        Path(word).write_text(said)
        os._exit(0)


def attach_and_log(store: Store) -> None:
    with expdb.attach(RUN, store=store.root) as run:
        run.log_text("judge/why", "because")
        run.log_eval("task", {"acc": 0.5})


def remove_run(store: Store) -> None:
    op = trash_op("rm", "rm", [RUN], into=True, worktree=None)
    put_all(store, [RUN], op, None, id_cells=4)


def resume_run(store: Store) -> None:
    run = read_run(find_run_dir(store.root, RUN), store_root=store.root)
    join_run(store, run, PIN, "", assume_dead=False)


def race(store: Store, folder: Path, other: Any, pause_ms: float) -> tuple[str, str]:
    """Let `rm` and another process begin at the same moment; return what each said."""
    read, write = os.pipe()

    def after(code: Any, wait_ms: float) -> Any:
        def run() -> None:
            os.close(write)
            os.read(read, 1)
            time.sleep(wait_ms / 1000)
            code(store)

        return run

    pids = [
        child(after(other, max(0, pause_ms)), str(folder / "other")),
        child(after(remove_run, max(0, -pause_ms)), str(folder / "rm")),
    ]
    os.close(read)
    os.close(write)
    for pid in pids:
        os.waitpid(pid, 0)
    return (folder / "other").read_text(), (folder / "rm").read_text()


def whole_run(root: Path, state: RunState = RunState.FINISHED) -> Store:
    """A store with one run of many files: the moment between the look and the move is long."""
    store = make_store(root)
    folder = write_run(store, make_run(RUN, experiment="exp01", value=2.0, state=state))
    (folder / "artifacts" / "many").mkdir(parents=True)
    for number in range(2_000):
        (folder / "artifacts" / "many" / str(number)).touch()
    return store


def raced(store: Store, folder: Path, other: Any) -> Iterator[bool]:
    """Yield, with the run in the store again, whether the other process did what it came for."""
    for round in range(ROUNDS):
        said, removed = race(store, folder, other, round * STEP_MS - BEFORE_MS)
        assert said == "done" or said.startswith(("NotFound", "Conflict")), said
        assert removed == "done" or removed.startswith(("Refused", "Conflict")), removed
        if removed == "done":
            with open_reader(store) as reader:
                restore(reader)
        assert trash.entries(store.layout) == []
        yield said == "done"


def test_what_an_attached_process_added_is_with_the_run(tmp_path: Path) -> None:
    store = whole_run(tmp_path / "runs")
    attach_and_log(store)  # loads what both need, once
    added = 1
    for done in raced(store, tmp_path, attach_and_log):
        added += done
        folder = find_run_dir(store.root, RUN)
        found = read_run(folder, store_root=store.root)
        assert (len(read_media(folder, "text")), len(found.evals)) == (added, added)
        assert found.problems == ()


def test_a_run_that_is_resumed_and_removed_at_once_is_whole(tmp_path: Path) -> None:
    store = whole_run(tmp_path / "runs", RunState.CRASHED)
    last = 1
    for done in raced(store, tmp_path, resume_run):
        last += done
        [folder] = store.root.glob("exp=*/run=*")
        assert numbers(RunLayout(folder)) == list(range(1, last + 1))
        assert read_run(folder, store_root=store.root).problems == ()


def test_a_run_that_was_removed_takes_no_request(tmp_path: Path) -> None:
    store = make_store(tmp_path / "runs")
    folder = write_run(store, make_run(RUN, state=RunState.RUNNING))
    with open_reader(store) as reader:
        reader.run(RUN)
        folder.rename(tmp_path / "elsewhere")
        with pytest.raises(NotFound, match="removed from the store meanwhile"):
            ask(reader, Resolved(run=RUN, step=None, said="", is_literal=True), "save")
    assert not folder.exists()
