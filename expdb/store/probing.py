"""How a training process is told that it is a probe; both sides of it import this."""

from __future__ import annotations

from typing import Final

VARIABLE: Final = "EXPDB_PROBE"
"""`STEP:FOLDER`: the store to record in, and the step at which the process ends."""
