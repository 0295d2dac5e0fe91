"""The app's own signs beside those of states: outcomes, series, the cursor.

Invariant: a triangle means better or worse and never a series; every sign is one cell wide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from expdb.query.results import Outcome

MOST: Final = 6
"""Runs that can be marked; the baseline is not one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The signs of one character set."""

    series: tuple[str, ...]
    """The baseline's, then those of the marked runs."""
    outcomes: Mapping[Outcome, str]
    cursor: str
    event: str
    nonfinite: str
    live: str
    rule: str
    divider: str
    axis: str
    tick: str
    corner: str
    foot: str
    """A tick on the axis of x."""
    grid: str
    ellipsis: str


UNICODE: Final = Marks(
    series=("●", "■", "◆", "★", "◇", "✚", "▬"),
    outcomes={
        Outcome.BETTER: "▲",
        Outcome.WORSE: "▼",
        Outcome.NO_DIFFERENCE: "≈",
        Outcome.INCONCLUSIVE: " ",
    },
    cursor="▌", event="!", nonfinite="×", live="@", rule="─", divider="│",
    axis="│", tick="┤", corner="└", foot="┴", grid="·", ellipsis="…",
)  # fmt: skip
ASCII: Final = Marks(
    series=("a", "b", "c", "d", "e", "f", "g"),
    outcomes={
        Outcome.BETTER: "^",
        Outcome.WORSE: "v",
        Outcome.NO_DIFFERENCE: "~",
        Outcome.INCONCLUSIVE: " ",
    },
    cursor=">", event="!", nonfinite="*", live="@", rule="-", divider="|",
    axis="|", tick="+", corner="+", foot="+", grid=".", ellipsis="~",
)  # fmt: skip
OUTCOME_ROLES: Final[Mapping[Outcome, str]] = {
    Outcome.BETTER: "better",
    Outcome.WORSE: "worse",
    Outcome.NO_DIFFERENCE: "dim",
    Outcome.INCONCLUSIVE: "dim",
}


def marks(ascii: bool) -> Marks:
    """Return the signs of a character set."""
    return ASCII if ascii else UNICODE
