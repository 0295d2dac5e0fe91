"""Where the store is; standard library only, no git process: Hydra calls it at every start.

Order for a training script: given by name, the nearest store upward from the script, `<git top of
the script's main work tree>/runs`, `<script folder>/runs`. For the command line: given by name,
upward from the current folder, then through the git common directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from expdb.errors import NotFound
from expdb.store.layout import StoreLayout

DEFAULT_NAME = "runs"
HEAD = "HEAD"
MARKER = "UNFINISHED"
"""In `<git dir>/expdb`: where a work tree came from, and the op in it that was cut off."""

PROBE, JOB = "expdb-probe-", "expdb-job-"
PLACES = (PROBE, JOB)
"""How the throw-away work trees of `probe` and `run` begin, and git's entries of them."""


def is_store(path: Path) -> bool:
    """Tell whether a folder is a store."""
    return os.path.isfile(StoreLayout(path).store_json)  # noqa: PTH113 - Path raises without permission


def upward(start: Path) -> Iterator[Path]:
    """Yield `start` and the folders above it."""
    yield start
    yield from start.parents


def nearest_store(start: Path) -> Path | None:
    """Return the nearest store at or above `start`: a folder that is one, or has one as `runs`."""
    for folder in upward(start):
        for candidate in (folder, folder / DEFAULT_NAME):
            if is_store(candidate):
                return candidate
    return None


def git_main_top(start: Path) -> Path | None:
    """Return the top of the repository around `start`: of its main work tree, from a linked one."""
    for folder in upward(start):
        entry = folder / ".git"
        if os.path.isdir(entry):  # noqa: PTH112 - as above
            return folder
        if os.path.isfile(entry):  # noqa: PTH113
            return _main_of_linked(entry) or folder
    return None


def may_have_moved(start: Path) -> bool:
    """Tell whether a work tree around `start` may have a HEAD of ours, or an op that was cut off.

    No is certain: every `.git` upward is looked at, whether git would take it or pass it over. Yes
    is for git to say more of.
    """
    entries = (folder / ".git" for folder in upward(start))
    return any(
        os.path.lexists(git_dir / "expdb" / name)
        for git_dir in map(_git_dir, entries)
        if git_dir is not None
        for name in (HEAD, MARKER)
    )


def may_have_places(start: Path) -> bool:
    """Tell whether the repository around `start` may have a throw-away work tree."""
    entries = (folder / ".git" for folder in upward(start))
    git_dir = next((found for found in map(_git_dir, entries) if found is not None), None)
    if git_dir is None:
        return False
    # A linked work tree has its git directory in the folder that all of them are in.
    folder = git_dir.parent if git_dir.parent.name == "worktrees" else git_dir / "worktrees"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names only, at every command
    except OSError:
        return False
    return any(name.startswith(PLACES) for name in names)


def _git_dir(entry: Path) -> Path | None:
    """Return the git directory that an entry `.git` is or names; None where it is no such file."""
    if os.path.isdir(entry):  # noqa: PTH112 - as above
        return entry
    try:
        text = os.fsdecode(entry.read_bytes()).strip()
    except OSError:
        return None
    return entry.parent / text.removeprefix("gitdir:").strip()


def _main_of_linked(entry: Path) -> Path | None:
    try:
        git_dir = (_git_dir(entry) or entry).resolve()
        common = (git_dir / os.fsdecode((git_dir / "commondir").read_bytes()).strip()).resolve()
    except (OSError, ValueError):
        return None  # a submodule has no commondir: its own folder is the top
    return common.parent if common.name == ".git" else None


def store_for_script(script: Path, explicit: str | None = None) -> Path:
    """Return the folder of the store that a training script uses; it need not exist yet.

    `explicit` is relative to the current folder.
    """
    if explicit:
        return _given(explicit, Path.cwd())
    folder = script.absolute().parent
    found = nearest_store(folder)
    if found is not None:
        return found
    top = git_main_top(folder)
    return (top or folder) / DEFAULT_NAME


def find_store(*, start: Path, explicit: str | None = None) -> Path:
    """Return the folder of the existing store that a command works on.

    Raises:
        NotFound: there is none.
    """
    if explicit:
        path = _given(explicit, start)
        if is_store(path):
            return path
        raise NotFound(
            f"{explicit} is not a store", hint="a store is a folder with .expdb/store.json in it"
        )
    found = nearest_store(start.absolute())
    if found is None:
        top = git_main_top(start.absolute())
        if top is not None and is_store(top / DEFAULT_NAME):
            found = top / DEFAULT_NAME
    if found is None:
        raise NotFound(
            "no store above this folder (looked for runs/.expdb up to the root)",
            hint="make one: expdb init      or name one: expdb --store DIR ls",
        )
    return found


def _given(text: str, start: Path) -> Path:
    return start / os.path.expanduser(text)  # noqa: PTH111 - Path raises where there is no such user
