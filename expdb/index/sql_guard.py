"""What a statement of a user may be, and a connection that can do nothing but answer it.

DuckDB's own parser says what a statement is: one SELECT, whose nodes and table functions are all on
the lists here. The connection is an empty database in memory of its own, so that its locked
settings reach no other one of this process; it may open the files named to it, and no others.

Invariant: a statement that is refused has not run, not even in part; one that runs reads no file
but those named, no variable of the environment or of the program, and changes no setting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb

from expdb.errors import BadInput
from expdb.index import connect
from expdb.index.engine import Connection

NODES: Final = frozenset(["SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"])
"""A common table expression may also hold INSERT, UPDATE or DELETE, each a node of its own kind."""

TABLE_FUNCTIONS: Final = frozenset([
    "range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree",
    "histogram", "histogram_values", "duckdb_columns", "duckdb_functions", "duckdb_tables",
    "duckdb_types", "pragma_table_info", "pragma_version",
])  # fmt: skip
"""Others read files, run text as a statement, or change settings that are locked (`enable_logging`
of DuckDB 1.5).
"""

JOINED_BY_ROWS: Final = frozenset(["REGULAR", "CROSS", "NATURAL"])
JOINED_ROWS: Final = frozenset(["INNER", "LEFT", "RIGHT", "OUTER"])
"""Joins in which a row that a later filter drops has no part in other rows: not so in ASOF,
POSITIONAL, ANTI and SEMI ones.
"""

KINDS: Final = {"MULTI": "PIVOT without IN (...)", "LOAD": "INSTALL or LOAD"}
"""What people call a kind of statement that DuckDB has another name for."""

KIND: Final = re.compile(r"^[A-Z][A-Za-z-]*( [A-Za-z]+)* Error: ")
"""How DuckDB begins what it says: `Binder Error: `, `Out of Range Error: `."""

HINT: Final = "tables: expdb sql 'show tables'       columns: expdb sql 'describe runs'"


OF_RUN_FILES: Final = frozenset(["points", "texts", "hists", "tables", "images"])
"""Tables that are read from the files of each run that is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which runs one mention of such a table can show: those of these ids and experiments."""

    runs: frozenset[str] | None = None
    experiments: frozenset[str] | None = None

    def fits(self, run: str, experiment: str) -> bool:
        """Tell whether a run may be among them."""
        return (self.runs is None or run in self.runs) and (
            self.experiments is None or experiment in self.experiments
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One SELECT that may run."""

    text: str
    tables: frozenset[str]
    """The names in FROM, in lower case: tables, and common table expressions."""
    asked: Mapping[str, tuple[Asked, ...]]
    """Of each table of `OF_RUN_FILES` that it names: one for each mention."""


def open_empty() -> Connection:
    """Return an empty database in memory, to be filled and then locked."""
    con = connect.open_memory()
    con.execute("SET python_enable_replacements = false")
    con.execute("SET temp_directory = ''")
    # DuckDB fills it from the environment, user and password included.
    con.execute("SET http_proxy = ''")
    return con


def lock(con: Connection, files: Iterable[Path] = ()) -> None:
    """Close a connection to the world, the named files excepted, for good."""
    names = ", ".join(connect.quoted(path) for path in files)
    if names:
        con.execute(f"SET allowed_paths = [{names}]")
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")


def checked(con: Connection, text: str, params: Sequence[Any] | Mapping[str, Any]) -> Statement:
    """Return the statement in `text`; nothing of it runs, so any connection does.

    Raises:
        BadInput: it is no SQL, or anything but one SELECT.
    """
    try:
        text.encode()
        given = con.extract_statements(text)
    except UnicodeEncodeError as error:
        raise BadInput("the statement is not UTF-8 text") from error
    except duckdb.Error as error:
        raise refusal(error) from error
    if len(given) != 1:
        raise BadInput(f"sql runs one statement, and there are {len(given) or 'none'}")
    kind = KINDS.get(given[0].type.name, str(given[0].type.name))
    if kind != "SELECT":
        raise BadInput(
            f"{kind.replace('_', ' ')} is refused: sql only reads", hint="one SELECT; " + HINT
        )
    nodes = list(_mappings(_tree(con, text)))
    for node in nodes:
        _require_reading(node)
    mentions = [node for node in nodes if node.get("type") == "BASE_TABLE"]
    tables = frozenset(_name(node, "table_name") for node in mentions)
    asked: dict[str, tuple[Asked, ...]] = {}
    for table in tables & OF_RUN_FILES:
        found = tuple(item for node in nodes for item in _asked(node, table, params))
        number = sum(_name(node, "table_name") == table for node in mentions)
        # Where some stand in no FROM of a SELECT, nothing is known of them.
        asked[table] = found if len(found) == number else (Asked(),)
    return Statement(text=text, tables=tables, asked=asked)


def refusal(error: duckdb.Error) -> BadInput:
    """Return what DuckDB says of a statement as one line, with the place it points at."""
    first, *rest = str(error).splitlines() or [""]
    message = KIND.sub("", first).rstrip(" .!")
    lines = [line for line in rest if line.strip()]
    at = next((at for at, line in enumerate(lines) if line.startswith("LINE ")), len(lines))
    hint = next((line for line in lines[:at] if "indings:" in line or line.startswith("Did")), "")
    return BadInput(
        message[:1].lower() + message[1:] or "the statement cannot be run",
        details=tuple(line.rstrip() for line in lines[at : at + 2]),
        hint=hint[:1].lower() + hint[1:] or HINT,
    )


