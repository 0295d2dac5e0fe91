"""The tables of a reader: those of its generation, with what it does not hold laid over them.

Invariant: a table that nothing is laid over is the generation's own, found by its bare name; no
other gets in its way, since the rest are temporary and of this connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from expdb.index import connect
from expdb.index.engine import Connection
from expdb.index.schema import COLUMNS, Tables

if TYPE_CHECKING:
    from expdb.model import Ref


def lay_over(
    con: Connection, hidden: Sequence[str], overlay: Sequence[Tables], refs: Mapping[str, Ref]
) -> None:
    """Make the tables of a reader.

    Args:
        con: an opened generation.
        hidden: runs whose rows in it no longer hold.
        overlay: rows of runs that it does not hold.
        refs: the refs and tags of the store.
    """
    con.execute(
        "SET search_path = 'gen';"
        "CREATE TEMP TABLE refs (name VARCHAR, kind VARCHAR, run VARCHAR, step BIGINT, op VARCHAR)"
    )
    if refs:
        columns = zip(*((r.name, r.kind, r.run, r.step, r.op) for r in refs.values()), strict=True)
        unnested = "unnest(?), unnest(?), unnest(?), unnest(?), unnest(?)"
        con.execute(f"INSERT INTO refs SELECT {unnested}", [list(column) for column in columns])
    if hidden:
        con.execute("CREATE TEMP TABLE hidden AS SELECT unnest(?) AS id", [list(hidden)])
    for name in COLUMNS:
        rows = [row for tables in overlay for row in tables[name]]
        if not hidden and not rows:
            continue
        kept = f"SELECT * FROM gen.{name}"
        if hidden:
            kept += f" WHERE {connect.key_of(name)} NOT IN (SELECT id FROM hidden)"
        if rows:
            con.execute(f"CREATE TEMP TABLE over_{name} AS SELECT * FROM gen.{name} LIMIT 0")
            connect.insert(con, {name: rows}, prefix="over_")
            kept += f" UNION ALL SELECT * FROM over_{name}"
        con.execute(f"CREATE TEMP VIEW {name} AS {kept}")
