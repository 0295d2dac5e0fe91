"""The legend of a plot of several runs: names, values at the crosshair, events.

Invariant: pure; it stands beside the data, never on it. A value is that of the point nearest to
the crosshair, never a smoothed one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from expdb.text import cells, cut_middle, decimals_for, metric, plain, signed
from expdb_tui.ink import Piece, fit, titled, width_of
from expdb_tui.marks import Marks
from expdb_tui.plot.overlay import Entry, Overlay
from expdb_tui.plotting.axis import x_text
from expdb_tui.run.curve_plots import NON_FINITE

VALUE, DELTA = 10, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendLook:
    """How the legend is looked at."""

    crosshair: float | None = None
    cursor: int = 0
    hidden: Collection[str] = ()
    has_events: bool = True


def value_of(entry: Entry, crosshair: float | None) -> float | None:
    """Return the value at the crosshair, else the last one; None beyond its ends."""
    line = entry.line
    if line is None:
        return None
    if not len(line.x):
        return None
    if crosshair is None:
        return float(line.mid[-1])
    at = int(np.argmin(np.abs(line.x - crosshair)))
    reach = (line.x[-1] - line.x[0]) / max(1, len(line.x) - 1)
    is_there = line.x[0] - reach <= crosshair <= line.x[-1] + reach
    return float(line.mid[at]) if is_there else None


def legend_rows(
    overlay: Overlay, look: LegendLook, width: int, height: int, signs: Marks
) -> list[Sequence[Piece]]:
    """Return the legend as a column at the right of the plot."""
    values = [value_of(entry, look.crosshair) for entry in overlay.entries]
    decimals = decimals_for(values)
    base = next((v for e, v in zip(overlay.entries, values, strict=True) if e.place == 0), None)
    has_base = any(entry.place == 0 for entry in overlay.entries) and len(overlay.entries) > 1
    delta = DELTA if has_base else 0
    room = max(4, width - VALUE - delta - 3)
    out: list[Sequence[Piece]] = [_head(overlay, look, width, has_base, signs)]
    for at, (entry, value) in enumerate(zip(overlay.entries, values, strict=True)):
        is_hidden = entry.run in look.hidden
        name = f"{plain(entry.label)}" + (f" ×{entry.num_seeds}" if entry.num_seeds > 1 else "")
        name = cut_middle(_plain(name, signs), room, signs.ellipsis)
        here = at == look.cursor
        role = "faint" if is_hidden else "text+bold" if here else "text"
        said = metric(value, decimals, key=overlay.key, absent="")
        far = value - base if value is not None and base is not None and entry.place else None
        pieces: list[Piece] = [
            (signs.cursor if here else " ", "accent"),
            (signs.series[entry.place], f"series{entry.place}+bold"), (" ", ""),
            *fit([(name, role)], room),
            (f"{said:>{VALUE}}", "faint" if is_hidden else "text"),
        ]  # fmt: skip
        if has_base:
            pieces.append((f"{signed(far, decimals, key=overlay.key, absent=''):>{delta}}", "dim"))
        out.append(pieces)
    if overlay.num_rest:
        out.append([("  : ", "rule2"), (f"and {overlay.num_rest:,} more", "dim")])
    if look.has_events:
        out += _events(overlay, look, width, height - len(out) - 2, signs)
    return out[:height]


def _plain(name: str, signs: Marks) -> str:
    return name.replace("×", signs.nonfinite) if signs.grid.isascii() else name


def _head(
    overlay: Overlay, look: LegendLook, width: int, has_base: bool, signs: Marks
) -> Sequence[Piece]:
    word = "delta" if signs.grid.isascii() else "Δ base"
    right = f"{'value':>{VALUE}}" + (f"{word:>{DELTA}}" if has_base else "")
    left: list[Piece] = [("   last", "dim")]
    if look.crosshair is not None:
        left = [(f"   at {overlay.x} ", "dim"), (x_text(look.crosshair, overlay.x), "accent+bold")]
    return [*fit(left, max(1, width - len(right))), (right, "dim")]


def _events(
    overlay: Overlay, look: LegendLook, width: int, room: int, signs: Marks
) -> list[Sequence[Piece]]:
    found = [
        (event.step, entry.place, event)
        for entry in overlay.entries
        if entry.run not in look.hidden
        for event in entry.events
    ] if room >= 2 else []  # fmt: skip
    found.sort(key=lambda one: one[:2])
    if not found:
        return []
    out: list[Sequence[Piece]] = [
        [], titled([(" ", ""), ("Events", "text+bold")], width, signs.rule),
    ]  # fmt: skip
    shown = found if len(found) < room else found[: room - 1]
    wide = min(14, max(cells(plain(event.rule)) for _, _, event in shown)) if shown else 0
    for step, place, event in shown:
        sign = signs.nonfinite if event.rule == NON_FINITE else signs.event
        line: list[Piece] = [
            (f" {sign} ", f"series{place}+bold"), (f"{step:<7,} ", "text"),
            *fit([(plain(event.rule), "text")], wide), ("  ", ""), (plain(event.message), "dim"),
        ]  # fmt: skip
        out.append(fit(line, width, ellipsis=signs.ellipsis))
    if len(found) > len(shown):
        out.append([(f"   and {len(found) - len(shown):,} more", "dim")])
    return out


def legend_lines(
    overlay: Overlay, look: LegendLook, width: int, signs: Marks
) -> list[Sequence[Piece]]:
    """Return the legend as one or two rows above the plot: mark, short name, value."""
    values = [value_of(entry, look.crosshair) for entry in overlay.entries]
    decimals = decimals_for(values)
    rows: list[list[Piece]] = [[(" ", "")]]
    left = len(overlay.entries)
    for at, (entry, value) in enumerate(zip(overlay.entries, values, strict=True)):
        is_hidden = entry.run in look.hidden
        name = cut_middle(plain(entry.label), 16, signs.ellipsis)
        said = metric(value, decimals, key=overlay.key, absent="")
        role = "faint" if is_hidden else "text+bold" if at == look.cursor else "text"
        pieces: list[Piece] = [
            (f"{signs.series[entry.place]} ", f"series{entry.place}+bold"), (name, role),
            (f" {said}", "faint" if is_hidden else "dim"), ("  ", ""),
        ]  # fmt: skip
        if width_of(rows[-1]) + width_of(pieces) > width - 4:
            if len(rows) == 2:
                break
            rows.append([(" ", "")])
        rows[-1] += pieces
        left -= 1
    left += overlay.num_rest
    if left:
        rows[-1].append((f"+{left:,}", "dim"))
    return [row for row in rows if sum(cells(text) for text, _ in row) > 1]
