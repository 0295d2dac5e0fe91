"""A store that is written, deleted, damaged or replaced while a screen shows it: a message at the
foot, what was read stays, and all goes on once the store is whole again.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from expdb.store.store import open_store
from expdb_tui.session import Session
from tests.tui.conftest import make_runs
from tests.tui.driving import drive, press, screen_of
from tests.tui.monkey import Troubles

SCREENS = "123456"


@pytest.fixture
def troubles(monkeypatch: pytest.MonkeyPatch) -> Troubles:
    """Workers that failed with no error of ours."""
    found = Troubles()
    found.watch(monkeypatch)
    return found


def body_of(app) -> list[str]:
    """Return what stands between the context line and the keys, but for ages."""
    return [re.sub(r" *\b\d+ ?[smh]\b", "", line).rstrip() for line in screen_of(app)[2:-1]]


def run_of(root: Path, name: str = "exp01") -> Path:
    return next(root.glob(f"exp={name}/run=*"))


def test_a_store_that_is_gone_and_comes_back(own_session: Session, troubles: Troubles) -> None:
    root = own_session.store.root

    async def story(app, pilot):
        await press(app, pilot, "down", "enter", "escape")
        for key in SCREENS:
            await press(app, pilot, key)
            before = body_of(app)
            root.rename(root.with_name("away"))
            await press(app, pilot, "ctrl+r")
            lines = screen_of(app)
            assert lines[-1].startswith(" ! "), (key, lines)
            assert "is gone" in lines[-1], (key, lines)
            assert body_of(app) == before, f"what was read stays on {key}"
            root.with_name("away").rename(root)
            await press(app, pilot, "ctrl+r")
            assert body_of(app) == before, key

    drive(own_session, story)
    assert not troubles.found


def replaced_by_a_file(root: Path) -> None:
    shutil.rmtree(root)
    root.write_text("no store")


def replaced_by_an_empty_store(root: Path) -> None:
    shutil.rmtree(root)
    open_store(root, create=True)


def without_its_run(root: Path) -> None:
    shutil.rmtree(run_of(root).parent)


def with_torn_files(root: Path) -> None:
    for path in run_of(root).rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def with_other_files(root: Path) -> None:
    for path in run_of(root).rglob("*"):
        if path.is_file():
            path.write_bytes(b"\0[]{}\n" * 9)


def with_folders_for_files(root: Path) -> None:
    for path in [path for path in run_of(root).rglob("*") if path.is_file()]:
        path.unlink()
        path.mkdir()


def with_a_damaged_index(root: Path) -> None:
    for path in (root / ".expdb" / "index").rglob("*"):
        if path.is_file():
            path.write_bytes(b"no index" * 99)


def with_damaged_names(root: Path) -> None:
    for path in (root / ".expdb").rglob("*"):
        if path.is_file() and "index" not in path.parts:
            path.write_bytes(b"{\0")


@pytest.mark.slow
@pytest.mark.parametrize(
    "harm",
    [
        with_torn_files,
        *(
            pytest.param(harm, marks=pytest.mark.soak)
            for harm in (
                replaced_by_a_file, replaced_by_an_empty_store, without_its_run, with_other_files,
                with_folders_for_files, with_a_damaged_index, with_damaged_names,
            )
        ),
    ],
    ids=lambda harm: harm.__name__,
)  # fmt: skip
def test_a_damaged_store_is_a_message(
    own_session: Session, tmp_path: Path, harm: Callable[[Path], None], troubles: Troubles
) -> None:
    root = own_session.store.root
    shutil.copytree(root, tmp_path / "whole")

    async def story(app, pilot):
        await press(app, pilot, "down", "space", "up", "enter", *SCREENS)
        for key in SCREENS:
            await press(app, pilot, key)
            harm(root)
            await press(app, pilot, "ctrl+r", "down", "enter", "escape", key, "ctrl+r")
            assert app.is_running
            shutil.rmtree(root) if root.is_dir() else root.unlink()
            shutil.copytree(tmp_path / "whole", root)
        await press(app, pilot, "1", "escape", "ctrl+r")
        assert any("exp01" in line for line in screen_of(app))

    drive(own_session, story, size=(120, 36))
    assert not troubles.found, troubles.found


@pytest.mark.slow
def test_runs_that_come_move_no_cursor(own_session: Session, troubles: Troubles) -> None:
    async def story(app, pilot):
        await press(app, pilot, "down")
        here = app.screen.run_here
        for key in SCREENS:
            await press(app, pilot, key)
        make_runs(own_session.directory)
        for key in SCREENS:
            await press(app, pilot, key, "ctrl+r")
        await press(app, pilot, "1")
        assert app.screen.run_here == here
        assert "6 runs" in screen_of(app)[1]

    drive(own_session, story, size=(120, 36))
    assert not troubles.found, troubles.found
