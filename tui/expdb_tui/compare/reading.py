"""What a comparison shows, read in one go; called in worker threads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from expdb.errors import BadInput, ExpdbError
from expdb.index.reader import Reader
from expdb.model import RunAt
from expdb.query.compare import comparison
from expdb.query.compare_results import Comparison
from expdb.query.noise import MIN_SEEDS
from expdb.query.patches import CodePatch, patches
from expdb.query.seed_compare import compare_seeds
from expdb.query.seed_results import SeedComparison
from expdb.store.resolve import Resolved
from expdb_tui.compare.measured import Measured, evals_of, metrics_of
from expdb_tui.plotting.draw import Line
from expdb_tui.plotting.reading import line_of_run

COLUMNS = 150
"""Points a line, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which runs are compared, the one measured against first."""

    runs: tuple[str, ...]
    places: tuple[int, ...]
    """Of each among the series; 0 is the baseline's."""
    is_over_seeds: bool | None = None
    """None: where each side has enough seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What was read."""

    asked: Asked
    found: Comparison
    seeds: SeedComparison | None
    """The means, where they are what is shown."""
    can_fold: bool
    """Whether there are groups over seeds to compare."""
    metrics: tuple[Measured, ...]
    evals: tuple[Measured, ...]
    patches: tuple[CodePatch, ...]
    key: str
    lines: tuple[Line, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """Of each run among the series."""
        return self.asked.places

    @property
    def num_seeds(self) -> tuple[int, ...]:
        """How many seeds each side has."""
        if self.seeds is None:
            return tuple(1 for _ in self.found.runs)
        return tuple(len(group.runs) for group in self.seeds.groups)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the runs, or of the groups."""
        if self.seeds is not None:
            return tuple(group.name for group in self.seeds.groups)
        return tuple(run.name for run in self.found.runs)


def read_compared(reader: Reader, asked: Asked, *, cwd: Path, head: RunAt | None) -> Compared:
    """Return the comparison of runs with the first of them.

    Raises:
        NotFound: a run is gone.
        Corrupt: the config of a run is damaged.
    """
    targets = [Resolved(run=run, step=None, said="", is_literal=True) for run in asked.runs]
    found = comparison(reader, targets, cwd=cwd)
    folded = _folded(reader, asked, head)
    wanted = asked.is_over_seeds
    if wanted is None:
        wanted = folded is not None and all(len(one.runs) >= MIN_SEEDS for one in folded.groups)
    seeds = folded if wanted else None
    key = _train_key(found)
    groups = [(run.id,) for run in found.runs] if seeds is None else [g.runs for g in seeds.groups]
    lines = [
        line
        for ids, place in zip(groups, asked.places, strict=True)
        if (line := _line(reader, ids, key, place)) is not None
    ]
    return Compared(
        asked=asked,
        found=found,
        seeds=seeds,
        can_fold=folded is not None,
        metrics=tuple(metrics_of(found, seeds)),
        evals=tuple(evals_of(found, seeds)),
        patches=patches(found.runs, places=[cwd, reader.store.root.parent], text=True),
        key=key,
        lines=tuple(lines),
    )


def _folded(reader: Reader, asked: Asked, head: RunAt | None) -> SeedComparison | None:
    """Return the comparison over seeds; None where runs share a group or have none that counts."""
    try:
        found = compare_seeds(reader, asked.runs, head=head)
    except BadInput:
        return None
    is_whole = len(found.groups) == len(asked.runs) and all(one.runs for one in found.groups)
    return found if is_whole else None


def _train_key(found: Comparison) -> str:
    """Return the metric of training that belongs to the objective."""
    keys = set(found.runs[0].series)
    metric = found.objective.metric if found.objective is not None else "loss"
    train = f"train/{metric.rsplit('/', 1)[-1]}"
    return next((key for key in (train, metric, "train/loss") if key in keys), metric)


def _line(reader: Reader, runs: Sequence[str], key: str, place: int) -> Line | None:
    """Return the line of a run; of several with equal steps their mean, and the band they make."""
    lines: list[Line] = []
    for run in runs:
        try:
            line = line_of_run(reader, run, key, columns=COLUMNS, place=place)
        except (ExpdbError, OSError):
            continue
        if line is not None:
            lines.append(line)
    if not lines:
        return None
    first = lines[0]
    if len(lines) == 1 or not all(np.array_equal(line.x, first.x) for line in lines):
        return first
    return replace(
        first,
        mid=np.mean([line.mid for line in lines], axis=0),
        low=np.min([line.low for line in lines], axis=0),
        high=np.max([line.high for line in lines], axis=0),
        num_points=sum(line.num_points for line in lines),
        num_nonfinite=sum(line.num_nonfinite for line in lines),
    )
