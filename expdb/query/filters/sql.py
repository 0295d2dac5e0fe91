"""A tree of tests to a bound SQL condition over `r` (runs).

A run answers a test with true, false, or neither: it has no such name, the value is NaN, or it is
of another kind than the value compared with. `not` turns true and false around and leaves neither;
`and` needs all true, `or` one. A run is selected when the whole filter is true. `is nan` and `is
missing` are true or false of every run.

Invariant: no text of the user stands in the SQL. Since neither selects nothing, `not` is pushed
down to the tests, and each test is compiled as where it is true, or where it is false; no NULL is
left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from expdb.query.filters.names import Field, Key, Metric, Term
from expdb.query.filters.nodes import All, AnyOf, Name, Node, Not, Op, Test
from expdb.query.filters.values import MAX_INT, Typed, typed
from expdb.store.direction import natural_mode

PLACES: Final[Mapping[str, str]] = {
    "state": "r.state", "study": "r.study", "host": "r.host", "experiment": "r.experiment",
    "variant": "r.variant", "name": "r.name", "commit": 'r."commit"', "run": "r.id",
    "seed": "r.seed", "step": "r.last_step", "max_steps": "r.max_steps",
    "size": "r.bytes",
}  # fmt: skip
BY_PREFIX: Final = frozenset(["commit", "run"])
NUMBER_KINDS: Final = "p.kind IN ('int', 'float') AND p.number IS NOT NULL AND NOT isnan(p.number)"
SQL_OPS: Final[Mapping[Op, str]] = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


@dataclass(frozen=True, slots=True)
class Sql:
    """A condition and the values bound in it, in order."""

    text: str
    params: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """Values of one kind in one test: where they can be compared at all, and how."""

    domain: Sql
    holds: Sql

    def where(self, want: bool) -> Sql:
        """Return where the test can be answered, and is `want`."""
        said = self.holds.text if want else f"NOT ({self.holds.text})"
        return Sql(f"{self.domain.text} AND {said}", self.domain.params + self.holds.params)


Known = Callable[[Test, Metric, bool], Sql]
"""Compiles a test of a metric at one step, which the index does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """Compiles the trees of one filter text."""

    source: str
    terms: Mapping[Name, Term]
    now_ms: int
    at_step: Known

    def compile(self, node: Node, want: bool = True) -> Sql:
        """Return where a node is true, or with `want` off where it is false.

        Raises:
            BadInput, NotFound: a value that the name cannot be compared with.
        """
        if isinstance(node, Not):
            return self.compile(node.node, not want)
        if isinstance(node, All | AnyOf):
            word = "AND" if isinstance(node, All) == want else "OR"
            return joined(word, [self.compile(inner, want) for inner in node.nodes])
        return self._test(node, want)

    def _test(self, test: Test, want: bool) -> Sql:
        term = self.terms[test.name]
        values = typed(self.source, test, term)
        if isinstance(term, Field):
            return self._field(term, test.op, values, want)
        if isinstance(term, Metric) and term.reading == "at":
            return self.at_step(test, term, want)
        if isinstance(term, Metric):
            return _metric(term, test.op, values, want)
        return _key(term, test.op, values, want)

    def _field(self, term: Field, op: Op, values: Sequence[Typed], want: bool) -> Sql:
        name = term.name
        if op == "nan":
            return Sql("false" if want else "true")
        if name == "label":
            return _label(op, values, want)
        if name == "age":
            if op == "missing":
                return Sql("false" if want else "true")
            holds = joined("OR", [Sql(f"? - r.created_at_ms {SQL_OPS[op]} ?", (self.now_ms, v))
                                  for v in values])  # fmt: skip
            return Kind(Sql("true"), holds).where(want)
        place = PLACES[name]
        if op == "missing":
            return _opposite(Sql(f"{place} IS NULL"), want)
        holds = _any(place, op, values, prefix=name in BY_PREFIX)
        return Kind(Sql(f"{place} IS NOT NULL"), holds).where(want)


def joined(word: str, parts: Sequence[Sql]) -> Sql:
    """Return conditions joined by AND or OR, in brackets where there are several."""
    if len(parts) == 1:
        return parts[0]
    text = f" {word} ".join(f"({part.text})" for part in parts)
    return Sql(f"({text})", tuple(param for part in parts for param in part.params))


def _opposite(sql: Sql, want: bool) -> Sql:
    return sql if want else Sql(f"NOT ({sql.text})", sql.params)


