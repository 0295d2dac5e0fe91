"""The shape of what the compared runs can do: a radar of their evaluations, where there is room.

Invariant: the centre is chance and the rim the best there is; the forest rows answer the question,
the radar only shows the shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from expdb_tui.compare.measured import EVALS, Measured
from expdb_tui.compare.reading import Compared
from expdb_tui.ink import Piece, titled
from expdb_tui.marks import Marks
from expdb_tui.plotting.radar import (
    LEAST_ROWS,
    MOST_AXES,
    MOST_RUNS,
    Polygon,
    above_chance,
    fits,
    radar_rows,
)

TALLEST = 24
ASIDE = ("_stderr", "/chance", "/n")


def with_radar(
    shown: Compared, rows: list[Sequence[Piece]], width: int, height: int, marks: Marks
) -> list[Sequence[Piece]]:
    """Return rows with the radar below, where it fits."""
    axes = [one for one in shown.evals if _is_share(one)][:MOST_AXES]
    room = min(TALLEST, height - len(rows) - 2)
    if room < LEAST_ROWS or not fits(len(axes), width, room):
        return rows
    title: list[Piece] = [("Radar", "text+bold"), ("  centre chance, rim 1", "dim")]
    polygons = [
        Polygon(place=place, scores=[_score(shown, one, at) for one in axes])
        for at, place in enumerate(shown.places[:MOST_RUNS])
    ]
    if len(shown.places) > MOST_RUNS:
        title.append((f", the first {MOST_RUNS} runs", "dim"))
    names = [one.key.removeprefix(EVALS).removesuffix("/acc") for one in axes]
    drawn = radar_rows(names, polygons, width, room, marks, ascii=marks.rule == "-")
    return [*rows, [], titled(title, width, marks.rule), *drawn]


def _is_share(one: Measured) -> bool:
    known = [value for value in one.values if value is not None]
    return not one.key.endswith(ASIDE) and bool(known) and all(0 <= value <= 1 for value in known)


def _score(shown: Compared, one: Measured, at: int) -> float | None:
    value = one.values[at]
    if value is None:
        return None
    task = one.key.removeprefix(EVALS).split("/")[0]
    series = shown.found.runs[0].series.get(f"{EVALS}{task}/chance")
    chance = series.last if series is not None and math.isfinite(series.last) else 0.0
    return above_chance(value, chance)
