"""What stands right of a comparison, typed by what it is compared with.

A bare word is a number, `true`, `false`, `null` where it looks so, else text. Quoted it is text. A
number is compared with numbers only, text with text: a config value that is text is never a number,
whatever it looks like.
"""

from __future__ import annotations

import re
from typing import Final

from expdb import text
from expdb.model import RunState
from expdb.query.filters.durations import duration_ms
from expdb.query.filters.errors import unknown, wrong
from expdb.query.filters.names import Field, Key, Metric, Term, nearest, readable
from expdb.query.filters.nodes import Op, Test, Value

Typed = bool | int | float | str | None
ORDERED: Final = frozenset(["<", "<=", ">", ">="])
STATES: Final = tuple(state.value for state in RunState)
NUMBERS: Final = frozenset(["seed", "step", "max_steps", "size"])
WITHOUT_ORDER: Final = frozenset(["state", "label", "commit", "run"])
MAX_INT: Final = 10**38
_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+|[1-9][0-9]*(?:_[0-9]+)+)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[+-]?\.?inf",
    re.IGNORECASE | re.ASCII,
)
_NEARLY: Final = re.compile(r"[+-]?[\d_]*\.?[\d_]*\d[\d_]*(?:[eE][+-]?[\d_]+)?")
"""What looks like a number: `0_1`, digits of other scripts."""


def number_of(word: str) -> int | float | None:
    """Return the number that a word is, None for another word; `nan` is no number here."""
    if not _NUMBER.fullmatch(word):
        return None
    bare = word.replace("_", "").lower()
    if bare.endswith("inf"):
        return float("-inf") if bare.startswith("-") else float("inf")
    if re.fullmatch(r"[+-]?[0-9]+", bare) and len(bare) < 39:
        return int(bare)
    return float(bare)


def typed(source: str, test: Test, term: Term) -> list[Typed]:
    """Return the values of a test as what its name compares with; ages in milliseconds.

    Raises:
        BadInput: a value of another kind, or a comparison that has no meaning for the name.
        NotFound: a state that does not exist.
    """
    return [_typed(source, test.op, value, term) for value in test.values]


def _typed(source: str, op: Op, value: Value, term: Term) -> Typed:
    if isinstance(term, Metric):
        return _number(source, op, value, f"{text.plain(term.name)} is a metric")
    if isinstance(term, Key):
        return _of_key(source, op, value, term)
    return _of_field(source, op, value, term)


def _number(source: str, op: Op, value: Value, what: str) -> int | float:
    found = None if value.quoted else number_of(value.text)
    if op == "~":
        raise wrong(source, value.at, value.end, f"{what}: ~ looks into text")
    if found is not None:
        return found
    _no_nan(source, value)
    raise wrong(
        source, value.at, value.end, f"{what}: {text.plain(value.text)} is not a number",
        hint="an example: 1e-3",
    )  # fmt: skip


def _no_nan(source: str, value: Value) -> None:
    if not value.quoted and value.text.lower() in ("nan", ".nan"):
        raise wrong(
            source, value.at, value.end, "nothing equals NaN", hint="is nan, or: is not nan"
        )


def _of_key(source: str, op: Op, value: Value, term: Key) -> Typed:
    if value.quoted or op == "~":
        return readable(value.text)
    _no_nan(source, value)
    number = number_of(value.text)
    if number is not None:
        return number
    if _NEARLY.fullmatch(value.text) and ("_" in value.text or not value.text.isascii()):
        raise wrong(
            source, value.at, value.end, f"{text.plain(value.text)} is not a number",
            hint=f"as text in quotes: {text.plain(term.name)} = '{text.plain(value.text)}'",
        )  # fmt: skip
    words: dict[str, Typed] = {"true": True, "false": False, "null": None}
    if value.text in words:
        if op in ORDERED:
            raise wrong(
                source, value.at, value.end, f"{value.text} has no order",
                hint=f"{text.plain(term.name)} = {value.text}",
            )  # fmt: skip
        return words[value.text]
    return readable(value.text)


def _of_field(source: str, op: Op, value: Value, term: Field) -> Typed:
    name = term.name
    if name in NUMBERS:
        return _number(source, op, value, f"{name} is a number")
    if name == "age":
        return _age(source, op, value)
    if op in ORDERED and name in WITHOUT_ORDER:
        raise wrong(
            source, value.at, value.end, f"{name} has no order", hint=f"an example: {name} = WORD"
        )
    if name == "state" and op == "=" and value.text not in STATES:
        hint = nearest(value.text, dict.fromkeys(STATES, "")) or f"one of: {' '.join(STATES)}"
        shown = text.plain(value.text)
        raise unknown(source, value.at, value.end, f"no state is called {shown}", hint=hint)
    return readable(value.text)


def _age(source: str, op: Op, value: Value) -> int:
    found = duration_ms(value.text)
    if op == "~" or found is None:
        shown = text.plain(value.text)
        raise wrong(
            source, value.at, value.end, f"{shown} is not an age", hint="an example: age < 2d"
        )
    return found