def _tree(con: Connection, text: str) -> Any:
    try:
        rows = con.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
        tree = json.loads(rows[0][0])
    except (duckdb.Error, ValueError, RecursionError) as error:
        raise BadInput("the statement is too deep to be checked") from error
    if tree.get("error", True):
        said = str(tree.get("error_message", "it is of no known kind"))
        raise BadInput(f"the statement cannot be checked: {said}", hint="one SELECT; " + HINT)
    return tree


def _mappings(tree: Any) -> Iterator[dict[str, Any]]:
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _require_reading(node: Mapping[str, Any]) -> None:
    kind = node.get("type")
    if isinstance(kind, str) and kind.endswith("_NODE") and kind not in NODES:
        said = kind.removesuffix("_NODE").removesuffix("_QUERY").replace("_", " ")
        raise BadInput(f"{said} is refused: sql only reads", hint="one SELECT; " + HINT)
    if kind == "TABLE_FUNCTION":
        name = _name(node.get("function") or {}, "function_name")
        if name not in TABLE_FUNCTIONS:
            raise BadInput(f"the table function {name} is refused: sql only reads the store",
                           hint=HINT)  # fmt: skip


def _name(node: Mapping[str, Any], field: str) -> str:
    return str(node.get(field, "")).lower()


# ------------------------------------------------------------------------- which runs are asked for


def _asked(
    node: Mapping[str, Any], name: str, params: Sequence[Any] | Mapping[str, Any]
) -> list[Asked]:
    """Return what a SELECT asks of each table of a name in its FROM: what its WHERE says for
    sure.
    """
    if node.get("type") != "SELECT_NODE":
        return []
    conditions = list(_conjuncts(node.get("where_clause")))
    out = []
    for table, is_plain in _in_from(node.get("from_table"), is_plain=True):
        if _name(table, "table_name") != name:
            continue
        alias = _name(table, "alias") or name
        renamed = table.get("column_name_alias") or table.get("sample")
        found: dict[str, frozenset[str]] = {}
        for condition in conditions if is_plain and not renamed else ():
            column, values = _values(condition, alias, params)
            if values is not None:
                found[column] = values & found.get(column, values)
        out.append(Asked(runs=found.get("run"), experiments=found.get("experiment")))
    return out


def _in_from(item: Any, *, is_plain: bool) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield the tables of a FROM, and whether only plain joins are above each."""
    if not isinstance(item, dict):
        return
    if item.get("type") == "BASE_TABLE":
        yield item, is_plain
    elif item.get("type") == "JOIN":
        by_rows = item.get("ref_type") in JOINED_BY_ROWS and item.get("join_type") in JOINED_ROWS
        is_plain = is_plain and by_rows and not item.get("sample")
        yield from _in_from(item.get("left"), is_plain=is_plain)
        yield from _in_from(item.get("right"), is_plain=is_plain)


def _conjuncts(condition: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(condition, dict):
        if condition.get("type") == "CONJUNCTION_AND":
            for child in condition.get("children", ()):
                yield from _conjuncts(child)
        else:
            yield condition


def _values(
    condition: Mapping[str, Any], alias: str, params: Sequence[Any] | Mapping[str, Any]
) -> tuple[str, frozenset[str] | None]:
    """Return the column and the texts of `column = text` or `column IN (texts)`, else None."""
    match condition.get("type"):
        case "COMPARE_EQUAL":
            sides = [condition.get("left"), condition.get("right")]
            if not _column(sides[0], alias):
                sides.reverse()
        case "COMPARE_IN":
            sides = list(condition.get("children", ()))
        case _:
            return "", None
    column = _column(sides[0], alias) if sides else ""
    texts = [_text(side, params) for side in sides[1:]]
    if not column or None in texts:
        return "", None
    return column, frozenset(text for text in texts if text is not None)


def _column(item: Any, alias: str) -> str:
    names = item.get("column_names") if isinstance(item, dict) else None
    if not names or (len(names) > 1 and (len(names) > 2 or str(names[0]).lower() != alias)):
        return ""
    name = str(names[-1]).lower()
    return name if name in ("run", "experiment") else ""


def _text(item: Any, params: Sequence[Any] | Mapping[str, Any]) -> str | None:
    """Return a text that stands in the statement or is bound in it."""
    if not isinstance(item, dict):
        return None
    value: Any = None
    if item.get("type") == "VALUE_PARAMETER":
        name = str(item.get("identifier", ""))
        if isinstance(params, Mapping):
            value = params.get(name)
        elif name.isdigit() and 0 < int(name) <= len(params):
            value = params[int(name) - 1]
    elif item.get("type") == "VALUE_CONSTANT":
        literal, old = item.get("literal"), item.get("value")
        if isinstance(literal, dict) and literal.get("kind") == "STRING":
            value = literal.get("text")
        elif isinstance(old, dict):  # DuckDB 1.5
            value = old.get("value")
    return value if isinstance(value, str) else None
