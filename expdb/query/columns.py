"""Columns and orders of lists that a person names: `--cols +optim.lr,-code`, `--sort -val/loss`.

Invariant: a name means what it means in a filter, besides the columns that every list has; values
of columns are read for the shown rows alone, an order is one query over all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from expdb import text
from expdb.errors import BadInput
from expdb.index.reader import Reader
from expdb.query.filters.errors import wrong
from expdb.query.filters.names import Field, Key, Metric, Names, Term, nearest
from expdb.query.filters.nodes import Name
from expdb.query.filters.sql import PLACES, Sql, series_value
from expdb.query.filters.steps import values_at
from expdb.query.filters.tokens import Token, tokens
from expdb.query.results import USUAL, ShownColumn

_SORTED_BY: Final[Mapping[str, str]] = {
    "run": "r.id", "experiment": "r.name", "seed": "r.seed", "state": "r.state",
    "step": "r.last_step", "age": "-r.created_at_ms", "code": 'r."commit"',
}  # fmt: skip


class Column(NamedTuple):
    """One column: one of `USUAL`, else what the index is asked for."""

    name: str
    term: Term | None = None

    @property
    def shown(self) -> ShownColumn:
        """The column as a list shows it."""
        kinds: dict[type[Term], Literal["field", "key", "metric"]] = {
            Field: "field",
            Key: "key",
            Metric: "metric",
        }
        return ShownColumn(self.name, kinds[type(self.term)] if self.term else "usual")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """An order of lists; what a run lacks comes last either way."""

    column: Column
    descending: bool = False


def columns_of(reader: Reader, said: Sequence[str], metric: str | None) -> tuple[Column, ...]:
    """Return the columns of a list: the usual ones, with what was said added and removed.

    Args:
        reader: the index.
        said: names, several with commas; one with `+` or `-` in front changes the list, one without
            begins a list of its own.
        metric: the metric that the column `objective` shows.

    Raises:
        NotFound: a name that the store does not have, with the nearest one.
        BadInput: a column to remove that is not shown, or no name.
    """
    shown = {name: Column(name) for name in USUAL}
    own = False
    for words in said:
        for sign, column, token in _columns(reader, words, metric):
            if not sign and not own:
                shown, own = {}, True
            if sign != "-":
                shown[column.name] = column
            elif column.name in shown:
                del shown[column.name]
            else:
                near = nearest(column.name, dict.fromkeys(shown, ""))
                raise wrong(
                    words, token.at, token.end,
                    f"no column {text.plain(column.name)} is shown", hint=near,
                )  # fmt: skip
    if not shown:
        raise BadInput("no column is left to show", hint="expdb ls --cols run,experiment")
    return tuple(shown.values())


def sort_of(reader: Reader, said: str, metric: str | None) -> Sort:
    """Return the order that `val/loss`, or `-val/loss` for the greatest first, names.

    Raises:
        NotFound: a name that the store does not have, with the nearest one.
        BadInput: no name, or one that cannot be sorted by.
    """
    found = _columns(reader, said, metric)
    if len(found) != 1:
        raise BadInput(
            f"--sort takes one name, not {text.plain(said)!r}", hint="an example: --sort -val/loss"
        )
    sign, column, token = found[0]
    if column.name == "delta" and column.term is None:
        raise wrong(said, token.at, token.end, "vs baseline is no order", hint="--sort objective")
    return Sort(column=column, descending=sign == "-")


def _columns(reader: Reader, said: str, metric: str | None) -> list[tuple[str, Column, Token]]:
    """Return (sign, column, place) of each name; the sign is `+`, `-` or empty."""
    found: list[tuple[str, Token]] = []
    sign = ""
    for token in tokens(said):
        if token.kind in (",", "end"):
            continue
        if token.kind not in ("word", "quoted"):
            raise wrong(said, token.at, token.end, "a name is expected here")
        if token.kind == "word" and not sign and token.text[0] in "+-":
            sign = token.text[0]
            token = Token(kind="word", text=token.text[1:], at=token.at + 1, end=token.end)
            if not token.text:
                continue  # the name stands in quotes behind the sign
        found.append((sign, token))
        sign = ""
    asked = {
        token: Name(
            text=token.text,
            quoted=token.kind == "quoted",
            reading=token.reading,
            at=token.at,
            end=token.end,
        )
        for _, token in found
        if _usual(token, metric) is None
    }
    terms = Names(reader).terms(said, asked.values(), also=USUAL) if asked else {}
    out = []
    for sign, token in found:
        name = _usual(token, metric)
        column = Column(name) if name else Column(token.text, terms[asked[token]])
        out.append((sign, column, token))
    return out


def _usual(token: Token, metric: str | None) -> str | None:
    """Return which of the usual columns a name is, None where it is none."""
    if token.kind == "quoted":
        return "objective" if token.text == metric and not token.reading else None
    known = {"id": "run", "exp": "experiment", "name": "experiment", "vs": "delta"}
    name = known.get(token.text, token.text)
    return name if name in USUAL else "objective" if name == metric else None


# ------------------------------------------------------------------------------------- values


def cells_of(
    reader: Reader, columns: Sequence[Column], ids: Sequence[str], *, problems: list[str]
) -> dict[str, dict[str, Any]]:
    """Return run -> column name -> value of the columns besides the usual ones.

    A run that lacks one has no such entry. Damaged files go to `problems`.
    """
    found: dict[str, dict[str, Any]] = {run: {} for run in ids}
    for column in columns:
        if column.term is None:
            continue
        for run, value in _values(reader, column.term, ids, problems):
            found[run][column.name] = value
    return found


def _values(
    reader: Reader, term: Term, ids: Sequence[str], problems: list[str]
) -> Sequence[tuple[str, Any]]:
    chosen = "IN (SELECT unnest(?))"
    if isinstance(term, Field):
        if term.name == "label":
            sql = f"SELECT id, labels FROM runs WHERE id {chosen} AND len(labels) > 0"
            return [(run, list(labels)) for run, labels in reader.rows(sql, [list(ids)])]
        place = _place(term)
        sql = f"SELECT r.id, {place} FROM runs r WHERE r.id {chosen} AND {place} IS NOT NULL"
        return [(row[0], row[1]) for row in reader.rows(sql, [list(ids)])]
    if isinstance(term, Key):
        sql = f"SELECT run, kind, text, number FROM params WHERE key = ? AND run {chosen}"
        return [(row[0], _config(*row[1:])) for row in reader.rows(sql, [term.name, list(ids)])]
    if term.reading == "at":
        could = Sql(f"r.id {chosen}", (list(ids),))
        return list(values_at(reader, {term}, could, problems=problems)[term].items())
    value, bound = series_value(term)
    sql = (
        f"SELECT f.run, {value} FROM series f JOIN runs o ON o.id = f.run"
        f" WHERE f.key = ? AND f.run {chosen}"
    )
    return [(row[0], row[1]) for row in reader.rows(sql, [*bound, term.name, list(ids)])]


def _place(term: Field) -> str:
    return "r.created_at_ms" if term.name == "age" else PLACES[term.name]


def _config(kind: str, shown: str | None, number: float | None) -> Any:
    """Return a config value as the config had it."""
    match kind:
        case "null":
            return None
        case "bool":
            return shown == "true"
        case "int":
            return int(shown or "0", 0)
        case "float":
            return number
        case "list" | "map":
            return json.loads(shown or "null")
    return shown


# -------------------------------------------------------------------------------------- order


def ordered_ids(
    reader: Reader,
    sort: Sort,
    where: str,
    params: Sequence[Any],
    *,
    metric: str | None,
    limit: int | None,
) -> list[str]:
    """Return the ids of the runs that meet `where`, in the order asked for; ties newest first.

    Numbers come before NaN, and before text; a run that lacks the name comes last either way.
    """
    source, bound, keys = _order(reader, sort, where, params, metric)
    order = ", ".join([*keys, "r.created_at_ms DESC, r.id DESC"])
    sql = f"SELECT r.id FROM runs r {source} WHERE {where or 'true'} ORDER BY {order}"
    sql += f" LIMIT {int(limit)}" if limit is not None else ""
    return [row[0] for row in reader.rows(sql, [*bound, *params])]


def _order(
    reader: Reader, sort: Sort, where: str, params: Sequence[Any], metric: str | None
) -> tuple[str, list[Any], list[str]]:
    """Return the joined table, what is bound in it, and the sort keys."""
    way, term = "DESC" if sort.descending else "ASC", sort.column.term
    if term is None and sort.column.name == "objective":
        value = "SELECT id AS run, value AS v FROM runs WHERE objective = ?"
        return f"LEFT JOIN ({value}) m ON m.run = r.id", [metric], _finite_first(way)
    if term is None or isinstance(term, Field):
        name = sort.column.name if term is None else term.name
        place = _SORTED_BY.get(name) or (
            "array_to_string(r.labels, ' ')" if name == "label" else PLACES[name]
        )
        return "", [], [f"({place}) IS NULL", f"{place} {way}"]
    if isinstance(term, Key):
        rank = (
            "CASE WHEN m.run IS NULL THEN 4 WHEN isnan(m.number) THEN 1"
            " WHEN m.number IS NOT NULL THEN 0 WHEN m.kind = 'text' THEN 2 ELSE 3 END"
        )
        source = "LEFT JOIN (SELECT * FROM params WHERE key = ?) m ON m.run = r.id"
        return source, [term.name], [rank, f"m.number {way}", f"m.text {way}"]
    if term.reading == "at":
        could = Sql(where or "true", tuple(params))
        found = values_at(reader, {term}, could, problems=[])[term]
        inner = "SELECT unnest(?::VARCHAR[]) AS run, unnest(?::DOUBLE[]) AS v"
        source = f"LEFT JOIN ({inner}) m ON m.run = r.id"
        return source, [list(found), list(found.values())], _finite_first(way)
    value, bound = series_value(term)
    inner = f"SELECT f.run, {value} AS v FROM series f JOIN runs o ON o.id = f.run WHERE f.key = ?"
    return f"LEFT JOIN ({inner}) m ON m.run = r.id", [*bound, term.name], _finite_first(way)


def _finite_first(way: str) -> list[str]:
    return ["CASE WHEN m.v IS NULL THEN 2 WHEN isnan(m.v) THEN 1 ELSE 0 END", f"m.v {way}"]
