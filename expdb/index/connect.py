"""Connections to DuckDB, and fast inserts.

Invariant: no connection installs or loads an extension, so none waits on a network; and none starts
a thread per core, since the tables are small and the cores belong to training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from expdb.index import engine
from expdb.index.engine import Connection
from expdb.index.schema import COLUMNS, SCHEMA_SQL, Tables

CONFIG: Final[dict[str, Any]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "threads": 2,
}
STORAGE_VERSION: Final = "v1.0.0"
"""Files that every DuckDB from 1.0 on can open."""

MAX_BOUND: Final = 20_000
"""Up to so many values are bound as parameters: fewer than it costs to import pyarrow."""
BINDS_NAN: Final = int(engine.VERSION.split(".")[0]) >= 2
"""DuckDB 1 binds a NaN inside a list as NULL."""

SPECIAL: Final = frozenset("*?[]{}\\")


def open_memory() -> Connection:
    """Open an empty database in memory."""
    return engine.connect(":memory:", config=CONFIG)


def open_file(path: Path) -> Connection:
    """Open a generation for reading; any number of processes may, and any number of times in one.

    The database is one in memory that the file is attached to: the next generation can be written
    and opened by the same, and to start another takes 30 ms.

    Raises:
        engine.Error: it is not there, damaged, or of a foreign version.
    """
    con = open_memory()
    try:
        attach(con, path)
    except engine.Error:
        con.close()
        raise
    return con


def attach(con: Connection, path: Path) -> None:
    """Make a generation the current database; there must be none.

    Raises:
        engine.Error: as `open_file`.
    """
    con.execute(f"ATTACH {quoted(path)} AS base (READ_ONLY); USE base")


def is_plain(path: Path) -> bool:
    """Tell whether a path means to DuckDB what it says: `?` begins options, a backslash is a slash,
    the others are of patterns.
    """
    name = str(path)
    return name.isprintable() and not SPECIAL & set(name)


def readable(value: Any) -> Any:
    """Return a value with every lone surrogate replaced: the database takes only UTF-8."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [readable(item) for item in value]
    return value


def quoted(path: Path) -> str:
    """Return a path as an SQL text."""
    return "'" + str(path).replace("'", "''") + "'"


def create_schema(con: Connection) -> None:
    """Make the tables of a generation in the current database."""
    con.execute(SCHEMA_SQL)


def insert(con: Connection, tables: Tables, *, prefix: str) -> None:
    """Add rows to the tables named `prefix` + name."""
    for name, rows in tables.items():
        try:
            _insert(con, f"{prefix}{name}", COLUMNS[name], rows)
        except (UnicodeEncodeError, RuntimeError, engine.InvalidInputException):
            # Lone surrogates, from a damaged or foreign name; one name must not shut the store.
            # DuckDB 1 cannot cast such a text and says so with a RuntimeError.
            _insert(
                con, f"{prefix}{name}", COLUMNS[name], [tuple(map(readable, row)) for row in rows]
            )


def key_of(table: str) -> str:
    """Return the column of a table that names the run."""
    return "id" if table == "runs" else "run"


def meta(con: Connection) -> dict[str, str]:
    """Return what a generation says of itself.

    Raises:
        duckdb.Error: it is no generation.
    """
    return dict(con.execute("SELECT key, value FROM gen.meta").fetchall())


def _insert(con: Connection, table: str, names: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
    if not rows:
        return
    columns = [list(column) for column in zip(*rows, strict=True)]
    if len(rows) * len(names) <= MAX_BOUND and (BINDS_NAN or not _has_nan(columns)):
        unnested = ", ".join("unnest(?)" for _ in names)
        con.execute(f"INSERT INTO {table} SELECT {unnested}", columns)
        return
    import pyarrow as pa

    engine.whole()
    described = con.execute(f"SELECT * FROM {table} LIMIT 0").description or []
    arrays = [
        _array(column, str(about[1])) for column, about in zip(columns, described, strict=True)
    ]
    con.register("incoming", pa.table(arrays, names=list(names)))
    try:
        con.execute(f"INSERT INTO {table} SELECT * FROM incoming")
    finally:
        con.unregister("incoming")


def _has_nan(columns: list[list[Any]]) -> bool:
    return any(value != value for column in columns for value in column)


def _array(values: list[Any], kind: str) -> Any:
    """Return an Arrow array of a DuckDB column type."""
    import pyarrow as pa

    match kind:
        case "HUGEINT":
            from decimal import Decimal

            exact = [None if value is None else Decimal(value) for value in values]
            return pa.array(exact, pa.decimal128(38, 0))
        case "VARCHAR[]":
            return pa.array(values, pa.list_(pa.string()))
        case "BIGINT":
            return pa.array(values, pa.int64())
        case "DOUBLE":
            return pa.array(values, pa.float64())
        case "BOOLEAN":
            return pa.array(values, pa.bool_())
    return pa.array(values, pa.string())


def delete(con: Connection, ids: Sequence[str]) -> None:
    """Remove every row of the named runs from the generation."""
    for name in COLUMNS:
        con.execute(
            f"DELETE FROM gen.{name} WHERE {key_of(name)} IN (SELECT unnest(?))", [list(ids)]
        )
