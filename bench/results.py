"""Result files: what was measured, on which machine and commit, every repetition of it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bench.bars.bar import Bar
from bench.environments import ROOT
from bench.pairs import Options, Row

FOLDER: Final = ROOT / "bench" / "results"


def new_path() -> Path:
    """Return a path named by the moment."""
    return FOLDER / f"{time.strftime('%Y%m%d-%H%M%S')}.json"


def write(path: Path, options: Options, rows: Sequence[Row], bars: Sequence[Bar]) -> None:
    """Write all that was measured so far; called after each workload, so little is lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {
        "machine": _machine(),
        "commit": _commit(),
        "options": asdict(options),
        "rows": [asdict(row) for row in rows],
        "bars": [{**asdict(item), "met": item.met} for item in bars],
    }
    path.write_text(json.dumps(body, indent=1, default=str) + "\n")


def read(path: Path) -> tuple[dict[str, Any], list[Row], list[Bar]]:
    """Return a result file, its rows and its bars."""
    document: dict[str, Any] = json.loads(path.read_text())
    rows = [Row(**item) for item in document["rows"]]
    bars = [
        Bar(**{key: value for key, value in item.items() if key != "met"})
        for item in document["bars"]
    ]
    return document, rows, bars


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": os.getloadavg(),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _commit() -> str:
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
