"""The tables that a statement of a user reads, put into its own database.

    runs params series attempts files checkpoints evals events used_files refs    as the reader has
                                 them, live runs included; filled where a statement names them
    points                       run, experiment, key, step, time, value, attempt, rank: the visible
                                 points of all runs, sealed and live
    texts hists tables images    run, experiment, then the columns of the kind (docs/format.md)

Sealed parts are read by the database itself where all of their points are visible; the points of
other runs (live, resumed, logged twice) come through `store.points`.

Invariant: nothing is read of a run that the statement cannot ask for, and no name of a machine is
in any table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from expdb.errors import Corrupt
from expdb.index import connect
from expdb.index.engine import Connection
from expdb.index.reader import Reader
from expdb.index.schema import COLUMNS
from expdb.index.sql_guard import Statement
from expdb.model import RunState
from expdb.store import series
from expdb.store.layout import RunLayout
from expdb.store.media import read_media
from expdb.store.media_parts import schema as media_schema
from expdb.store.points import journals, part_lists, read_series
from expdb.text import plain

if TYPE_CHECKING:
    import pyarrow as pa

HIDDEN: Final[Mapping[str, frozenset[str]]] = {
    "runs": frozenset(["host", "version"]),
    "attempts": frozenset(["work_tree"]),
}
MEDIA: Final = {"texts": "text", "hists": "hist", "tables": "table", "images": "image"}
POINTS: Final = "run, experiment, key, step, time, value, attempt, rank"
LIVE: Final = frozenset([*(state for state in RunState if state.is_live), RunState.LOST])
BATCH_ROWS: Final = 1_000_000


class Source(NamedTuple):
    """A run that a statement may ask for."""

    id: str
    experiment: str
    layout: RunLayout
    is_over: bool
    """It has ended in its first attempt, and no file of it is known to be damaged."""
    num_counted: int
    """Points in the summaries that the index holds."""


def fill(con: Connection, reader: Reader, statement: Statement, warnings: list[str]) -> list[Path]:
    """Make every table, with rows in those that the statement names.

    Return the parts that the database itself opens; what is damaged is named in `warnings`.
    """
    tables = {**_columns_of_index(reader), **_columns_of_media()}
    declared = (
        f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())})"
        for name, columns in tables.items()
    )
    con.execute("; ".join(["CREATE SCHEMA own", *declared]))
    for name in (*COLUMNS, "refs"):
        if name in statement.tables:
            _copy(con, reader, name, tables[name])
    for name, kind in MEDIA.items():
        for source in _asked_for(reader, statement, name):
            _copy_media(con, source, name, kind, warnings)
    return _points(con, reader, statement, warnings)


def _columns_of_index(reader: Reader) -> dict[str, dict[str, str]]:
    """Return table -> column -> type of what a reader has."""
    names = (*COLUMNS, "refs")
    rows = reader.rows(
        "SELECT table_name, column_name, data_type FROM duckdb_columns()"
        " WHERE schema_name = 'gen' OR database_name = 'temp' ORDER BY column_index"
    )
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    for table, column, kind in rows:
        if table in found and column not in HIDDEN.get(table, ()):
            found[table][f'"{column}"'] = kind
    return found


def _columns_of_media() -> dict[str, dict[str, str]]:
    own = {"run": "VARCHAR", "experiment": "VARCHAR"}
    return {
        name: {**own, **{f.name: _kind(f.type) for f in media_schema(kind) if f.name != "seq"}}
        for name, kind in MEDIA.items()
    }


def _kind(of: pa.DataType) -> str:
    """Return the type of the database for one of Arrow's."""
    import pyarrow as pa

    if pa.types.is_list(of):
        return f"{_kind(of.value_type)}[]"
    return {"int64": "BIGINT", "int32": "INTEGER", "double": "DOUBLE", "binary": "BLOB"}.get(
        str(of), "VARCHAR"
    )


def _copy(con: Connection, reader: Reader, name: str, columns: Mapping[str, str]) -> None:
    # As text, since Arrow has no integer of 128 bits.
    wanted = (f"{c}::VARCHAR AS {c}" if k == "HUGEINT" else c for c, k in columns.items())
    _insert(con, name, reader.table(f"SELECT {', '.join(wanted)} FROM {name}"))


def _insert(con: Connection, table: str, rows: pa.Table) -> None:
    con.register("incoming", rows)
    try:
        con.execute(f"INSERT INTO {table} SELECT * FROM incoming")
    finally:
        con.unregister("incoming")


# --------------------------------------------------------------------------------------- of runs


