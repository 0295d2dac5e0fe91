"""What the names of a filter mean in one store: a field, a config key, or a metric and its reading.

Invariant: an unquoted field wins over a key or metric of that name; of the rest the longest name
that the store has wins, so `val/loss.best` is a metric called so where there is one. An unknown
name is an error with the nearest one, never a filter that selects nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from expdb import text
from expdb.errors import ExpdbError
from expdb.index.reader import Reader
from expdb.query.filters.errors import unknown
from expdb.query.filters.nodes import Name, Node, Not, Test
from expdb.query.filters.tokens import READING

Reading = Literal["last", "best", "min", "max", "at"]
FieldName = Literal[
    "state", "seed", "label", "study", "age", "commit", "host", "experiment", "variant", "name",
    "run", "step", "max_steps", "size",
]  # fmt: skip
FIELDS: Final[Mapping[str, FieldName]] = {
    "state": "state", "seed": "seed", "label": "label", "study": "study", "age": "age",
    "commit": "commit", "host": "host", "experiment": "experiment", "exp": "experiment",
    "variant": "variant", "name": "name", "run": "run", "id": "run",
    "step": "step", "max_steps": "max_steps", "size": "size",
}  # fmt: skip
MAX_NEAR: Final = 3
_WITH_READING: Final = re.compile(rf"(.+)\.({READING})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Field:
    """A fact about the run itself."""

    name: FieldName


@dataclass(frozen=True, slots=True)
class Key:
    """A config key."""

    name: str


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric and how it is read; `step` only for the reading `at`."""

    name: str
    reading: Reading = "last"
    step: int | None = None


Term = Field | Key | Metric


def tests_of(node: Node) -> Iterator[Test]:
    """Yield every test of a filter, from left to right."""
    if isinstance(node, Test):
        yield node
    elif isinstance(node, Not):
        yield from tests_of(node.node)
    else:
        for inner in node.nodes:
            yield from tests_of(inner)


class Names:
    """The names that the runs of a store have; asked for once each."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def terms(
        self, source: str, names: Iterable[Name], *, also: Iterable[str] = ()
    ) -> dict[Name, Term]:
        """Return what each name means; `also` are names that an error may name as nearest.

        Raises:
            NotFound: the store has no such name; the error shows where, and the nearest one.
        """
        wanted = list(names)
        candidates = {one for name in wanted for one in _candidates(name)}
        keys, metrics = self._have("params", candidates), self._have("series", candidates)
        is_empty = not (keys or metrics) and not self._reader.rows("SELECT 1 FROM runs LIMIT 1")
        found: dict[Name, Term] = {}
        for name in wanted:
            term = _term(name, keys, metrics) or (_by_form(name) if is_empty else None)
            if term is None:
                raise self._unknown(source, name, also)
            found[name] = term
        return found

    def _have(self, table: str, candidates: set[str]) -> set[str]:
        sql = f"SELECT DISTINCT key FROM {table} WHERE key IN (SELECT unnest(?))"
        asked = sorted(map(readable, candidates))
        return {row[0] for row in self._reader.rows(sql, [asked])}

    def _all(self, table: str) -> dict[str, int]:
        return dict(self._reader.rows(f"SELECT key, count(*) FROM {table} GROUP BY key"))

    def _unknown(self, source: str, name: Name, also: Iterable[str]) -> ExpdbError:
        keys, metrics = self._all("params"), self._all("series")
        base, _, reading = name.text.rpartition(".")
        if base in metrics:
            return unknown(
                source,
                name.at,
                name.end,
                f"{text.plain(base)} has no reading {text.plain(reading)}",
                hint="one of: .last  .best  .min  .max  .at(300)",
            )
        shown = text.plain(name.text)
        if "/" in name.text:
            message = f"no run has a metric {shown}"
            near = {metric: _runs(number) for metric, number in metrics.items()}
        elif "." in name.text or name.quoted:
            message, near = f"no config key is called {shown}", dict.fromkeys(keys, "")
        else:
            message = f"no field, config key or metric is called {shown}"
            near = dict.fromkeys([*metrics, *keys, *FIELDS, *also], "")
        return unknown(source, name.at, name.end, message, hint=nearest(name.text, near))


def nearest(word: str, names: Mapping[str, str]) -> str:
    """Return `nearest: optim.lr, optim.wd (2 runs)` from name -> remark; empty where none is."""
    ends = sorted(name for name in names if name.rsplit(".", 1)[-1] == word)
    close = difflib.get_close_matches(word[:200], sorted(names), n=MAX_NEAR, cutoff=0.6)
    found = list(dict.fromkeys([*ends, *close]))[:MAX_NEAR]
    said = (f"{text.plain(one)} ({names[one]})" if names[one] else text.plain(one) for one in found)
    return f"nearest: {', '.join(said)}" if found else ""


def readable(word: str) -> str:
    """Return a text as the index holds it: without lone surrogates."""
    return word.encode("utf-8", "replace").decode()


def _runs(number: int) -> str:
    return f"{number:,} run{'' if number == 1 else 's'}"


def _candidates(name: Name) -> list[str]:
    if name.quoted:
        return [name.text]
    split = _WITH_READING.fullmatch(name.text)
    return [name.text, split[1]] if split else [name.text]


def _term(name: Name, keys: set[str], metrics: set[str]) -> Term | None:
    if not name.quoted and name.text in FIELDS:
        return Field(FIELDS[name.text])
    whole = readable(name.text)
    if name.reading:
        return _metric(whole, name.reading) if whole in metrics else None
    slash = "/" in whole
    if whole in keys and not (slash and whole in metrics):
        return Key(whole)
    if whole in metrics:
        return Metric(whole)
    split = None if name.quoted else _WITH_READING.fullmatch(whole)
    return _metric(split[1], split[2]) if split and split[1] in metrics else None


def _by_form(name: Name) -> Term:
    """Return what a name looks like, for a store without runs."""
    return Metric(name.text) if "/" in name.text or name.reading else Key(name.text)


def _metric(name: str, reading: str) -> Metric:
    if reading.startswith("at("):
        return Metric(name, "at", int(reading[3:-1]))
    return Metric(name, cast("Reading", reading))
