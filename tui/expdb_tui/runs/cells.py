"""A run of the list as cells: state, name, seed, step, objective, difference, and more with room.

Invariant: one precision a column; what a run does not have is blank, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from expdb.query.paging import PageRow, RunOrder
from expdb.signs import STATE_GLYPHS, Colour
from expdb.text import age, cells, config_value, eta, metric, plain, short_rate, signed
from expdb_tui.columns import Column
from expdb_tui.ink import Piece
from expdb_tui.marks import OUTCOME_ROLES, Marks

ROLES: dict[Colour, str] = {
    "": "text",
    "bold": "text+bold",
    "dim": "dim",
    "green": "dim",
    "red": "fail",
    "yellow": "warn",
    "cyan": "accent",
}
"""What settled well is quiet here: among hundreds of rows only trouble and life stand out."""
EXTRA_CELLS = 14
"""The most that a column asked for by name takes."""
AT_SEED, AT_EVENTS = 60, 64
"""Widths from which on the seed and the events have columns; else they stand behind the name."""
AT_RATE, AT_ETA, AT_CURVE = 92, 100, 112
"""Widths from which on tokens/s, the time left, then the curve and the id are shown."""


OPTIONAL: dict[str, str] = {
    "seed": "seed", "step": "step", "eta": "time left", "curve": "curve", "delta": "difference",
    "rate": "tokens/s", "events": "open events", "age": "age", "id": "id",
}  # fmt: skip
"""Columns that can be hidden, and what they are called where one chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """A column of a metric, config key or field."""

    name: str
    head: str
    width: int
    is_number: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the cells of all rows depend on."""

    order: RunOrder
    marks: Marks
    ascii: bool
    now_ms: int
    decimals: int
    places: dict[str, int]
    """Marked runs -> their place among the series."""
    sparks: dict[str, str]
    """Run -> its curve in braille."""
    hidden: frozenset[str] = frozenset()
    """Columns that are not wanted."""
    extra: tuple[Extra, ...] = ()
    """Columns that somebody asked for by name."""
    width: int = 80
    """Cells that a row has."""

    @property
    def baseline(self) -> str | None:
        """The run that others are measured against."""
        return self.order.baseline.id if self.order.baseline is not None else None


def columns(shown: Shown) -> list[Column[PageRow]]:
    """Return the columns of the list that are wanted, whatever the width."""
    return [column for column in _columns(shown) if column.name not in shown.hidden]


def extra_of(name: str, rows: Iterable[PageRow]) -> Extra:
    """Return the column of a name, as wide as what is read of it."""
    values = [row.row.extra[name] for row in rows if name in row.row.extra]
    is_number = bool(values) and all(_is_number(value) for value in values)
    tail = name.rsplit("." if "." in name else "/", 1)[-1]
    widest = max([cells(plain(tail)), *(cells(_said(value)) for value in values)], default=6)
    return Extra(
        name=name, head=plain(tail), width=max(4, min(EXTRA_CELLS, widest)), is_number=is_number
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _said(value: object) -> str:
    if isinstance(value, float) and not isinstance(value, bool):
        return f"{value:.6g}" if math.isfinite(value) else metric(value)
    return config_value(value, EXTRA_CELLS)


def _extra(one: Extra) -> Column[PageRow]:
    def cell(row: PageRow) -> Sequence[Piece]:
        if one.name not in row.row.extra:
            return []
        value = row.row.extra[one.name]
        is_bad = isinstance(value, float) and not math.isfinite(value)
        return [(_said(value), "fail" if is_bad else "text")]

    return Column(
        name=one.name, head=one.head, width=one.width, cell=cell, is_right=one.is_number,
        is_own=True,
    )  # fmt: skip


def _columns(shown: Shown) -> list[Column[PageRow]]:
    metric_name = plain(shown.order.metric or "objective")
    return [
        Column(name="mark", head="", width=1, cell=lambda row: mark_cell(row, shown)),
        Column(name="state", head="", width=1, gap=1, cell=lambda row: state_cell(row, shown)),
        Column(
            name="experiment", head="experiment", width=12, fills=True,
            cell=lambda row: name_cell(row, shown),
        ),
        Column(name="seed", head="s", width=3, gap=1, is_right=True, since=AT_SEED, cell=seed_cell),
        Column(name="step", head="step", width=9, gap=1, is_right=True, since=68, cell=step_cell),
        Column(
            name="eta", head="ETA", width=5, is_right=True, since=AT_ETA,
            cell=lambda row: eta_cell(row, shown),
        ),
        Column(
            name="curve", head="curve", width=12, since=AT_CURVE,
            cell=lambda row: [(shown.sparks.get(row.row.id, ""), "dim")],
        ),
        Column(
            name="objective", head=metric_name[-12:], width=max(8, min(12, len(metric_name))),
            is_right=True, cell=lambda row: value_cell(row, shown),
        ),
        Column(
            name="delta", head="Δ base" if not shown.ascii else "delta", width=7, is_right=True,
            since=56, cell=lambda row: delta_cell(row, shown),
        ),
        Column(name="sign", head="", width=1, gap=1, cell=lambda row: sign_cell(row, shown)),
        *map(_extra, shown.extra),
        Column(name="rate", head="tok/s", width=6, is_right=True, since=AT_RATE, cell=rate_cell),
        Column(
            name="events", head="!", width=2, is_right=True, gap=1, since=AT_EVENTS,
            cell=events_cell,
        ),
        Column(
            name="age", head="age", width=4, is_right=True, since=72,
            cell=lambda row: [(age(row.row.created_at_ms, shown.now_ms), "dim")],
        ),
        Column(
            name="id", head="id", width=10, since=AT_CURVE,
            cell=lambda row: [(row.row.id, "faint")],
        ),
    ]  # fmt: skip


def mark_cell(row: PageRow, shown: Shown) -> Sequence[Piece]:
    """The mark of the baseline, or of a marked run."""
    if row.row.id == shown.baseline:
        return [(shown.marks.series[0], "series0")]
    place = shown.places.get(row.row.id)
    return [(shown.marks.series[place], f"series{place}")] if place is not None else []


def state_cell(row: PageRow, shown: Shown) -> Sequence[Piece]:
    """The glyph of the state."""
    look = STATE_GLYPHS[row.row.state.value]
    return [(look.ascii if shown.ascii else look.glyph, ROLES[look.colour])]


def name_cell(row: PageRow, shown: Shown) -> Sequence[Piece]:
    """The experiment, what is overridden, the refs."""
    run = row.row
    bold = "+bold" if run.refs or run.state.is_alive else ""
    out: list[Piece] = [(plain(run.experiment), f"text{bold}"), (plain(run.variant), "dim")]
    if shown.width < AT_SEED and run.seed is not None and "seed" not in shown.hidden:
        out.append((f":s{run.seed}", "dim"))
    if shown.width < AT_EVENTS and row.num_events and "events" not in shown.hidden:
        out.append((f" {shown.marks.event}", "fail" if row.is_critical else "warn"))
    names = [*(["HEAD"] if run.is_head and "baseline" not in run.refs else []), *run.refs]
    for name in names:
        chip = f"[{plain(name)}]" if shown.ascii else f" {plain(name)} "
        out += [(" ", ""), (chip, "accent+on-surface")]
    return out


def seed_cell(row: PageRow) -> Sequence[Piece]:
    """The seed."""
    return [("" if row.row.seed is None else str(row.row.seed), "dim")]


def step_cell(row: PageRow) -> Sequence[Piece]:
    """How far it came; of how far it wants to come while that can still move."""
    run = row.row
    if run.last_step is None:
        return []
    if run.max_steps is None or run.state.value == "finished":
        return [(str(run.last_step), "dim")]
    return [(str(run.last_step), "text"), (f"/{run.max_steps}", "dim")]


def eta_cell(row: PageRow, shown: Shown) -> Sequence[Piece]:
    """How long a live run still needs, at its pace since its attempt began."""
    run = row.row
    if not run.state.is_alive or run.max_steps is None or run.last_step is None:
        return []
    done = run.last_step - row.started_step
    if row.started_at_ms is None or done <= 0:
        return []
    seconds = (shown.now_ms - row.started_at_ms) / 1000
    return [(eta(seconds / done * max(0, run.max_steps - run.last_step)), "text")]


def has_objective(row: PageRow, order: RunOrder) -> bool:
    """Tell whether a run's own objective is that of the list."""
    own = row.row.objective
    return own is not None and own.metric == order.metric


