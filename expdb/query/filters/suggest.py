"""What can stand at the cursor in a filter that is being typed: names, comparisons, values, words.

Invariant: what is suggested is inserted as it stands, and a filter of such words alone follows the
grammar; nothing here raises for what is half typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from expdb.index.reader import Reader
from expdb.query.filters.names import FIELDS
from expdb.query.filters.parser import KEYWORDS
from expdb.query.filters.sql import PLACES
from expdb.query.filters.values import NUMBERS, STATES, WITHOUT_ORDER

Expected = Literal["name", "comparison", "value", "list", "after list value", "what", "joint"]
COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=", "~", "in (", "not in (", "is")
JOINTS: Final = ("and", "or")
AGES: Final = ("1h", "8h", "1d", "7d", "30d")
READINGS: Final = (".best", ".last", ".min", ".max", ".at(")
RARE: Final = ("layer/", "sys/")
"""Beginnings of metrics by the hundred: suggested once they are typed."""
MAX_VALUES: Final = 50
_PIECE: Final = re.compile(
    r"\s+|'(?:[^']|'')*'?|\"(?:[^\"]|\"\")*\"?|<=|>=|!=|==|[=<>~!(),]|[^\s'\"(),=!<>~]+"
)
_BARE: Final = re.compile(r"[^\s'\"(),=!<>~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """What can stand from `start` to `end` of a filter."""

    start: int
    end: int
    words: tuple[str, ...] = ()
    expected: Expected = "name"
    about: str = ""
    """The name whose value is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The names of one store."""

    metrics: Sequence[str] = ()
    keys: Sequence[str] = ()
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Name -> values that runs have, of the names that were asked for."""


def known_of(reader: Reader) -> Known:
    """Return the names that the runs of a store have, the most frequent first."""

    def names(table: str) -> list[str]:
        sql = f"SELECT key FROM {table} GROUP BY key ORDER BY count(*) DESC, key"
        return [str(row[0]) for row in reader.rows(sql)]

    return Known(metrics=names("series"), keys=names("params"))


def values_of(reader: Reader, name: str) -> list[str]:
    """Return values of a field or config key as a filter writes them, the most frequent first."""
    own = FIELDS.get(name)
    if own == "state":
        return list(STATES)
    if own == "age":
        return list(AGES)
    if own == "label":
        sql = "SELECT label, count(*) n FROM (SELECT unnest(labels) AS label FROM runs) GROUP BY 1"
        rows = reader.rows(f"{sql} ORDER BY n DESC, 1 LIMIT {MAX_VALUES}")
    elif own is not None:
        sql = f"SELECT {PLACES[own]} v, count(*) n FROM runs r WHERE v IS NOT NULL GROUP BY 1"
        rows = reader.rows(f"{sql} ORDER BY n DESC, 1 LIMIT {MAX_VALUES}")
    else:
        sql = "SELECT text, count(*) n FROM params WHERE key = ? AND text IS NOT NULL GROUP BY 1"
        rows = reader.rows(f"{sql} ORDER BY n DESC, 1 LIMIT {MAX_VALUES}", [_bare(name)])
    return [quoted(str(row[0])) for row in rows]


def quoted(word: str) -> str:
    """Return a text as a filter writes it: in quotes where it is more than a word."""
    if _BARE.fullmatch(word) and word.lower() not in KEYWORDS:
        return word
    return "'" + word.replace("'", "''") + "'"


def suggest(source: str, cursor: int, known: Known) -> Suggestions:
    """Return what can stand at the cursor: what begins with what is typed, then what holds it."""
    before = source[:cursor]
    pieces = list(_PIECE.finditer(before))
    typed, start = "", cursor
    if pieces and _is_open(pieces[-1][0]):
        last = pieces.pop()
        typed, start = last[0], last.start()
    expected, about = _expected([one[0] for one in pieces if not one[0].isspace()])
    end = cursor
    if rest := _BARE.match(source, cursor):
        end = rest.end() if typed and typed[0] not in "'\"" else cursor
    words = _words(expected, about, typed, known)
    return Suggestions(
        start=start, end=end, expected=expected, about=about, words=_matching(typed, words)
    )


def _is_open(piece: str) -> bool:
    """Tell whether a piece may go on at the cursor."""
    if piece[0] in "'\"":
        return len(piece) == 1 or piece[-1] != piece[0]
    return not piece.isspace() and piece not in ("(", ")", ",")


def _expected(pieces: Sequence[str]) -> tuple[Expected, str]:
    """Return what is expected behind pieces, and the name that a value would be of."""
    expected: Expected = "name"
    name = ""
    for piece in pieces:
        word = piece.lower()
        if expected == "name":
            if word not in ("not", "(", ")"):
                expected, name = "comparison", piece
        elif expected == "comparison":
            if word == "in":
                expected = "list"
            elif word == "is":
                expected = "what"
            elif word != "not":
                expected = "value"
        elif expected == "value":
            expected = "joint"
        elif expected == "list":
            expected = "list" if word == "(" else "after list value"
        elif expected == "after list value":
            expected = "joint" if word == ")" else "list"
        elif expected == "what":
            expected = "what" if word == "not" else "joint"
        elif word in JOINTS:
            expected = "name"
    return expected, name if expected != "name" else ""


def _words(expected: Expected, about: str, typed: str, known: Known) -> Sequence[str]:
    if expected == "name":
        return _names(typed, known)
    if expected == "comparison":
        return _comparisons(about, known)
    if expected in ("value", "list"):
        return known.values.get(about, ())
    if expected == "what":
        return ("nan", "missing", "not")
    return (",", ")") if expected == "after list value" else JOINTS


def _names(typed: str, known: Known) -> list[str]:
    base, dot, _ = typed.rpartition(".")
    if dot and base in known.metrics:
        return [f"{base}{reading}" for reading in READINGS]
    metrics = [one for one in known.metrics if not one.startswith(RARE) or _has_rare(typed)]
    return [quoted(one) for one in dict.fromkeys([*metrics, *FIELDS, *known.keys])]


def _has_rare(typed: str) -> bool:
    return len(typed) > 2 and any(one.startswith(typed) or typed.startswith(one) for one in RARE)


def _comparisons(name: str, known: Known) -> Sequence[str]:
    own = FIELDS.get(name)
    if own in WITHOUT_ORDER:
        return ("=", "!=", "~", "in (", "not in (", "is")
    is_number = own in NUMBERS or own == "age" or (own is None and name in known.metrics)
    if is_number:
        return ("<", "<=", ">", ">=", "=", "!=", "is")
    return COMPARISONS


def _matching(typed: str, words: Sequence[str]) -> tuple[str, ...]:
    bare = typed.strip("'\"").lower()
    if not bare:
        return tuple(words)
    rank: Callable[[str], int | None] = lambda word: _rank(word.strip("'\"").lower(), bare)  # noqa: E731
    found = [(rank(word), word) for word in words]
    return tuple(
        word for at, word in sorted(
            ((at, word) for at, word in found if at is not None), key=lambda one: one[0]
        ) if word != typed
    )  # fmt: skip


def _rank(word: str, typed: str) -> int | None:
    """Return how well a word fits what is typed: its beginning, that of a part, anywhere."""
    if word.startswith(typed):
        return 0
    if any(part.startswith(typed) for part in re.split(r"[./_]", word)):
        return 1
    return 2 if typed in word else None


def _bare(name: str) -> str:
    """Return a name without its quotes."""
    if name[:1] in ("'", '"') and name[-1:] == name[:1]:
        return name[1:-1].replace(name[0] * 2, name[0])
    return name
