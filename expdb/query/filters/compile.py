"""A filter text to a bound SQL condition over `r` (runs); `parser` and `sql` say what it means."""

from __future__ import annotations

from collections.abc import Mapping

from expdb import text
from expdb.index.reader import Reader
from expdb.query.filters.names import Key, Metric, Names, Term, tests_of
from expdb.query.filters.nodes import Name, Node
from expdb.query.filters.parser import parse
from expdb.query.filters.sql import Compiler, Sql
from expdb.query.filters.steps import AtStep, anything, values_at
from expdb.query.filters.values import typed


def condition(reader: Reader, source: str, *, now_ms: int, warnings: list[str]) -> Sql:
    """Return where the runs are that a filter selects.

    Args:
        reader: the index; points are read only for metrics at a step.
        source: the filter.
        now_ms: the moment that ages are counted from.
        warnings: gets what the filter passes over: text where it asks for a number, damage.

    Raises:
        BadInput: it does not follow the grammar, or compares what cannot be compared.
        NotFound: a name or a state that does not exist.
    """
    node = parse(source)
    terms = Names(reader).terms(source, (test.name for test in tests_of(node)))
    at_steps = {
        term for term in terms.values() if isinstance(term, Metric) and term.step is not None
    }
    known = anything
    compiler = Compiler(source=source, terms=terms, now_ms=now_ms, at_step=known)
    found = compiler.compile(node)
    if at_steps:
        values = values_at(reader, at_steps, found, problems=warnings)
        at_step = AtStep(source=source, values=values)
        found = Compiler(source=source, terms=terms, now_ms=now_ms, at_step=at_step).compile(node)
    warnings += _skipped(reader, source, node, terms)
    return found


def _skipped(reader: Reader, source: str, node: Node, terms: Mapping[Name, Term]) -> list[str]:
    """Return what is text in some runs and compared with a number: such runs are not selected."""
    asked = {
        term.name
        for test in tests_of(node)
        if isinstance(term := terms[test.name], Key)
        and any(type(value) in (int, float) for value in typed(source, test, term))
    }
    if not asked:
        return []
    sql = (
        "SELECT key, count(*) FROM params WHERE kind = 'text' AND key IN (SELECT unnest(?))"
        " GROUP BY key ORDER BY key"
    )
    return [
        f"{text.plain(key)} is text in {number:,} run{'' if number == 1 else 's'}, which no number"
        " is compared with"
        for key, number in reader.rows(sql, [sorted(asked)])
    ]
