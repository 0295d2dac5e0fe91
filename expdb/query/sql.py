"""`sql`: the answer to one SELECT over the store.

Invariant: what the statement may do is decided before it runs (index/sql_guard.py); an answer is
whole or an error, and Ctrl-C ends it at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final

import duckdb

from expdb.errors import BadInput
from expdb.index.engine import Connection
from expdb.index.reader import Reader
from expdb.index.sql_guard import checked, lock, open_empty, refusal
from expdb.index.views import fill
from expdb.query.lossless import projection
from expdb.store.candidates import MIN_PREFIX

if TYPE_CHECKING:
    import pyarrow as pa

LITERAL: Final = re.compile(r"'([^']+)'")
"""A text in a statement; one with a quote in it is no name that is looked for."""


def answer(
    reader: Reader,
    statement: str,
    params: Sequence[Any] | Mapping[str, Any] = (),
    *,
    limit: int | None = None,
    warnings: list[str] | None = None,
) -> pa.Table:
    """Return what one SELECT answers, its first `limit` rows when given.

    Tables: runs params series points evals events checkpoints refs attempts files used_files, and
    texts hists tables images. `points.time` is UTC epoch milliseconds. What Arrow has no type for,
    intervals among them, is text. Damaged files are left out,
    and named in `warnings` when a list is given.

    Raises:
        BadInput: it is no SQL, anything but one SELECT, or it fails.
    """
    found = checked(reader.con, statement, params)
    con = open_empty()
    try:
        files = fill(con, reader, found, [] if warnings is None else warnings)
        lock(con, files)
        return _with_integers(_interruptible(con, lambda: _run(con, statement, params, limit)))
    finally:
        con.close()


def hints_of_nothing(reader: Reader, statement: str) -> tuple[str, ...]:
    """Return why a statement may have no rows: a text in it is a name of a run, but no whole id."""
    known = sorted(reader.versions)
    found: dict[str, str] = {}
    for name in dict.fromkeys(LITERAL.findall(statement)):
        begins = [run for run in known if run.startswith(name)] if len(name) >= MIN_PREFIX else []
        ref = reader.refs.get(name)
        if len(begins) == 1 and begins[0] != name:
            found[name] = begins[0]
        elif ref is not None:
            found[name] = ref.run
    return tuple(f"a run is its whole id in sql: '{run}'" for run in found.values())


def _run(
    con: Connection,
    statement: str,
    params: Sequence[Any] | Mapping[str, Any],
    limit: int | None,
) -> pa.Table:
    bound = dict(params) if isinstance(params, Mapping) else list(params)
    try:
        found = con.sql(statement, params=bound) if bound else con.sql(statement)
        found = found if limit is None else found.limit(limit)
        whole = projection(found.columns, found.types)
        return (found.project(whole) if whole else found).to_arrow_table()
    except duckdb.Error as error:
        raise refusal(error) from error
    except UnicodeEncodeError as error:
        raise BadInput("a bound text is not UTF-8") from error


def _interruptible(con: Connection, call: Callable[[], pa.Table]) -> pa.Table:
    """Return what `call` returns; DuckDB looks at no signal while it works in the main thread."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="expdb-sql") as pool:
        work = pool.submit(call)
        try:
            return work.result()
        except KeyboardInterrupt:
            while not work.done():  # an interrupt before the first row is computed is lost
                con.interrupt()
                wait([work], timeout=0.05)
            raise


def _with_integers(table: pa.Table) -> pa.Table:
    """Return sums and seeds, which have 128 bits, as int64 where they fit."""
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            try:
                table = table.set_column(at, field.name, table.column(at).cast(pa.int64()))
            except pa.ArrowInvalid:
                continue
    return table
