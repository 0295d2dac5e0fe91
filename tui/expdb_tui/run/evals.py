"""The tab of evaluations: forest rows against the baseline, then a radar where it fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from expdb.index.reader import Reader
from expdb.model import Run
from expdb.query.measure import Measure, eval_diffs
from expdb.text import plain
from expdb_tui.ink import Piece, titled
from expdb_tui.marks import Marks
from expdb_tui.plotting.forest import ASIDE, Row, forest_rows
from expdb_tui.plotting.radar import MOST_AXES, Polygon, above_chance, fits, radar_rows
from expdb_tui.run.facts import Facts
from expdb_tui.run.tab import Tab
from expdb_tui.widgets.lineview import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Evals:
    """The evaluations of a run, beside those of the baseline."""

    rows: tuple[Row, ...]
    chances: tuple[float, ...]
    """What guessing scores, one a row; 0 where it was not logged."""
    step: int | None
    base: str
    """The baseline's name; empty without one."""


class EvalsTab(Tab):
    """What the run can do."""

    NAME, SHORT = "Evals", "Evals"
    KEYS: ClassVar[Sequence[tuple[str, str]]] = (
        ("[ ]", "tab"), ("d", "compare"), ("b", "baseline"), ("C", "control"),
    )  # fmt: skip
    TEACHES = ("Nothing was evaluated.", 'run.log_eval("cloze", {"acc": acc}, step=step, n=400)')

    def forget(self) -> None:
        """Hold nothing of another run."""
        self._evals: Evals | None = None

    def has(self, facts: Facts) -> bool:
        """Tell whether it was evaluated."""
        return bool(facts.run.evals)

    def open(self) -> None:
        """Show the evaluations."""
        self.screen.show_view(self._rows)
        self.refresh()

    def refresh(self) -> None:
        """Read them again."""
        facts = self.facts

        def take(found: Evals) -> None:
            self._evals = found
            self.screen.show_view(self._rows)

        self.read(lambda reader: read_evals(reader, facts), take)

    def _rows(self, width: int, height: int) -> Rows:
        if self._evals is None:
            return []
        main = self.screen.main
        return evals_rows(
            self._evals, width, height, main.marks, place=self.screen.place, ascii=main.is_ascii
        )


def read_evals(reader: Reader, facts: Facts) -> Evals:
    """Return the newest evaluations of a run, and the baseline's at the same step."""
    run = facts.run
    base = reader.run(facts.baseline) if facts.baseline is not None else None
    runs = (base, run) if base is not None else (run, run)
    found = [
        diff for diff in eval_diffs(Measure(reader, runs, run.objective))
        if not diff.key.endswith(ASIDE)
    ]  # fmt: skip
    rows = tuple(
        Row(
            name=diff.key.removeprefix("eval/").removesuffix("/acc"),
            base=diff.values[0] if base is not None else None,
            value=diff.values[1],
            half=diff.noise[1] if base is not None and len(diff.noise) > 1 else None,
            outcome=diff.outcomes[1] if base is not None else None,
        )
        for diff in found
    )
    return Evals(
        rows=rows,
        chances=tuple(_chance(run, diff.key) for diff in found),
        step=max((diff.step for diff in found if diff.step is not None), default=None),
        base=base.name if base is not None else "",
    )


def _chance(run: Run, key: str) -> float:
    task = key.split("/")[1]
    series = run.series.get(f"eval/{task}/chance")
    return series.last if series is not None and math.isfinite(series.last) else 0.0


def evals_rows(
    evals: Evals, width: int, height: int, signs: Marks, *, place: int, ascii: bool
) -> list[Sequence[Piece]]:
    """Return the forest, and below it or right of it the radar."""
    at = f" at step {evals.step:,}" if evals.step is not None else ""
    said = f"  difference to {plain(evals.base)}{at}, 95 % interval" if evals.base else at
    head: list[Piece] = [(" ", ""), ("Evals", "text+bold"), (said, "dim")]
    is_beside = width >= 130
    left = width // 2 if is_beside else width
    forest: list[Sequence[Piece]] = [titled(head, left - 1, signs.rule)]
    forest += forest_rows(evals.rows, left - 1, signs, place=place, ascii=ascii)
    shares = [
        (row, chance)
        for row, chance in zip(evals.rows, evals.chances, strict=True)
        if row.value is not None and 0 <= row.value <= 1 and 0 <= (row.base or 0) <= 1
    ][:MOST_AXES]
    room = height - 1 if is_beside else height - len(forest) - 2
    if not fits(len(shares), width - left - 3 if is_beside else width, room):
        return forest
    wide = width - left - 3 if is_beside else width - 2
    title: list[Piece] = [("Radar", "text+bold"), ("  centre chance, rim 1", "dim")]
    if evals.base:
        title += [(f"  {signs.series[0]} ", "series0"), (plain(evals.base), "dim")]
        title += [(f"  {signs.series[place or 1]} ", f"series{place or 1}"), ("this run", "dim")]
    polygons = [
        Polygon(place=at_place, scores=[
            None if value is None else above_chance(value, chance)
            for value, chance in zip(values, [chance for _, chance in shares], strict=True)
        ])
        for at_place, values in (
            (0, [row.base for row, _ in shares]), (place or 1, [row.value for row, _ in shares]),
        )
        if any(value is not None for value in values)
    ]  # fmt: skip
    drawn = radar_rows(
        [row.name for row, _ in shares], polygons, wide, min(room, 40), signs, ascii=ascii
    )
    if not is_beside:
        return [*forest, [], titled([(" ", ""), *title], width - 1, signs.rule),
                *[[(" ", ""), *row] for row in drawn]]  # fmt: skip
    right: list[Sequence[Piece]] = [titled(title, wide, signs.rule), *drawn]
    out: list[Sequence[Piece]] = []
    for number in range(max(len(forest), len(right))):
        mine = forest[number] if number < len(forest) else [(" " * (left - 1), "")]
        other = right[number] if number < len(right) else []
        out.append([*mine, (f" {signs.divider} ", "rule"), *other])
    return out
