"""The progress bar as text; pure, so that every width can be tested.

Source of the order in which parts leave: the name, then tokens/s, then the bar; step, loss and ETA
stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from expdb import text
from expdb.signs import signs

MIN_CELLS, GOOD_CELLS, MAX_CELLS = 10, 25, 40
"""The bar has 10 to 40 cells; the name and then the id and the rate leave for it while it has under
25.
"""
WAIT_SHOWN_PCT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the bar shows."""

    step: int
    max_steps: int
    loss: float | None = None
    tokens_per_s: float | None = None
    eta_s: float | None = None
    wait_pct: float | None = None
    phase: str = ""


def bar(progress: Progress, *, experiment: str, run: str, width: int, ascii: bool) -> str:
    """Return the line for a terminal of `width` cells."""
    sign = signs(ascii)
    steps = f"{progress.step}/{progress.max_steps}"
    brackets = 2 if ascii else 0
    for head, with_rate, least in (
        (f"  {experiment} {run} ", True, GOOD_CELLS),
        (f"{run} ", True, GOOD_CELLS),
        ("", False, MIN_CELLS),
    ):
        gap = " " if head else "  "
        # Measured with the numbers, so that the bar keeps its place while it evaluates or saves.
        room = width - brackets - text.cells(f"{head}{gap}{steps}{_numbers(progress, with_rate)}")
        if room < least:
            continue
        cells = min(room, MAX_CELLS)
        done = min(cells, int(cells * progress.step / max(1, progress.max_steps)))
        drawn = sign.bar_done * done + sign.bar_left * (cells - done)
        line = f"{head}{f'[{drawn}]' if ascii else drawn}{gap}{steps}{_tail(progress, with_rate)}"
        return text.cut_end(line, width, sign.ellipsis)
    return text.cut_end(f"{steps}{_tail(progress, False)}", width, sign.ellipsis)


def _tail(progress: Progress, with_rate: bool) -> str:
    return f"  {progress.phase}" if progress.phase else _numbers(progress, with_rate)


def _numbers(progress: Progress, with_rate: bool) -> str:
    out = ""
    if progress.loss is not None:
        out += f"  loss {text.metric(progress.loss, 3)}"
    if with_rate and progress.tokens_per_s:
        out += f"  {text.short_rate(progress.tokens_per_s)} tok/s"
    if progress.wait_pct is not None and progress.wait_pct > WAIT_SHOWN_PCT:
        out += f"  wait {progress.wait_pct:.0f} %"
    return f"{out}  eta {text.eta(progress.eta_s)}"
