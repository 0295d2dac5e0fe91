"""What the faults did, summed up over a session: one line at its end.

A test's numbers travel with its report, so that they reach the line from every worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

NAME = "faults"


class Tally:
    """The faults of one test, and what became of the points that its processes acknowledged."""

    def __init__(self, node: pytest.Item) -> None:
        self._numbers = {"injected": 0, "acknowledged": 0, "lost": 0, "invented": 0}
        node.user_properties.append((NAME, self._numbers))

    def fault(self, count: int = 1) -> None:
        """Count faults that were injected."""
        self._numbers["injected"] += count

    def compare(
        self, acknowledged: Iterable[object], read: Iterable[object], begun: Iterable[object] = ()
    ) -> None:
        """Compare what processes had acknowledged with what is read back, equal ones counted.

        `begun` is what was on its way: it may be there or not, once.

        Raises:
            AssertionError: something was lost, or read that nobody wrote.
        """
        wanted, found = Counter(acknowledged), Counter(read)
        lost = wanted - found
        invented = found - wanted - Counter(begun)
        self._numbers["acknowledged"] += wanted.total()
        self._numbers["lost"] += lost.total()
        self._numbers["invented"] += invented.total()
        assert not lost, f"lost: {list(lost)[:5]}"
        assert not invented, f"invented: {list(invented)[:5]}"


def line(reports: Iterable[object]) -> str:
    """Return the closing line of a session; empty when it injected no fault."""
    total: Counter[str] = Counter()
    for report in reports:
        for name, value in getattr(report, "user_properties", ()):
            if name == NAME and getattr(report, "when", "") == "call":
                total.update(value)
    if not total["injected"]:
        return ""
    invented = f", {total['invented']:,} invented" if total["invented"] else ""
    return (
        f"{total['injected']:,} faults injected, {total['acknowledged']:,} points acknowledged,"
        f" {total['lost']:,} lost{invented}"
    )
