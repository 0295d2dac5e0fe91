"""Builds the next generation: from nothing, or from the newest one and what changed.

Invariant: a generation holds settled runs only, and is closed, without a write-ahead log, before it
has its name.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from expdb.index import connect, engine
from expdb.index.engine import Connection
from expdb.index.generations import Generations
from expdb.index.newest import Base
from expdb.index.schema import COLUMNS, SCHEMA, Tables
from expdb.store.store import Store

WHOLE_EVERY: Final = 50
"""So often the file is written whole: deleted rows leave holes in it."""

MOST_GONE: Final = 0.25
"""It is so too where more than this part of its runs changed: all do in a copy of a store."""

UNWRITABLE: Final = ("No space left", "quota", "Permission denied", "Read-only")


def build(
    store: Store, generations: Generations, base: Base, settled: Tables, gone: Sequence[str]
) -> Connection:
    """Write and publish a generation that holds `base` without `gone`, and `settled`; open it.

    Args:
        store: the store it describes.
        generations: where it goes.
        base: a generation to start from, whose connection is used; empty starts from nothing.
        settled: rows of new and changed runs.
        gone: runs whose rows in `base` no longer hold: removed or changed.

    Raises:
        OSError: it cannot be written; `base` is open as before.
        engine.Error: `base` is damaged; it is closed.
    """
    temporary = generations.temporary()
    con = connect.open_memory() if base.con is None else base.con
    try:
        age = 0 if base.con is None else int(connect.meta(con).get("age", "0")) + 1
        is_copied = age < WHOLE_EVERY and len(gone) <= len(base.stamps) * MOST_GONE
        if base.path is not None and is_copied:
            import shutil

            shutil.copyfile(base.path, temporary)
        else:
            age = 0
        _write(con, temporary, settled, gone, store=store, age=age, has_base=base.con is not None)
        path = generations.publish(temporary)
    except (OSError, engine.Error) as error:
        # Reading a damaged base and writing to a full disk raise the same class.
        is_full = base.con is None or any(word in str(error) for word in UNWRITABLE)
        is_full = is_full and isinstance(error, engine.IOException)
        if base.con is not None and (is_full or isinstance(error, OSError)):
            _put_back(con)
        else:
            con.close()
        if is_full:
            raise OSError(str(error)) from error
        raise
    finally:
        for leftover in (temporary, temporary.with_name(temporary.name + ".wal")):
            leftover.unlink(missing_ok=True)
    generations.collect()
    con.execute("USE memory")
    if base.con is not None:
        con.execute("DETACH base")
    connect.attach(con, path)
    return con


def _put_back(con: Connection) -> None:
    """Leave the connection of a base as it was before a build that failed."""
    for statement in ("ROLLBACK", "USE base", "DETACH made"):
        try:
            con.execute(statement)
        except engine.Error:
            continue  # it did not get so far


def _write(
    con: Connection,
    path: Path,
    settled: Tables,
    gone: Sequence[str],
    *,
    store: Store,
    age: int,
    has_base: bool,
) -> None:
    """Write a generation to `path`: into a copy of the base, or from nothing where `age` is 0."""
    con.execute(
        f"ATTACH {connect.quoted(path)} AS made (STORAGE_VERSION '{connect.STORAGE_VERSION}')"
    )
    con.execute("USE made")
    con.execute("BEGIN")
    if age == 0:
        connect.create_schema(con)
        for name in COLUMNS if has_base else ():
            kept = f"{connect.key_of(name)} NOT IN (SELECT unnest(?))"
            sql = f"INSERT INTO made.gen.{name} SELECT * FROM base.gen.{name} WHERE {kept}"
            con.execute(sql, [list(gone)])
    elif gone:
        connect.delete(con, gone)
    connect.insert(con, settled, prefix="gen.")
    write_meta(con, store, age=age)
    con.execute("COMMIT")
    con.execute("CHECKPOINT made")
    con.execute("USE memory")
    con.execute("DETACH made")


def build_in_memory(store: Store, settled: Tables) -> Connection:
    """Return a generation that lives as long as its connection, where nothing can be written."""
    con = connect.open_memory()
    connect.create_schema(con)
    connect.insert(con, settled, prefix="gen.")
    write_meta(con, store, age=0)
    return con


def write_meta(con: Connection, store: Store, *, age: int) -> None:
    """Say what the generation is."""
    rows = {
        "schema": SCHEMA,
        "store": store.id,
        "age": str(age),
        "built_at_ms": str(time.time_ns() // 10**6),
    }
    con.execute("DELETE FROM gen.meta")
    con.execute(
        "INSERT INTO gen.meta SELECT unnest(?), unnest(?)", [list(rows), list(rows.values())]
    )
    # One text for all runs: as values of their own, 10,000 take a reader ten times as long.
    con.execute(
        "INSERT INTO gen.meta"
        " SELECT 'stamps', coalesce(string_agg(id || ':' || version, chr(10)), '') FROM gen.runs"
    )
