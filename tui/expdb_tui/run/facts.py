"""What the head and the tabs of a run go by; read in a worker thread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from expdb.errors import ExpdbError, NotFound
from expdb.index.reader import Reader
from expdb.model import Run, RunAt
from expdb.query.kin import base_of
from expdb.query.media import RunMedia, media_of
from expdb.query.paging import PageRow, RunOrder, order_of, page_of
from expdb.query.tail import LogTail
from expdb_tui.plotting import forest
from expdb_tui.plotting.axis import is_log_by_nature

LAYER, SYSTEM, EVAL = "layer/", "sys/", "eval/"
NEXT = ("grad_norm", "lr", "tokens_per_s")
"""What is looked at after the objective, in this order."""
ASIDE = (*forest.ASIDE, "train/tokens")
"""Ends of names of series that no plot is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One run at one moment."""

    run: Run
    row: PageRow
    order: RunOrder
    parent: str | None
    """The run that it comes from; None where it has none in this store."""
    media: RunMedia
    has_log: bool

    @property
    def baseline(self) -> str | None:
        """What its curves are drawn against; None of the baseline itself."""
        base = self.order.baseline
        return base.id if base is not None and base.id != self.run.id else None

    @property
    def is_alive(self) -> bool:
        """Whether it trains."""
        return self.run.state.is_alive

    @property
    def attempts(self) -> tuple[tuple[int, int], ...]:
        """Its later attempts, each with the step it went on from."""
        return tuple(
            (one.number, one.resumed_from)
            for one in self.run.attempts
            if one.number > 1 and one.resumed_from is not None
        )

    @property
    def last_step(self) -> float:
        """How far a plot of it goes: to the planned end while it trains."""
        planned = self.run.max_steps if self.is_alive else 0
        return float(max(self.run.last_step or 0, planned or 0, 1))

    def keys(self, prefix: str) -> list[str]:
        """Return its series under a prefix, sorted."""
        return sorted(key for key in self.run.series if key.startswith(prefix))


def read_facts(reader: Reader, run: str, order: RunOrder | None, head: RunAt | None) -> Facts:
    """Return the facts of a run.

    Raises:
        NotFound: it is not there any more.
    """
    order = order or order_of(reader, head=head)
    found = reader.run(run)
    rows = page_of(reader, order, [run], head=head)
    if not rows:
        raise NotFound(f"the run {run[:4]} is gone", hint="expdb ls")
    return Facts(
        run=found,
        row=rows[0],
        order=order,
        parent=_parent(reader, found),
        media=media_of(reader.run_dir(run)),
        has_log=bool(LogTail(reader.run_dir(run)).last(1)),
    )


def _parent(reader: Reader, run: Run) -> str | None:
    try:
        base = base_of(reader, run)
    except ExpdbError:  # a damaged parent is no parent to compare with
        return None
    return None if base is None else base.measured


def in_order(keys: Iterable[str], metric: str) -> list[str]:
    """Return metrics as one looks at them: the objective's first, then how well the run is."""
    tail = metric.rsplit("/", 1)[-1]

    def place(key: str) -> tuple[int, str]:
        if metric and key == f"train/{tail}":
            return 0, key
        if key == metric:
            return 1, key
        name = key.rsplit("/", 1)[-1]
        if key.endswith(ASIDE) or key.startswith((LAYER, SYSTEM)):
            return 9, key
        if name in NEXT:
            return 2 + NEXT.index(name), key
        return (8 if key.startswith(EVAL) else 7), key

    return sorted(keys, key=place)


def curve_keys(facts: Facts) -> list[str]:
    """Return the metrics of a run that have a plot."""
    objective = facts.run.objective
    shown = (
        key
        for key in facts.run.series
        if not key.startswith((LAYER, SYSTEM)) and not key.endswith(ASIDE)
    )
    return in_order(shown, objective.metric if objective is not None else "")


def system_keys(facts: Facts) -> list[str]:
    """Return the metrics of the machine."""
    return facts.keys(SYSTEM)


def is_log(key: str, turned: frozenset[str]) -> bool:
    """Tell whether a metric is drawn on a logarithmic axis; `turned` are those told otherwise."""
    return is_log_by_nature(key) != (key in turned)
