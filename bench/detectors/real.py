"""Real logs of healthy runs, read by two small patterns; the files lie outside the project."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from expdb.monitor.engine import Monitor
from expdb.monitor.finding import Finding
from expdb.monitor.rules import build_rules

BESIDE: Final = Path(__file__).resolve().parents[3] / "shared/cases/files"
FOLDER: Final = Path(os.environ.get("EXPDB_CASES") or BESIDE)
LINES: Final = {
    "llmc_19560/main.log": re.compile(r"s:(\d+) trl:(\S+) lr:(\S+) norm:(\S+)"),
    "nanogpt_muon_6200/train.log": re.compile(r"step:(\d+)/\d+ train_loss:(\S+)"),
}


def rows(name: str) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield (step, values) of a log.

    Raises:
        FileNotFoundError: it is not there.
    """
    pattern = LINES[name]
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        match = pattern.match(line)
        if match is None:
            continue
        found = [float(one) for one in match.groups()[1:]]
        keys = ("train/loss", "train/lr", "train/grad_norm")[: len(found)]
        yield int(match[1]), {key: one for key, one in zip(keys, found, strict=True)}


def found(name: str, section: object = None) -> list[Finding]:
    """Return what rules say of a log."""
    monitor = Monitor(build_rules(section))  # type: ignore[arg-type]
    out: list[Finding] = []
    for step, row in rows(name):
        if all(math.isfinite(one) for one in row.values()):
            out += monitor.update(step, tuple(row), tuple(row.values()), step * 1000)
    return out
