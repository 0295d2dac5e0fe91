"""Where the generations of a store are, and the newest of them that can be used."""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path
from typing import NamedTuple

from expdb.index import connect, engine
from expdb.index.engine import Connection
from expdb.index.generations import Generations
from expdb.index.schema import SCHEMA
from expdb.store.store import Store


class Base(NamedTuple):
    """An opened generation and the stamps of the runs it holds; nothing opened, no runs."""

    path: Path | None = None
    con: Connection | None = None
    stamps: Set[str] = frozenset()
    """`<id>:<version>` of each."""


def open_newest(store: Store) -> Base:
    """Open a generation of this store and this schema; of none there is, return an empty base."""
    for folder in folders(store):
        generations = Generations(folder)
        for _ in range(2):  # the file may be collected between the look at CURRENT and the opening
            path = generations.current()
            if path is None:
                break
            try:
                con = connect.open_file(path)
            except engine.Error:
                continue
            try:
                about = connect.meta(con)
                stamps = about.get("stamps")
                is_ours = about.get("schema") == SCHEMA and about.get("store") == store.id
                if is_ours and stamps is not None:
                    return Base(path, con, set(stamps.split()))
            except engine.Error:
                pass
            con.close()
            break
    return Base()


def folders(store: Store) -> list[Path]:
    """Return where generations of the store are looked for; new ones go to the first. None is where
    no name of a file would mean to DuckDB what it says.
    """
    own = [store.layout.index]
    if can_keep(store) and connect.is_plain(store.root):
        return own
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    cached = Path(cache).expanduser() / "expdb" / store.id / "index"
    return [folder for folder in (cached, *own) if connect.is_plain(folder)]


def can_keep(store: Store) -> bool:
    """Tell whether this process may write generations into the store.

    A store of several users may have been indexed first by one who left no room for others.
    """
    index = store.layout.index
    return store.writable and (os.access(index, os.W_OK | os.X_OK) or not index.exists())


def forget(store: Store) -> None:
    """Make the next reader build from nothing, where that can be said."""
    for folder in folders(store):
        try:
            Generations(folder).forget()
        except OSError:
            continue  # a store that cannot be written keeps its damaged index