def _asked_for(reader: Reader, statement: Statement, table: str) -> Iterator[Source]:
    """Yield the runs that the statement can show of a table."""
    asked = statement.asked.get(table, ())
    if not asked:
        return
    rows = reader.rows(
        "SELECT r.id, r.experiment, r.path, r.state, r.num_attempts, len(r.problems), s.points"
        " FROM runs r LEFT JOIN (SELECT run, sum(count) AS points FROM series GROUP BY run) s"
        " ON s.run = r.id ORDER BY r.created_at_ms, r.id"
    )
    root = reader.store.root.resolve()  # the database allows no path with `..` in it
    for run, experiment, path, state, attempts, problems, points in rows:
        if any(item.fits(run, experiment) for item in asked):
            is_over = state not in LIVE and attempts == 1 and not problems
            layout = RunLayout(root / path)
            yield Source(run, experiment, layout, is_over, int(points or 0))


def _points(
    con: Connection, reader: Reader, statement: Statement, warnings: list[str]
) -> list[Path]:
    con.execute("CREATE TABLE own.parts (file VARCHAR, run VARCHAR, experiment VARCHAR)")
    con.execute(
        "CREATE TABLE own.points (run VARCHAR, experiment VARCHAR, key VARCHAR, step BIGINT,"
        " time BIGINT, value DOUBLE, attempt INTEGER, rank INTEGER)"
    )
    whole: list[tuple[str, str, str]] = []
    tables: list[pa.Table] = []
    num_rows = 0
    for source in _asked_for(reader, statement, "points"):
        files = _all_visible(source)
        if files is not None:
            whole += [(str(file), source.id, source.experiment) for file in files]
            continue
        problems: list[str] = []
        table = read_series(source.layout.root, problems=problems).drop_columns(["seq"])
        warnings += [f"{plain(problem)} ({source.id})" for problem in problems]
        tables.append(_of_run(source, table))
        num_rows += table.num_rows
        if num_rows >= BATCH_ROWS:
            _flush(con, "own.points", tables)
            num_rows = 0
    _flush(con, "own.points", tables)
    sql = f"SELECT {POINTS} FROM own.points"
    if whole:
        columns = [list(column) for column in zip(*whole, strict=True)]
        con.execute("INSERT INTO own.parts SELECT unnest(?), unnest(?), unnest(?)", columns)
        names = ", ".join(connect.quoted(Path(file)) for file, _, _ in whole)
        # Hive keys could also stand in the path above the store, and encoded names in it.
        sql = (
            f"SELECT {POINTS} FROM read_parquet([{names}], filename = true,"
            " hive_partitioning = false, can_have_nan = true) f"
            f" JOIN own.parts p ON p.file = f.filename UNION ALL {sql}"
        )
    con.execute(f"CREATE VIEW points AS {sql}")
    return [Path(file) for file, _, _ in whole]


def _all_visible(source: Source) -> list[Path] | None:
    """Return the parts of a run if they hold its visible points and nothing else, else None.

    The summaries count visible points: as many points in the parts means that none is hidden.
    """
    if not (source.is_over and connect.is_plain(source.layout.root)):
        return None
    try:
        if journals(source.layout, 1):
            return None
        lists = part_lists(source.layout, 1)
        entries = [entry for rank in lists for entry in lists[rank]]
        total = sum(entry.num_points for entry in entries)
        if total != source.num_counted:  # the index leaves some series out
            book = series.load(source.layout.series_json)
            if book.unordered or total != sum(item.count for item in book.series.values()):
                return None
        files = [source.layout.points / Path(entry.file).name for entry in entries]
        sizes = [file.stat().st_size for file in files]
    except (OSError, Corrupt):
        return None
    return files if sizes == [entry.bytes for entry in entries] else None


def _of_run(source: Source, table: pa.Table) -> pa.Table:
    import pyarrow as pa

    names = (source.id, source.experiment.encode("utf-8", "replace").decode())
    for at, (column, text) in enumerate(zip(("run", "experiment"), names, strict=True)):
        table = table.add_column(at, column, pa.repeat(text, table.num_rows))
    return table


def _flush(con: Connection, name: str, tables: list[pa.Table]) -> None:
    import pyarrow as pa

    if tables:
        _insert(con, name, pa.concat_tables(tables))
        tables.clear()


def _copy_media(con: Connection, source: Source, name: str, kind: str, warnings: list[str]) -> None:
    problems: list[str] = []
    table = read_media(source.layout.root, kind, problems=problems)
    warnings += [f"{plain(problem)} ({source.id})" for problem in problems]
    if table.num_rows:
        _insert(con, name, _of_run(source, table.drop_columns(["seq"])))
