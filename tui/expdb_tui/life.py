"""How the store lives, at the right end of the header: live runs, failures, the last point."""

from __future__ import annotations

from dataclasses import dataclass

from expdb.text import ago
from expdb_tui.ink import Piece
from expdb_tui.session import now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What was seen at the last look."""

    num_live: int = 0
    num_failed: int = 0
    last_point_ms: int | None = None
    """When a live run last wrote, in UTC epoch milliseconds."""
    live_sign: str = "▸"
    failed_sign: str = "✗"

    def pieces(self, *, is_short: bool) -> list[Piece]:
        """Return the end of the header; zero counts vanish."""
        out: list[Piece] = []
        if self.num_live:
            word = (
                f"{self.live_sign}{self.num_live}"
                if is_short
                else f"{self.live_sign} {self.num_live} live"
            )
            out += [(word, "accent"), (" " if is_short else "   ", "")]
        if self.num_failed:
            word = (
                f"{self.failed_sign}{self.num_failed}"
                if is_short
                else f"{self.failed_sign} {self.num_failed} failed"
            )
            out += [(word, "fail"), (" " if is_short else "   ", "")]
        if self.num_live and self.last_point_ms is not None:
            said = ago(self.last_point_ms, now_ms())
            out.append((said.removesuffix(" ago") if is_short else f"last point {said}", "dim"))
        if not self.num_live:
            out.append(("idle", "dim"))
        return out
