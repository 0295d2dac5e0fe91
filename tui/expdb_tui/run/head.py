"""The line that says which run this is and how far it is, and the line of its tabs.

Invariant: pure; a name is shown as plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from expdb.signs import STATE_GLYPHS
from expdb.text import ago, eta, plain, short_rate
from expdb_tui.ink import Piece
from expdb_tui.run.facts import Facts
from expdb_tui.runs.cells import ROLES

NO_RUN: list[list[Piece]] = [
    [],
    [("  No run is open.", "text+bold")],
    [],
    [("  enter", "accent"), (" on a row of ", "dim"), ("1", "accent"), (" Runs opens it.", "dim")],
]
"""What stands where no run is open."""
WIDE, WIDEST = 100, 150
BAR, LONG_BAR = 10, 20


def head_line(
    facts: Facts, width: int, now_ms: int, *, ascii: bool, id_cells: int
) -> tuple[list[Piece], list[Piece]]:
    """Return both ends of the head of a run."""
    run, row = facts.run, facts.row
    look = STATE_GLYPHS[run.state.value]
    left: list[Piece] = [
        (look.ascii if ascii else look.glyph, ROLES[look.colour]), (" ", ""),
        (plain(run.name), "text+bold"),
    ]  # fmt: skip
    if run.seed is not None:
        left.append((f"  s{run.seed}", "dim"))
    left.append((f"  {run.id}", "faint"))
    for name in row.row.refs:
        chip = f"[{plain(name)}]" if ascii else f" {plain(name)} "
        left += [("  ", ""), (chip, "accent+on-surface")]
    if width >= WIDE:
        left += _origin(facts, id_cells)
    if not run.state.is_live and run.state.value != "finished":
        left.append((f"   {run.state.value}", ROLES[look.colour]))
        if run.reason and width >= WIDE:
            left.append((f": {plain(run.reason)}", "dim"))
    return left, _progress(facts, width, now_ms, ascii=ascii)


def _origin(facts: Facts, id_cells: int) -> list[Piece]:
    run = facts.run
    out: list[Piece] = []
    at = run.fork or run.parent
    if at is not None:
        step = f"@{at.step}" if at.step is not None else ""
        out += [("   from ", "dim"), (f"{at.run[:id_cells]}{step}", "text")]
    if run.pin.commit is not None:
        edited = "+" if run.pin.dirty else ""
        out += [("   commit ", "dim"), (f"{run.pin.commit[:7]}{edited}", "text")]
    return out


def _progress(facts: Facts, width: int, now_ms: int, *, ascii: bool) -> list[Piece]:
    run, row = facts.run, facts.row
    out: list[Piece] = []
    if width >= WIDEST and row.started_at_ms is not None:
        attempt = f"attempt {run.attempt.number}   " if run.attempt is not None else ""
        out.append((f"{attempt}began {ago(row.started_at_ms, now_ms)}   ", "dim"))
        if row.tokens_per_s is not None:
            out.append((f"{short_rate(row.tokens_per_s)} tok/s   ", "dim"))
    if run.last_step is None:
        return out
    out.append((f"{run.last_step:,}", "text"))
    if not run.max_steps:
        return [*out, (" steps", "dim")]
    out.append((f"/{run.max_steps:,} ", "dim"))
    cells = LONG_BAR if width >= WIDEST else BAR
    done = round(cells * min(1.0, run.last_step / run.max_steps))
    sign = "#" if ascii else "━"
    out += [(sign * done, "accent" if run.state.is_live else "dim")]
    out += [(("." if ascii else "━") * (cells - done), "rule")]
    gone = run.last_step - row.started_step
    if run.state.is_alive and row.started_at_ms is not None and gone > 0:
        left_s = (now_ms - row.started_at_ms) / 1000 / gone * (run.max_steps - run.last_step)
        out += [(f" {'ETA ' if width >= WIDE else ''}", "dim"), (eta(left_s), "text")]
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class TabLook:
    """One tab as the line shows it."""

    name: str
    short: str
    badge: str = ""
    has_data: bool = True


def tab_line(
    tabs: Sequence[TabLook], active: int, width: int
) -> tuple[list[Piece], list[tuple[int, int]]]:
    """Return the line of the tabs, and from which cell to which each of them is."""
    is_short = width < WIDE
    words = [
        f"{tab.short if is_short else tab.name}{f' {tab.badge}' if tab.badge else ''}"
        for tab in tabs
    ]
    gap = max(1, min(4, (width - sum(map(len, words))) // max(1, len(words) - 1)))
    if is_short:
        gap = min(gap, 2)
    out: list[Piece] = []
    spans: list[tuple[int, int]] = []
    used = 0
    for at, (tab, word) in enumerate(zip(tabs, words, strict=True)):
        if at:
            out.append((" " * gap, ""))
            used += gap
        role = "dim" if tab.has_data else "faint"
        out.append((word, "accent+bold+underline" if at == active else role))
        spans.append((used, used + len(word)))
        used += len(word)
    return out, spans
