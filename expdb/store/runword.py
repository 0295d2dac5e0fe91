"""The grammar of a RUN: text -> word, selectors and step, and back.

    RUN  = WORD[:SEL]...[@STEP]     exp01   baseline@300   exp01:s2@best   k3f9:parent@last
    SEL  = s2 (seed 2) | prev | -2 (older) | parent | best[:METRIC] | all
    STEP = 300 | best | last

Invariant: `str(parse(text)) == text` for every text that parses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from expdb.errors import BadInput

SIMPLE_SELECTOR: Final = re.compile(r"s-?[0-9]{1,38}|prev|-[1-9][0-9]{0,17}|parent|all")
STEP: Final = re.compile(r"[0-9]{1,18}|best|last")
SELECTORS: Final = "s2 (seed 2), prev, -2, parent, best, best:METRIC, all"


class Expr(NamedTuple):
    """A parsed RUN; `str()` is the text it came from."""

    word: str
    selectors: tuple[str, ...] = ()
    step: str | None = None
    metric: str | None = None
    """The metric of the word `best:METRIC`."""

    def __str__(self) -> str:
        parts = [self.word, *([self.metric] if self.metric else []), *self.selectors]
        return ":".join(parts) + (f"@{self.step}" if self.step else "")


def parse(said: str) -> Expr:
    """Split a RUN into word, selectors and step; what is no selector or step stays in the word.

    Raises:
        BadInput: the word is empty.
    """
    rest, at, step = said.rpartition("@")
    if not at or not STEP.fullmatch(step):
        rest, step = said, ""
    pieces = rest.split(":")
    word, metric, selectors = rest, None, None
    if pieces[0] == "best" and (selectors := _selectors(pieces)) is not None:
        word, metric, selectors = "best", selectors[0][5:] or None, selectors[1:]
    else:
        for cut in range(1, len(pieces) + 1):
            if (selectors := _selectors(pieces[cut:])) is not None:
                word = ":".join(pieces[:cut])
                break
    if not word:
        raise BadInput("a run is named by a word", hint="for instance: exp01, k3f9, baseline@300")
    return Expr(word=word, selectors=selectors or (), step=step or None, metric=metric)


def _selectors(pieces: Sequence[str]) -> tuple[str, ...] | None:
    """Return what selectors the pieces are, `best` joined with its metric; None if not all are."""
    found: list[str] = []
    for piece in pieces:
        if piece == "best" or SIMPLE_SELECTOR.fullmatch(piece):
            found.append(piece)
        elif piece and found and found[-1] == "best":
            found[-1] = f"best:{piece}"
        else:
            return None
    return tuple(found)
