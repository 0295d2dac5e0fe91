"""The tab of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from expdb.index.reader import Reader
from expdb.model import Checkpoint
from expdb.query.points import Points
from expdb.text import age, decimals_for, metric, plain, size
from expdb_tui.columns import Column, chosen, head_of, line_of
from expdb_tui.ink import Piece
from expdb_tui.run.facts import Facts
from expdb_tui.run.tab import Tab
from expdb_tui.session import now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """One checkpoint as the table shows it."""

    checkpoint: Checkpoint
    value: float | None
    names: tuple[str, ...]
    left_by: int | None


class WeightLines:
    """Checkpoints as the rows of a table, the newest first."""

    def __init__(self, rows: Sequence[Weights], key: str, ellipsis: str) -> None:
        self._rows, self._key, self._ellipsis = rows, key, ellipsis

    def __len__(self) -> int:
        return len(self._rows)

    def head(self, width: int) -> Sequence[Piece]:
        """Return the heads of the columns."""
        return [(" ", ""), *head_of(chosen(self._columns(), width - 2), "step")]

    def line(self, at: int, width: int) -> Sequence[Piece]:
        """Return one checkpoint."""
        return line_of(chosen(self._columns(), width - 1), self._rows[at], self._ellipsis)

    def _columns(self) -> list[Column[Weights]]:
        key = self._key
        decimals = decimals_for(row.value for row in self._rows)
        return [
            Column(
                name="step", head="step", width=10, is_right=True,
                cell=lambda row: [(f"{row.checkpoint.step:,}", "text")],
            ),
            Column(
                name="size", head="size", width=8, is_right=True,
                cell=lambda row: [(size(row.checkpoint.bytes), "dim")],
            ),
            Column(
                name="value", head=plain(key)[-12:] or "objective", width=12, is_right=True,
                since=50, cell=lambda row: [(metric(row.value, decimals, absent=""), "text")],
            ),
            Column(name="state", head="state", width=18, cell=_state),
            Column(
                name="names", head="named", width=10, fills=True,
                cell=lambda row: [(" ".join(map(plain, row.names)), "accent")],
            ),
            Column(
                name="attempt", head="attempt", width=7, is_right=True, since=90,
                cell=lambda row: [(str(row.checkpoint.attempt), "dim")],
            ),
            Column(
                name="age", head="age", width=4, is_right=True, since=60,
                cell=lambda row: [(age(row.checkpoint.created_at_ms, now_ms()), "dim")],
            ),
        ]  # fmt: skip


def _state(row: Weights) -> Sequence[Piece]:
    one = row.checkpoint
    if not one.complete:
        return [(plain(one.problem) or "not complete", "fail")]
    if row.left_by is not None:
        return [(f"left by attempt {row.left_by}", "faint")]
    num = sum(bool(about.get("sha256")) for about in one.files.values())
    return [(f"whole, {num} hashes", "dim")]


class CheckpointsTab(Tab):
    """What was saved."""

    NAME, SHORT = "Checkpoints", "Ckpts"
    KEYS: ClassVar[Sequence[tuple[str, str]]] = (
        ("[ ]", "tab"), ("↑↓", "row"), ("G", "go back"), ("C", "control"),
    )  # fmt: skip
    TEACHES = ("No checkpoint was saved.", "run.checkpoint(step, state)")

    def forget(self) -> None:
        """Hold no value of another run."""
        self._values: dict[int, float] = {}

    def has(self, facts: Facts) -> bool:
        """Tell whether something was saved."""
        return bool(facts.run.checkpoints)

    def badge(self, facts: Facts) -> str:
        """Return how many there are."""
        return str(len(facts.run.checkpoints)) if facts.run.checkpoints else ""

    def open(self) -> None:
        """Show the table."""
        self._show()
        self.refresh()

    def refresh(self) -> None:
        """Read the objective at their steps."""
        facts = self.facts

        def take(found: dict[int, float]) -> None:
            self._values = found
            self._show()

        self.read(lambda reader: read_values(reader, facts), take)

    def _show(self) -> None:
        facts, main = self.facts, self.screen.main
        objective = facts.run.objective
        rows = weights_of(facts, self._values)
        key = objective.metric if objective is not None else ""
        self.screen.show_table().show(WeightLines(rows, key, main.marks.ellipsis))


def read_values(reader: Reader, facts: Facts) -> dict[int, float]:
    """Return step -> the objective there, of the steps that have one."""
    objective = facts.run.objective
    if objective is None:
        return {}
    curve = Points(reader, facts.run.id).of(objective.metric)
    return dict(zip(curve.steps.tolist(), curve.values.tolist(), strict=True))


def weights_of(facts: Facts, values: Mapping[int, float]) -> list[Weights]:
    """Return the checkpoints of a run, the newest first, with what they are called."""
    run = facts.run
    usable = [one.step for one in run.usable]
    best = min(
        (step for step in usable if step in values),
        key=lambda step: (
            values[step] if run.objective is None or run.objective.mode == "min" else -values[step]
        ),
        default=None,
    )
    found = []
    for one in sorted(run.checkpoints, key=lambda one: (-one.step, -one.attempt)):
        names = [word for word, at in (("best", best), ("last", max(usable, default=None)))
                 if at == one.step]  # fmt: skip
        found.append(
            Weights(
                checkpoint=one,
                value=values.get(one.step),
                names=tuple(names),
                left_by=run.left(one),
            )
        )
    return found
