"""What a learning-rate range test found: the curve as text, and the rate it points to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from expdb.report.probes import row
from expdb.report.style import Style
from expdb.text import decimals_for, duration, learning_rate, metric, plain

if TYPE_CHECKING:
    from expdb.actions.probe.measure import Measured

WIDTH: Final = 72
HEIGHT: Final = 12
LEAST_RISE: Final = 1e-3
"""What is flatter than this share of its height is drawn flat."""
ADVICE: Final = "start lower and take more steps: --from 1e-8 --updates 400"


def render_lr(measured: Measured, style: Style) -> list[str]:
    """Return the curve of the smoothed loss over the rate, and what it says."""
    found = measured.found
    series = found["series"]
    plot = curve(
        [one["lr"] for one in series],
        [one["smoothed"] for one in series],
        mark=found["lr"],
        width=min(WIDTH, max(20, style.width - 12)),
    )
    lines = [*plot, ""]
    ends = f"{learning_rate(found['low'])} to {learning_rate(found['high'])}"
    stopped = f"; stopped: {plain(found['stopped'])}" if found["stopped"] else ""
    lines.append(row("test", f"{found['updates']} of {found['asked']} updates, {ends}{stopped}"))
    if found["lowest_lr"] is not None:
        at = f"at {learning_rate(found['lowest_lr'])}: too high to train at"
        lines.append(row("lowest", at))
    begins = "begins at" if found["is_first"] else "has"
    lines.append(row("script", f"{begins} {learning_rate(found['own_lr'])} by itself"))
    lines += [row("note", plain(note)) for note in found["notes"]]
    lines.append(row("took", duration(measured.seconds)))
    where = f"{plain(measured.plan.name)} on {plain(str(found['device']))}"
    if found["outcome"] == "found":
        said = style.paint(f"lr {learning_rate(found['lr'])}", "bold")
        verdict = f"{said}  where the loss of {where} falls steepest; good to a factor of 3"
    else:
        said = style.paint("inconclusive", "yellow", "bold")
        verdict = f"{said}  {where}: {plain(found['why'])}"
    return [*lines, "", verdict]


def curve(
    xs: Sequence[float],
    ys: Sequence[float],
    *,
    mark: float | None = None,
    width: int = WIDTH,
    height: int = HEIGHT,
) -> list[str]:
    """Return a curve over a logarithmic axis as rows of text, its mark under the axis."""
    if not xs:
        return []
    low, high = math.log10(xs[0]), math.log10(xs[-1])
    span = (high - low) or 1.0
    columns: dict[int, list[float]] = {}
    for x, y in zip(xs, ys, strict=True):
        columns.setdefault(round((math.log10(x) - low) / span * (width - 1)), []).append(y)
    means = {at: sum(values) / len(values) for at, values in columns.items()}
    bottom = min(means.values())
    # A last jump would press all that matters into one row.
    top = min(max(means.values()), bottom + 1.5 * ((ys[0] - bottom) or 1.0))
    rise = max(top - bottom, LEAST_RISE * abs(top)) or 1.0
    grid = [[" "] * width for _ in range(height)]
    for at, value in means.items():
        level = min(height - 1, round((min(value, top) - bottom) / rise * (height - 1)))
        grid[height - 1 - level][at] = "*"
    decimals = decimals_for([top, bottom])
    labels = {0: metric(top, decimals), height - 1: metric(bottom, decimals)}
    cells = max(map(len, labels.values()))
    lines = [
        f"  {labels.get(index, ''):>{cells}} |{''.join(row_of)}".rstrip()
        for index, row_of in enumerate(grid)
    ]
    first, last = learning_rate(xs[0]), learning_rate(xs[-1])
    axis = [*first, *" " * max(1, width - len(first) - len(last)), *last]
    tip = "-" * width
    if mark is not None:
        place = round((math.log10(mark) - low) / span * (width - 1))
        tip = f"{tip[:place]}^{tip[place + 1 :]}"
        word = f" {learning_rate(mark)} "
        begin = min(max(place - len(word) // 2, len(first)), width - len(last) - len(word))
        axis[begin : begin + len(word)] = word
    edge = " " * (cells + 2)
    return [*lines, f"{edge} +{tip}", f"{edge}  {''.join(axis)}".rstrip()]


def lr_hints(measured: Measured) -> list[tuple[str, str]]:
    """Return what to do next."""
    if measured.found["outcome"] == "found":
        return []
    return [("hint", ADVICE)]


def advice_of(found: Any) -> str | None:
    """Return the advice that an inconclusive test comes with."""
    return None if found["outcome"] == "found" else ADVICE
