"""Which script a process runs: its own, or the one whose jobs a launcher gave to it.

Standard library only, since Hydra imports it at every start through the search-path plugin.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

SCRIPT_ENV, BLOB_ENV = "EXPDB_SCRIPT", "EXPDB_SCRIPT_BLOB"
LAUNCHERS = ("joblib", "submitit", "ray")
"""Packages whose processes run the jobs of a Hydra sweep; `__main__` there is a file of theirs."""


def entry_script() -> Path:
    """Return the script that this process was started with, or whose job it runs for a launcher;
    the current folder's `main` without one.
    """
    file = os.environ.get(SCRIPT_ENV) if is_launchers() else _main_file()
    return Path(file).absolute() if file else Path.cwd() / "main"


def is_launchers() -> bool:
    """Tell whether this process runs the jobs of a sweep for a launcher."""
    file = _main_file()
    return file is not None and _is_launchers(Path(file))


def tell_script() -> None:
    """Tell the processes that a launcher may start for this one whose jobs they will run, and what
    is in that script now: they get its functions from this process, not from the file.
    """
    os.environ[SCRIPT_ENV] = str(entry_script())
    if not is_launchers():
        os.environ[BLOB_ENV] = blob_of(entry_script())


def blob_of(file: Path) -> str:
    """Return the id that git gives to a file's bytes as they are; empty for no file."""
    try:
        data = file.read_bytes()
    except OSError:
        return ""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _main_file() -> str | None:
    return getattr(sys.modules.get("__main__"), "__file__", None) or None


def _is_launchers(file: Path) -> bool:
    pairs = zip(file.parts, file.parts[1:], strict=False)
    return any(a in ("site-packages", "dist-packages") and b in LAUNCHERS for a, b in pairs)
