"""A filter as words, quoted texts, operators and brackets, each with its place.

Invariant: every character of the text belongs to one token or is a space; nothing is guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from expdb.query.filters.errors import wrong

Kind = Literal["word", "quoted", "op", "(", ")", ",", "end"]

READING: Final = r"last|best|min|max|at\(([0-9]{1,18})\)"
_SUFFIX: Final = re.compile(rf"\.({READING})(?![^\s'\"(),=!<>~])")
_OP: Final = re.compile(r"<=|>=|!=|==|=|<|>|~")
_WORD: Final = re.compile(r"[^\s'\"(),=!<>~]+")
_AT: Final = re.compile(r"\([0-9]{1,18}\)")
_SPACE: Final = re.compile(r"\s+")
_QUOTED: Final = {"'": re.compile(r"'((?:[^']|'')*)'"), '"': re.compile(r'"((?:[^"]|"")*)"')}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One piece of a filter; `at` and `end` are its place in the text."""

    kind: Kind
    text: str
    """The word, the operator, or what stands between the quotes."""
    reading: str = ""
    """What follows a quoted name: `best`, `at(300)`. A word has its reading within."""
    at: int
    end: int


def tokens(source: str) -> list[Token]:
    """Return the tokens of a filter, the last one of kind `end`.

    Raises:
        BadInput: a quote that is not closed, or a character that means nothing.
    """
    found: list[Token] = []
    at = 0
    while at < len(source):
        if space := _SPACE.match(source, at):
            at = space.end()
            continue
        token = _token(source, at)
        found.append(token)
        at = token.end
    found.append(Token(kind="end", text="", at=at, end=at + 1))
    return found


def _token(source: str, at: int) -> Token:
    char = source[at]
    if char in "(),":
        kind: Kind = "(" if char == "(" else ")" if char == ")" else ","
        return Token(kind=kind, text=char, at=at, end=at + 1)
    if char in _QUOTED:
        return _quoted(source, at)
    if op := _OP.match(source, at):
        word = "=" if op[0] == "==" else op[0]
        return Token(kind="op", text=word, at=at, end=op.end())
    if word_found := _WORD.match(source, at):
        end = word_found.end()
        if word_found[0].endswith(".at") and (step := _AT.match(source, end)):
            end = step.end()
        return Token(kind="word", text=source[at:end], at=at, end=end)
    raise wrong(source, at, at + 1, f"{char} alone means nothing here", hint="not equal: !=")


def _quoted(source: str, at: int) -> Token:
    quote = source[at]
    found = _QUOTED[quote].match(source, at)
    if found is None:
        raise wrong(
            source,
            at,
            len(source),
            f"the quote {quote} is not closed",
            hint=f"a quote within quotes is written twice: {quote * 2}",
        )
    inside = found[1].replace(quote * 2, quote)
    suffix = _SUFFIX.match(source, found.end())
    return Token(
        kind="quoted",
        text=inside,
        reading=suffix[1] if suffix else "",
        at=at,
        end=suffix.end() if suffix else found.end(),
    )
