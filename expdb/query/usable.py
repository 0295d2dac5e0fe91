"""Which rows of `checkpoints c` a run can be taken up from: `Run.usable`, in SQL."""

from __future__ import annotations

from typing import Final

USABLE: Final = (
    "c.complete AND NOT EXISTS (SELECT 1 FROM attempts a"
    " WHERE a.run = c.run AND a.number > c.attempt AND a.resumed_from < c.step)"
)
"""Complete, and of no attempt that a later one has left at an earlier step."""
