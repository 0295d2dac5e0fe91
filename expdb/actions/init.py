"""`expdb init`: an empty store, where the training script will look for it."""

from __future__ import annotations

import os
from pathlib import Path

from expdb.actions.results import InitResult
from expdb.errors import BadInput
from expdb.store.locate import DEFAULT_NAME, git_main_top, is_store, nearest_store
from expdb.store.store import open_store
from expdb.text import plain


def init_store(
    start: Path, folder: str | None = None, *, explicit: str | None = None
) -> InitResult:
    """Make a store, or find the one that is there.

    Without a name it is `runs` at the top of the repository, else in `start`; a store above counts.
    A `folder` becomes the store itself, or has it as `runs` where other files are in it, which the
    store's .gitignore would hide. `explicit` is the store itself, as with `--store`.

    Raises:
        BadInput: the place is a file, or the top folder of a repository.
        Corrupt: it cannot be written.
        Unsupported: a newer expdb made what is there.
    """
    root = _place(start, folder, explicit)
    if root.exists() and not root.is_dir():
        shown = plain(os.path.relpath(root, start))
        raise BadInput(f"{shown} is a file, not a place for a store")
    created = not is_store(root)
    store = open_store(root, create=True)
    return InitResult(path=str(store.root), id=store.id, created=created)


PLACEHOLDERS = (".gitkeep", ".gitignore")
"""What keeps an empty folder in git."""


def _place(start: Path, folder: str | None, explicit: str | None) -> Path:
    if folder is not None:
        path = start / Path(folder).expanduser()
        if is_store(path) or not path.is_dir():
            return path
        is_used = any(one.name not in PLACEHOLDERS for one in path.iterdir())
        return path / DEFAULT_NAME if is_used else path
    if explicit:
        return start / Path(explicit).expanduser()
    found = nearest_store(start.absolute())
    if found is not None:
        return found
    return (git_main_top(start.absolute()) or start) / DEFAULT_NAME
