"""What nobody expected, written down: the screen has one line for it."""

from __future__ import annotations

import time
import traceback
from pathlib import Path

MOST_BYTES = 1_000_000
"""A file that is larger begins anew."""


def keep_fault(path: Path | None, error: BaseException) -> Path | None:
    """Append an error with where it came from; return the file, None where it cannot be written."""
    if path is None:
        return None
    text = "".join(traceback.format_exception(error))
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_large = path.exists() and path.stat().st_size > MOST_BYTES
        with path.open("w" if is_large else "a", encoding="utf-8", errors="replace") as file:
            file.write(f"{stamp}\n{text}\n")
    except OSError:
        return None
    return path
