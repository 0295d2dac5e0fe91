"""The metrics of one run: last and best value, their steps, and how many points there are.

Invariant: the objective stands first; `best` only where a direction is known.
"""

from __future__ import annotations

from expdb.model import Run, Series
from expdb.report.comparison import QUIET_PREFIXES
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.store.direction import natural_mode
from expdb.text import count, decimals_for, metric, plain

MAX_METRICS = 12
GROUPS = ("val/", "eval/", "train/")


def metric_lines(run: Run, style: Style, *, all: bool = False) -> list[str]:
    """Return the table of metrics; nothing for a run without one."""
    keys = sorted(run.series, key=lambda key: _place(key, run))
    loud = [key for key in keys if not key.startswith(QUIET_PREFIXES)][:MAX_METRICS]
    shown = keys if all else loud
    if not shown:
        return [f"  {len(keys):,} metrics: --all"] if keys else []
    grid = _grid(run, [run.series[key] for key in shown], style)
    lines = lay_out(grid, style)
    if len(shown) < len(keys):
        note = f"{len(keys) - len(shown):,} more: --all"
        lines.append(note.rjust(max(len(line) for line in lines)))
    return lines


def _place(key: str, run: Run) -> tuple[int, int, str]:
    if run.objective is not None and key == run.objective.metric:
        return (0, 0, key)
    for at, prefix in enumerate(GROUPS):
        if key.startswith(prefix):
            return (1 + at, 0 if key.endswith("loss") else 1, key)
    return (9, 0, key)


def _grid(run: Run, shown: list[Series], style: Style) -> Grid:
    columns = (
        Column(head="metric", cut="middle"),
        Column(head="last", right=True),
        Column(head="step", right=True),
        Column(head="best", right=True),
        Column(head="step", right=True),
        Column(head="points", right=True),
    )
    rows = [_row(run, series) for series in shown]
    return Grid(columns, tuple(rows), (" ",) * len(rows))


def _row(run: Run, series: Series) -> tuple[Cell, ...]:
    key = series.key
    is_objective = run.objective is not None and key == run.objective.metric
    mode = run.objective.mode if is_objective and run.objective else natural_mode(key)
    best = series.best(mode) if mode else None
    decimals = decimals_for([series.last, best[0] if best else None])
    points = count(series.count)
    if series.nonfinite:
        points += f" ({count(series.nonfinite)} not finite)"
    name = plain(key) + (" (objective)" if is_objective else "")
    return (
        Cell(name, "bold" if is_objective else ""),
        Cell(metric(series.last, decimals, key=key)),
        Cell(str(series.last_step)),
        Cell(metric(best[0], decimals, key=key) if best else "-"),
        Cell(str(best[1]) if best else "-"),
        Cell(points),
    )
