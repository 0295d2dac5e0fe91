"""What a result file comes to: one line a tracker, with ratios to expdb, and the bars.

`docs/performance.md` keeps it between two marks: `python -m bench --show FILE --docs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench import table
from bench.bars.bar import Bar
from bench.bars.bar import shown as shown_bars
from bench.environments import ROOT
from bench.pairs import Row
from bench.peers import FILES

DOCS: Final = ROOT / "docs" / "performance.md"
MARKS: Final = ("<!-- measured: begin -->", "<!-- measured: end -->")
MODULES: Final = {
    "expdb": "expdb.start", "jsonl-flush": "", "parquet-wide": "pyarrow.parquet",
    "parquet-long": "pyarrow.parquet", "tensorboardX": "tensorboardX", "wandb-offline": "wandb",
    "trackio": "trackio", "aim": "aim", "mlflow-sqlite": "mlflow", "mlflow-sqlite-async": "mlflow",
    "mlflow-file": "mlflow", "dvclive": "dvclive",
}  # fmt: skip
"""Tracker -> its row in W6."""
HEAD: Final = [
    "tracker", "steps", "us a step", "CPU us a point", "B a point", "exact", "top 10 s",
    "compare s", "series s", "lost of 8 processes", "lost, paced / full speed", "killed run is",
    "import s CPU", "installed MB",
]  # fmt: skip


def text(document: dict[str, Any], rows: Sequence[Row], bars: Sequence[Bar]) -> str:
    """Return the section: how it was measured, the trackers, the bars."""
    machine, options = document["machine"], document["options"]
    said = (
        f"Measured {machine['measured_at'][:10]} on commit {document['commit']}: {machine['cores']}"
        f" cores, {machine['memory_gb']} GB, Python {machine['python']}; load at the end"
        f" {machine['load'][0]:.1f}; scale `{options['scale']}`, at most {options['reps']} pairs."
    )
    found = {(row.workload, row.name): row for row in rows}
    lines = [_line(name, found) for name in FILES if _is_measured(name, found)]
    return "\n\n".join([said, table.table(HEAD, lines), shown_bars(bars)])


def write_docs(section: str) -> Path:
    """Put the section in its place in docs/performance.md."""
    whole = DOCS.read_text(encoding="utf-8")
    before, _, rest = whole.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    DOCS.write_text(f"{before}{MARKS[0]}\n\n{section}\n\n{MARKS[1]}{after}", encoding="utf-8")
    return DOCS


def _is_measured(name: str, found: dict[tuple[str, str], Row]) -> bool:
    return any(row == name or row.startswith((f"{name}:", f"{name},")) for _, row in found)


def _line(name: str, found: dict[tuple[str, str], Row]) -> list[str]:
    none = Row(workload="", name=name)
    logged, series = found.get(("W1", name), none), found.get(("W3", name), none)
    top = found.get(("W2", f"{name}: top last"), none)
    compare = found.get(("W2", f"{name}: compare"), none)
    together = found.get(("W4", name), none)
    imported = found.get(("W6", MODULES[name]), none)
    kills = [found.get(("W5", f"{name}, {words}"), none) for words in ("100 steps/s", "full speed")]
    lost = " / ".join(f"{table.number(row.median('lost_pct'), 2)} %" for row in kills)
    states = {str(item["state"]) for row in kills for item in row.reps}
    exact = {item["exact"] for row in (logged, series) for item in row.reps if "exact" in item}
    return [
        name, logged.shown("steps", 0).split(" ")[0], _with_ratio(logged, "us_a_step", 0),
        _with_ratio(logged, "cpu_us_a_point", 2), _with_ratio(logged, "bytes_a_point", 1),
        "-" if not exact else "yes" if exact == {True} else "no", _with_ratio(top, "wall_s", 2),
        _with_ratio(compare, "wall_s", 2), _with_ratio(series, "wall_s", 2),
        together.shown("points_lost", 0), lost, ", ".join(sorted(states)) or "-",
        table.number(imported.median("cpu_s"), 2), table.number(imported.median("installed_mb"), 0),
    ]  # fmt: skip


def _with_ratio(row: Row, key: str, digits: int) -> str:
    middle, ratio = row.median(key), row.ratio(key)
    if middle is None:
        return "-"
    return table.number(middle, digits) + ("" if ratio is None else f" (x{ratio:,.1f})")
