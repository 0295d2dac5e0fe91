"""What another program prints: a driver's tool, a scheduler's command.

Invariant: no shell, nothing to read on standard input, and an end after `timeout_s`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Final, NamedTuple

TIMEOUT_S: Final = 10.0


class Answer(NamedTuple):
    """What a program that came to its end has printed; bytes that are no UTF-8 are replaced."""

    code: int
    out: str
    err: str


def ask(
    *argv: str, env: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
) -> Answer | None:
    """Return what a program prints; None where it cannot be started or does not end in time."""
    try:
        done = subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Answer(code=done.returncode, out=done.stdout, err=done.stderr)
