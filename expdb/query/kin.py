"""What a run is measured against: its parent's config, at the run's own seed where that exists.

Invariant: seeds of one config are siblings. None of them is the parent of another, whatever was
recorded, and a difference between them is noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from expdb.errors import NotFound
from expdb.index.reader import Reader
from expdb.model import Run
from expdb.query.compare import comparison
from expdb.query.compare_results import Comparison
from expdb.query.diffs import are_siblings
from expdb.store.resolve import Resolved

SAME_SEED: Final = """
    SELECT id FROM runs
    WHERE state = 'finished' AND len(lacks) = 0 AND isfinite(value) AND seed = ?
        AND experiment = ? AND variant = ? AND digest = ? AND tree IS NOT DISTINCT FROM ?
        AND objective = ? AND objective_mode = ? AND objective_reading = ?
    ORDER BY created_at_ms DESC, id DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What a run comes from, and what it is measured against."""

    parent: str
    """The run that it comes from."""
    measured: str
    """The run of the parent's config with the same seed; the parent where there is none."""


def base_of(reader: Reader, run: Run) -> Base | None:
    """Return the base of a run; None where it has none, or none that is in this store."""
    parent = _parent(reader, run)
    if parent is None:
        return None
    return Base(parent=parent.id, measured=_same_seed(reader, run, parent) or parent.id)


def against_base(reader: Reader, run: Run) -> tuple[Base, Comparison] | None:
    """Return the base of a run and the comparison with what it is measured against."""
    base = base_of(reader, run)
    if base is None:
        return None
    return base, comparison(reader, [_literal(base.measured), _literal(run.id)])


def _parent(reader: Reader, run: Run) -> Run | None:
    """Return the recorded parent, or what its siblings in between come from."""
    at = run.parent
    seen: set[str] = {run.id}
    while at is not None and at.run not in seen:
        seen.add(at.run)
        try:
            parent = reader.run(at.run)
        except NotFound:
            return None
        # A fork has the weights of its parent, whatever the seed.
        if run.fork is not None or run.name != parent.name or not are_siblings(parent, run):
            return parent
        at = parent.parent
    return None


def _same_seed(reader: Reader, run: Run, parent: Run) -> str | None:
    objective = parent.objective
    if objective is None or run.fork is not None or run.seed is None or run.seed == parent.seed:
        return None
    found = reader.rows(
        SAME_SEED,
        [
            run.seed, parent.experiment, parent.variant, parent.digest, parent.pin.tree,
            objective.metric, objective.mode, objective.reading,
        ],
    )  # fmt: skip
    ids = [row[0] for row in found if row[0] != run.id]
    return ids[0] if ids else None


def _literal(run: str) -> Resolved:
    return Resolved(run=run, step=None, said="", is_literal=True)
