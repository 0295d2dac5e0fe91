"""Which script a process runs: its own, or the one whose jobs a launcher gave to it.

Standard library only, since Hydra imports it at every start through the search-path plugin.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SCRIPT_ENV = "EXPDB_SCRIPT"
LAUNCHERS = ("joblib", "submitit", "ray")
"""Packages whose processes run the jobs of a Hydra sweep; `__main__` there is a file of theirs."""


def entry_script() -> Path:
    """Return the script that this process was started with, or whose job it runs for a launcher;
    the current folder's `main` without one.
    """
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file and _is_launchers(Path(file)):
        file = os.environ.get(SCRIPT_ENV)
    return Path(file).absolute() if file else Path.cwd() / "main"


def tell_script() -> None:
    """Tell the processes that a launcher may start for this one whose jobs they will run."""
    os.environ[SCRIPT_ENV] = str(entry_script())


def _is_launchers(file: Path) -> bool:
    pairs = zip(file.parts, file.parts[1:], strict=False)
    return any(a in ("site-packages", "dist-packages") and b in LAUNCHERS for a, b in pairs)
