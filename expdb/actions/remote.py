"""`expdb remote`: the folders elsewhere that runs are pushed to and pulled from.

Naming one is a setting of this store, as in git: it moves no ref and no run, and writes no op.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from expdb.actions.writing import writing
from expdb.errors import BadInput, ExpdbError
from expdb.model import Ref
from expdb.store.remote_place import make_place, open_place, runs_in
from expdb.store.remote_refs import forget_refs, named_refs
from expdb.store.remotes import (
    Remote,
    add_remote,
    check_remote_name,
    drop_remote,
    find_remote,
    read_remotes,
)
from expdb.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRow:
    """One remote as it is listed."""

    remote: Remote
    runs: int | None
    """How many runs it has; None where it is not there."""
    refs: tuple[Ref, ...]
    """What other stores name, as last pulled, by the words that name it here."""
    problem: str = ""


def remote_rows(store: Store) -> list[RemoteRow]:
    """Return the remotes, by name, each after a look at its folder.

    Raises:
        Corrupt: the list of remotes is damaged.
    """
    rows = []
    for remote in read_remotes(store.layout).values():
        runs, problem = None, ""
        try:
            runs = sum(1 for _ in runs_in(open_place(remote)))
        except ExpdbError as error:
            problem = error.message
        refs = tuple(_shortest(remote.name, named_refs(store.layout, [remote.name])))
        rows.append(RemoteRow(remote=remote, runs=runs, refs=refs, problem=problem))
    return rows


def _shortest(remote: str, found: dict[str, Ref]) -> Iterator[Ref]:
    """Yield refs, sorted, without those that a shorter word names too."""
    for name, ref in sorted(found.items()):
        shorter = found.get("/".join([remote, *name.split("/")[2:]]))
        if shorter is None or (shorter.run, shorter.step) != (ref.run, ref.step):
            yield ref


def add(store: Store, name: str, folder: Path) -> Remote:
    """Name a folder, and make a remote of it where it is empty.

    Raises:
        BadInput: the name or the path cannot be one.
        NotFound: there is no such folder.
        Refused: it is something else, or the name is taken.
        Corrupt: it, or the store, cannot be written.
    """
    check_remote_name(name)
    path = Path(os.path.abspath(folder.expanduser()))  # noqa: PTH100 - links stay as they are
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise BadInput(f"the path {str(folder)!a} is not UTF-8 text") from None
    made = Remote(name=name, path=path, id=make_place(path, store.root))
    with writing(store):
        add_remote(store.layout, made)
    return made


def remove(store: Store, name: str) -> Remote:
    """Forget a remote, and what others call runs there; its folder and all runs stay.

    Raises:
        NotFound: there is none.
        Corrupt: the store cannot be written.
    """
    find_remote(store.layout, name)
    with writing(store):
        gone = drop_remote(store.layout, name)
        forget_refs(store.layout, name)
    return gone