def value_cell(row: PageRow, shown: Shown) -> Sequence[Piece]:
    """The objective."""
    value = row.row.value if has_objective(row, shown.order) else None
    if value is None:
        return []
    text = metric(value, shown.decimals, key=shown.order.metric or "", absent="")
    return [(text, "text" if math.isfinite(value) else "fail")]


def delta_cell(row: PageRow, shown: Shown) -> Sequence[Piece]:
    """The difference to the baseline."""
    if row.row.id == shown.baseline:
        return [("0", "dim")]
    delta = row.row.delta
    if delta is None:
        return []
    text = signed(delta.value, shown.decimals, key=shown.order.metric or "")
    return [(text, "text" if delta.outcome is not None else "dim")]


def sign_cell(row: PageRow, shown: Shown) -> Sequence[Piece]:
    """Better, worse, within the noise; or that it was taken at an earlier step."""
    delta = row.row.delta
    if delta is None or row.row.id == shown.baseline:
        return []
    if delta.outcome is None:
        return [(shown.marks.live if delta.at_step is not None else "", "faint")]
    return [(shown.marks.outcomes[delta.outcome], OUTCOME_ROLES[delta.outcome])]


def rate_cell(row: PageRow) -> Sequence[Piece]:
    """Tokens a second."""
    rate = row.tokens_per_s
    return [(short_rate(rate), "dim")] if rate is not None and math.isfinite(rate) else []


def events_cell(row: PageRow) -> Sequence[Piece]:
    """Warnings and critical events."""
    if not row.num_events:
        return []
    text = str(row.num_events) if row.num_events < 100 else "99"
    return [(text, "fail" if row.is_critical else "warn")]
