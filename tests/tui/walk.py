"""A walk through every screen of the app over the project of `fixed_project.py`, for pictures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from textual.pilot import Pilot

from expdb.store import owner
from expdb.store.files import write_json
from expdb.store.store import open_store
from expdb_tui.app import ExpdbApp
from expdb_tui.run.screen import RunScreen
from expdb_tui.session import Session
from expdb_tui.widgets.frame import KeyBar
from tests.tui.driving import press, settle
from tests.tui.fixed_project import LIVE, NOW_MS
from tests.tui.terminal import environment

HERE = Path(__file__).parent
SIZES = ((80, 24), (120, 36), (200, 50))
TABS = ("Curves", "Log", "Config", "Code", "Layers", "Evals", "Samples", "System")


def make_fixed(parent: Path) -> Path:
    """Make the project in a folder of `parent`; its last run trains as long as this process."""
    top = parent / "nano"
    top.mkdir()
    shutil.copy(HERE / "lab_project.py", top / "lab.py")
    shutil.copy(HERE / "fixed_project.py", top / "fixed.py")
    words = [sys.executable, "fixed.py"]
    env = {**environment(), "PYTHONHASHSEED": "0"}
    done = subprocess.run(words, cwd=top, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    live = next((top / "runs").glob(f"exp={LIVE}/run=*"))
    for path in live.rglob("owner.json"):
        write_json(path, owner.describe(), durable=False)
    for path in (top / "runs").rglob("*"):
        os.utime(path, ns=((NOW_MS - 2000) * 1_000_000,) * 2)
    return top


@contextmanager
def at_that_time() -> Iterator[None]:
    """Let the clock stand at the moment of the pictures."""
    with patch.object(time, "time_ns", lambda: NOW_MS * 1_000_000):
        yield


def session_at(top: Path) -> Session:
    """Return the store of the project, with its work tree."""
    from expdb.git.worktree import WorkTree, find_worktree
    from expdb.store.head import read_head

    def worktree() -> WorkTree | None:
        found = find_worktree(top)
        return found if isinstance(found, WorkTree) else None

    def head() -> object:
        found = worktree()
        read = None if found is None else read_head(found.git_dir)
        return None if read is None else read.at

    store = open_store(top / "runs")
    return Session(store=store, directory=top, worktree_of=worktree, head_of=head)


async def rest(app: ExpdbApp, pilot: Pilot[None]) -> None:
    """Wait until what is read once the cursor rests was read too."""
    await settle(app, pilot)
    await pilot.pause(0.15)
    await settle(app, pilot)
    for bar in app.screen.query(KeyBar):  # a message says how busy the machine is
        bar.message = ()
        bar.refresh()
    await pilot.pause()


async def walk(app: ExpdbApp, pilot: Pilot[None]) -> AsyncIterator[str]:
    """Go from screen to screen; yield the name of each where it is shown."""
    await rest(app, pilot)
    yield "runs"
    await press(app, pilot, "r", "home")
    await rest(app, pilot)
    yield "rank"
    await press(app, pilot, "g")
    await rest(app, pilot)
    yield "fold"
    await press(app, pilot, "escape")
    runs = {(row[0], row[1]): row[2] for row in rows(app, "SELECT experiment, seed, id FROM runs")}
    app.open_run(runs["baseline", 0])
    await rest(app, pilot)
    screen = app.screen
    assert isinstance(screen, RunScreen)
    names = [tab.NAME for tab in screen.tabs]
    for name in TABS:
        screen.open_tab(names.index(name))
        await rest(app, pilot)
        yield f"run-{name.lower()}"
    await press(app, pilot, "escape")
    app.open_run(runs["exp03_lr_jump", 0])
    await rest(app, pilot)
    screen.open_tab(names.index("Events"))
    await press(app, pilot, "enter")
    yield "run-events"
    await press(app, pilot, "escape", "escape")
    for name in ("exp01", "exp03_lr_jump", "exp11_日本語の実験", "exp13_🚀_rocket"):
        app.chosen.toggle(runs[name, 0])
    app.opened = None
    await press(app, pilot, "4")
    await rest(app, pilot)
    yield "plot"
    await press(app, pilot, "3")
    await rest(app, pilot)
    yield "compare-five"
    app.chosen.clear()
    app.chosen.toggle(runs["exp01", 0])
    await press(app, pilot, "5")
    await press(app, pilot, "down")
    await rest(app, pilot)
    yield "matrix"
    await press(app, pilot, "3")
    await rest(app, pilot)
    yield "compare"
    await press(app, pilot, "6")
    await rest(app, pilot)
    yield "history"
    await press(app, pilot, "G")
    yield "go-back"
    await press(app, pilot, "escape", "question_mark")
    yield "help"


def rows(app: ExpdbApp, sql: str) -> list[tuple[object, ...]]:
    """Ask the store of the app."""
    with app.session.reader() as reader:
        return list(reader.rows(sql))
