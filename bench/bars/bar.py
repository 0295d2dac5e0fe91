"""A figure of expdb's own beside the bar that it has to reach."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench import table


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: what was found in each repetition, and the most that it may be."""

    what: str
    unit: str
    most: float | None
    """None: a figure that stands beside a bar and has none of its own."""
    found: Sequence[float]
    others: float | None = None
    """Cores that other work took, on average."""
    note: str = ""
    is_noise: bool = False
    """What disturbs the figure is larger than the bar, so it is neither met nor missed."""

    @property
    def middle(self) -> float | None:
        """The median, or None where nothing was measured."""
        return statistics.median(self.found) if self.found else None

    @property
    def met(self) -> bool | None:
        """Whether the median is within the bar; None where that cannot be said."""
        middle = self.middle
        if middle is None or self.most is None or self.is_noise:
            return None
        return middle <= self.most


def shown(bars: Sequence[Bar]) -> str:
    """Return the table."""
    words = {True: "met", False: "NOT MET", None: "-"}
    lines = []
    for bar in bars:
        digits = 2 if max(map(abs, bar.found), default=0) < 10 else 0
        spread = "-"
        if len(bar.found) > 1:
            spread = f"{min(bar.found):,.{digits}f}-{max(bar.found):,.{digits}f}"
        lines.append([
            bar.what, "-" if bar.most is None else f"<= {bar.most:g} {bar.unit}",
            f"{table.number(bar.middle, digits)} {bar.unit}", spread, str(len(bar.found)),
            "noise" if bar.is_noise else words[bar.met], table.number(bar.others, 2), bar.note,
        ])  # fmt: skip
    head = ["what", "bar", "median", "least-most", "reps", "", "other cores", "note"]
    return table.table(head, lines)
