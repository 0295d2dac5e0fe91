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
from expdb.index.schema import COLUMNS, SCHEMA, Tables
from expdb.store.store import Store

WHOLE_EVERY: Final = 50
"""So often the file is written whole: deleted rows leave holes in it."""

UNWRITABLE: Final = ("No space left", "quota", "Permission denied", "Read-only")


def build(
    store: Store, generations: Generations, base: Path | None, settled: Tables, gone: Sequence[str]
) -> Path:
    """Write and publish a generation that holds `base` without `gone`, and `settled`.

    Args:
        store: the store it describes.
        generations: where it goes.
        base: a generation to start from; None starts from nothing.
        settled: rows of new and changed runs.
        gone: runs whose rows in `base` no longer hold: removed or changed.

    Raises:
        OSError: it cannot be written.
        engine.Error: `base` is damaged.
    """
    temporary = generations.temporary()
    try:
        age = 0 if base is None else _age(base)
        if base is not None and age + 1 < WHOLE_EVERY:
            import shutil

            shutil.copyfile(base, temporary)
            _write(temporary, settled, gone, store=store, age=age + 1)
        else:
            _write(temporary, settled, gone, store=store, age=0, base=base, is_new=True)
        path = generations.publish(temporary)
    except engine.IOException as error:
        # Reading a damaged base and writing to a full disk raise the same class.
        if base is None or any(word in str(error) for word in UNWRITABLE):
            raise OSError(str(error)) from error
        raise
    finally:
        for leftover in (temporary, temporary.with_name(temporary.name + ".wal")):
            leftover.unlink(missing_ok=True)
    generations.collect()
    return path


def _age(path: Path) -> int:
    con = connect.open_file(path)
    try:
        return int(connect.meta(con).get("age", "0"))
    finally:
        con.close()


def _write(
    path: Path,
    settled: Tables,
    gone: Sequence[str],
    *,
    store: Store,
    age: int,
    base: Path | None = None,
    is_new: bool = False,
) -> None:
    con = connect.open_memory()
    try:
        if base is not None:
            con.execute(f"ATTACH {connect.quoted(base)} AS base (READ_ONLY)")
        con.execute(
            f"ATTACH {connect.quoted(path)} AS made (STORAGE_VERSION '{connect.STORAGE_VERSION}')"
        )
        con.execute("USE made")
        con.execute("BEGIN")
        if is_new:
            connect.create_schema(con)
        if base is not None:
            for name in COLUMNS:
                con.execute(f"INSERT INTO made.gen.{name} SELECT * FROM base.gen.{name}")
        if gone:
            connect.delete(con, gone)
        connect.insert(con, settled, prefix="gen.")
        write_meta(con, store, age=age)
        con.execute("COMMIT")
        con.execute("CHECKPOINT made")
        con.execute("USE memory")
        con.execute("DETACH made")
    finally:
        con.close()


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