def _bound(value: Typed) -> Typed:
    """Return a value as the database can take it."""
    return float(value) if isinstance(value, int) and abs(value) >= MAX_INT else value


def _any(place: str, op: Op, values: Sequence[Typed], *, prefix: bool = False) -> Sql:
    """Return where one of the values compares so with `place`, which is not null."""
    if op == "~":
        tests = [f"contains(lower({place}), lower(?))"] * len(values)
    elif prefix:
        tests = [f"starts_with({place}, lower(?))"] * len(values)
    elif len(values) > 1 and all(isinstance(value, str) for value in values):
        return Sql(f"{place} IN (SELECT unnest(?))", (list(values),))
    else:
        tests = [f"{place} {SQL_OPS[op]} ?"] * len(values)
    return joined(
        "OR", [Sql(f"({test})", (_bound(v),)) for test, v in zip(tests, values, strict=True)]
    )


def _label(op: Op, values: Sequence[Typed], want: bool) -> Sql:
    if op == "missing":
        return _opposite(Sql("len(r.labels) = 0"), want)
    test = "list_contains(r.labels, ?)"
    if op == "~":
        test = "contains(lower(array_to_string(r.labels, chr(10))), lower(?))"
    return _opposite(joined("OR", [Sql(test, (value,)) for value in values]), want)


def _key(term: Key, op: Op, values: Sequence[Typed], want: bool) -> Sql:
    if op == "nan":
        return _opposite(_in_params(term, Sql("p.kind = 'float' AND isnan(p.number)")), want)
    if op == "missing":
        there = Sql("(p.kind != 'marker' OR p.text != '???')")  # a mandatory value left open
        return _opposite(_in_params(term, there), not want)
    kinds = [_in_params(term, kind.where(want)) for kind in _key_kinds(op, values)]
    return joined("OR" if want else "AND", kinds)


def _key_kinds(op: Op, values: Sequence[Typed]) -> list[Kind]:
    """Return the values of a test of a config key, by the kinds they are compared with."""
    texts = [value for value in values if isinstance(value, str)]
    flags = ["true" if value else "false" for value in values if isinstance(value, bool)]
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    kinds = []
    if texts:
        within = "('text', 'list')" if op == "~" else "('text')"
        kinds.append(Kind(Sql(f"p.kind IN {within}"), _any("p.text", op, texts)))
    if numbers:
        kinds.append(Kind(Sql(NUMBER_KINDS), _any("p.number", op, numbers)))
    if flags:
        kinds.append(Kind(Sql("p.kind = 'bool'"), _any("p.text", "=", flags)))
    if None in values:
        kinds.append(Kind(Sql("p.kind != 'marker'"), Sql("p.kind = 'null'")))
    return kinds


def _in_params(term: Key, condition: Sql) -> Sql:
    inner = f"SELECT p.run FROM params p WHERE p.key = ? AND {condition.text}"
    return Sql(f"r.id IN ({inner})", (term.name, *condition.params))


def _metric(term: Metric, op: Op, values: Sequence[Typed], want: bool) -> Sql:
    if op == "nan":
        return _opposite(_in_series(term, Sql("isnan(v)")), want)
    if op == "missing":
        return _opposite(_in_series(term, Sql("true")), not want)
    return _in_series(term, Kind(Sql("NOT isnan(v)"), _any("v", op, values)).where(want))


def _in_series(term: Metric, condition: Sql) -> Sql:
    """Return the runs whose metric, as it is read, meets a condition over its value `v`."""
    value, bound = series_value(term)
    inner = f"SELECT f.run, {value} AS v FROM series f JOIN runs o ON o.id = f.run WHERE f.key = ?"
    condition_sql = f"SELECT w.run FROM ({inner}) w WHERE {condition.text}"
    return Sql(f"r.id IN ({condition_sql})", (*bound, term.name, *condition.params))


def series_value(term: Metric) -> tuple[str, tuple[str, ...]]:
    """Return the SQL of a metric's value over `f` (its series) and `o` (its run), and its params.

    The best, least and greatest values are over finite points; NaN where there is none.
    """
    least, greatest = "coalesce(f.min, 'NaN'::DOUBLE)", "coalesce(f.max, 'NaN'::DOUBLE)"
    if term.reading == "best":
        mode = "CASE WHEN o.objective = f.key THEN o.objective_mode ELSE ? END"
        value = f"CASE WHEN {mode} = 'max' THEN {greatest} ELSE {least} END"
        return value, (natural_mode(term.name) or "min",)
    return {"min": least, "max": greatest}.get(term.reading, "f.last"), ()
