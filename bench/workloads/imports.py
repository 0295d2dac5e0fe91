"""W6: how long the import takes in a fresh process, and what an installation weighs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from bench import table
from bench.environments import ROOT, Place, folder_of, python_of
from bench.measure import Command, Load, run
from bench.pairs import Figures, Options, Row, repeated

NAME: Final = "W6"
STATEMENTS: Final = {
    "expdb": {"expdb": "import expdb", "expdb.start": "import expdb; expdb.start"},
    "jsonl-flush": {"pyarrow.parquet": "import pyarrow.parquet", "duckdb": "import duckdb"},
    "tensorboardX": {"tensorboardX": "import tensorboardX"},
    "wandb-offline": {"wandb": "import wandb"},
    "trackio": {"trackio": "import trackio"},
    "aim": {"aim": "import aim"},
    "mlflow-sqlite": {"mlflow": "import mlflow"},
    "dvclive": {"dvclive": "import dvclive"},
}
"""Tracker -> what is imported -> the statement."""
OF_PIP: Final = ("pip", "setuptools", "wheel", "_distutils_hack", "distutils-precedence.pth")


def measure(place: Place, peers: list[str], options: Options) -> list[Row]:
    """Return a row a module."""
    rows = []
    for peer in peers:
        for name, statement in STATEMENTS.get(peer, {}).items():
            mine, theirs = repeated(
                options,
                partial(imported, place, "expdb", "import expdb; expdb.start"),
                partial(imported, place, peer, statement),
            )
            rows.append(Row(workload=NAME, name=name, reps=theirs, ours=mine))
    return rows


def imported(place: Place, peer: str, statement: str) -> Figures:
    """Run `python -c` of one statement, and of nothing."""
    python = python_of(peer)
    load, taken = Load(), []
    for text in ("pass", statement):
        command = Command(words=[str(python), "-c", text], cwd=place.root, env=place.env())
        taken.append(run(command))
    size, num = weight(folder_of(peer))
    return {
        "bare_s": taken[0].wall_s,
        "wall_s": taken[1].wall_s,
        "cpu_s": taken[1].cpu_s,
        "more_cpu_s": taken[1].cpu_s - taken[0].cpu_s,
        "installed_mb": size,
        "distributions": num,
        "others": load.others(sum(spent.cpu_s for spent in taken)),
    }


def weight(folder: Path) -> tuple[float | None, int | None]:
    """Return the MB and the number of distributions of an environment, pip left out.

    expdb stands in its own environment by a link, so its source is added.
    """
    found = sorted(folder.glob("lib/python*/site-packages"))
    if not found:
        return None, None
    tops = [path for path in found[0].iterdir() if not path.name.startswith(OF_PIP)]
    if any(path.name.startswith("expdb_ml") for path in tops):
        tops += [ROOT / "expdb", ROOT / "tui" / "expdb_tui", ROOT / "conf"]
    size = sum(_bytes(path) for path in tops)
    return size / 1e6, sum(path.name.endswith(".dist-info") for path in tops)


def _bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    files = (inner for inner in path.rglob("*") if "__pycache__" not in inner.parts)
    return sum(inner.stat().st_size for inner in files if inner.is_file())


def shown(rows: list[Row]) -> str:
    """Return the table."""
    head = [
        "module", "reps", "process s", "CPU s", "CPU beyond bare python s", "CPU / expdb.start",
        "installed MB", "distributions", "other cores",
    ]  # fmt: skip
    lines = [
        [
            row.name, str(len(row.reps)), row.shown("wall_s", 2), row.shown("cpu_s", 2),
            row.shown("more_cpu_s", 2), table.number(row.ratio("cpu_s")),
            row.shown("installed_mb", 0), row.shown("distributions", 0), row.shown("others", 2),
        ]
        for row in rows
    ]  # fmt: skip
    return table.table(head, lines)
