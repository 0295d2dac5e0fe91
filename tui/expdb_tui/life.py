"""How the store lives, at the right end of the header and in the window's title.

Invariant: a zero is not said; what somebody has opened or acknowledged does not alarm any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from expdb.query.pulse import Alarm
from expdb.text import ago
from expdb_tui.ink import Piece
from expdb_tui.session import now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What was seen at the last look."""

    num_live: int = 0
    num_failed: int = 0
    """Runs that failed in the last day, and that nobody has opened since."""
    last_point_ms: int | None = None
    """When a live run last wrote, in UTC epoch milliseconds."""
    alarms: tuple[Alarm, ...] = ()
    """Critical events of runs that nobody has opened since, oldest first."""
    live_sign: str = "▸"
    failed_sign: str = "✗"

    def pieces(self, *, is_short: bool) -> list[Piece]:
        """Return the end of the header."""
        out: list[Piece] = []
        gap: Piece = (" " if is_short else "   ", "")
        if self.num_live:
            live, word = (
                self.live_sign,
                f"{self.num_live}" if is_short else f" {self.num_live} live",
            )
            out += [(f"{live}{word}", "accent"), gap]
        if self.num_failed:
            word = f"{self.num_failed}" if is_short else f" {self.num_failed} failed"
            out += [(f"{self.failed_sign}{word}", "fail"), gap]
        if self.num_live and self.last_point_ms is not None:
            said = ago(self.last_point_ms, now_ms())
            out.append((said.removesuffix(" ago") if is_short else f"last point {said}", "dim"))
        if not self.num_live:
            out.append(("idle", "dim"))
        return out

    def title(self, store: str) -> str:
        """Return the title: `! exp03 loss_spike - expdb: 3 live, 1 failed`."""
        counts = [f"{self.num_live} live"] if self.num_live else []
        counts += [f"{self.num_failed} failed"] if self.num_failed else []
        said = f"expdb: {', '.join(counts)}" if counts else f"expdb: {store}"
        if not self.alarms:
            return said
        newest = self.alarms[-1]
        return f"! {newest.name} {newest.rule} - {said}"
