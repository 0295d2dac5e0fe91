"""What is installed, and the kind of machine: read from names of folders and two small files.

Invariant: nothing is imported and no program runs for it; what cannot be read is left out. Names of
folders give what `importlib.metadata` gives from their files, in a hundredth of its time.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SUFFIXES: Final = (".dist-info", ".egg-info")
DRIVER: Final = re.compile(r"Kernel Module\s.*?(\d+\.\d+(?:\.\d+)?)")
CPU: Final = re.compile(r"^model name\s*:\s*(\S.*)$", re.MULTILINE)
FIRST_BYTES: Final = 4096


def installed(paths: Iterable[str] | None = None) -> dict[str, str]:
    """Return name -> version of the installed packages, sorted; the first on the path counts."""
    found: dict[str, str] = {}
    for path in sys.path if paths is None else paths:
        try:
            with os.scandir(path or ".") as entries:
                names = sorted(e.name for e in entries if e.name.endswith(SUFFIXES))
        except OSError:
            continue
        for name in names:
            parts = name.rpartition(".")[0].split("-")
            if len(parts) > 1:
                found.setdefault(re.sub(r"[-_.]+", "-", parts[0]).lower(), parts[1])
    return dict(sorted(found.items()))


def driver(path: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """Return the version of the GPU driver; None without one."""
    return _first(path, DRIVER)


def cpu(path: Path = Path("/proc/cpuinfo")) -> str | None:
    """Return the model of the processor, by which machines of one cluster are told apart."""
    return _first(path, CPU)


def _first(path: Path, pattern: re.Pattern[str]) -> str | None:
    try:
        with path.open("rb") as file:
            text = file.read(FIRST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    match = pattern.search(text)
    return None if match is None else " ".join(match[1].split())
