"""Bringing a reader up to date: the next generation where one can be written, else in memory.

Invariant: what is returned shows what the run folders say, whatever the state of the index files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from expdb.index import build as builder
from expdb.index import engine
from expdb.index.engine import Connection
from expdb.index.generations import Generations
from expdb.index.load import Loaded, load
from expdb.index.newest import Base, can_keep, folders
from expdb.index.scan import Scan
from expdb.index.schema import Tables
from expdb.store.folders import run_in
from expdb.store.store import Store, reason


class Current(NamedTuple):
    """A generation, and what has to be laid over it to be what the run folders say."""

    con: Connection
    hidden: Sequence[str] = ()
    """Runs whose rows in it no longer hold."""
    overlay: Sequence[Tables] = ()
    warnings: Sequence[str] = ()
    left_out: Sequence[str] = ()
    """Those of the warnings that name a run which could not be read at this look."""


def brought_up(store: Store, base: Base, seen: Scan, *, build: bool) -> Current | None:
    """Read what changed since `base`, and write the next generation where that can be.

    With `build` off, or where nothing can be written, everything that changed is held in memory.
    Return None where `base` turns out to be damaged.

    Raises:
        duckdb.Error: no generation can be made, from nothing.
    """
    hidden = sorted(run_in(stamp) for stamp in base.stamps - seen.stamps)
    changed = sorted(seen.stamps - base.stamps)
    loaded = load(store, seen, changed, mend=build and store.writable)
    warnings = list(loaded.warnings)
    is_gone = any(run not in seen.experiments for run in hidden)
    if build and (loaded.settled_ids or is_gone or base.con is None):
        try:
            built = _build(store, base, loaded, hidden, warnings)
        except engine.Error:  # it opened, and yet some block of it is damaged
            if base.con is None:
                raise
            return None
        if built is not None:
            return Current(built, (), (loaded.live,), warnings, loaded.warnings)
    if base.con is None:
        con = builder.build_in_memory(store, loaded.settled)
        return Current(con, (), (loaded.live,), warnings, loaded.warnings)
    return Current(base.con, hidden, (loaded.live, loaded.settled), warnings, loaded.warnings)


def _build(
    store: Store, base: Base, loaded: Loaded, hidden: list[str], warnings: list[str]
) -> Connection | None:
    """Write the next generation and open it; None where it cannot be written."""
    folder = next(iter(folders(store)), None)
    if folder is None:
        return None
    if not can_keep(store):
        what = "index of the store" if store.writable else "store"
        warnings.append(
            f"the {what} {store.name} cannot be written; its index is kept in your cache folder"
        )
    try:
        return builder.build(store, Generations(folder), base, loaded.settled, hidden)
    except OSError as error:
        warnings.append(f"the index cannot be written: {reason(error)}")
        return None
