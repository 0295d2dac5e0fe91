"""How long a declared run is likely to take: as finished runs of its experiment took.

A run of another length counts by the update: its seconds times the steps that are declared, over
its own. Runs that were gone on with do not count, as nobody knows how long they lay.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from expdb import digest
from expdb.index.reader import Reader
from expdb.query.declared_results import DeclaredRun

STEPS = "max_steps"


class _Took(NamedTuple):
    run: str
    seconds: float
    steps: int | None


@dataclass(frozen=True, slots=True)
class Costs:
    """What finished runs took."""

    _took: Mapping[str, Sequence[_Took]]
    """Experiment -> its runs, the newest first."""
    _keys: Mapping[str, str]
    """Experiment -> the config key that says how many steps."""

    def of(self, experiment: str, wanted: DeclaredRun) -> float | None:
        """Return the seconds that a declared run is likely to take; None where nothing tells."""
        took = self._took.get(experiment, ())
        counted = [one for one in took if one.steps]
        if not counted:
            # Nobody says how long they were: they are taken to be alike.
            return statistics.median(one.seconds for one in took) if took else None
        steps = self._steps(experiment, wanted) or counted[0].steps
        alike = [one.seconds for one in counted if one.steps == steps]
        return statistics.median(
            alike or [one.seconds * (steps or 0) / (one.steps or 1) for one in counted]
        )

    def _steps(self, experiment: str, wanted: DeclaredRun) -> int | None:
        key = self._keys.get(experiment)
        found = None if key is None else digest.flatten(wanted.canonical).get(key)
        if not isinstance(found, int) or isinstance(found, bool) or found <= 0:
            return None
        return found


def costs(reader: Reader, experiments: Sequence[str]) -> Costs:
    """Return what the finished runs of some experiments took.

    Raises:
        Corrupt: the config of one is damaged.
    """
    sql = """
        SELECT experiment, id, (ended_at_ms - created_at_ms) / 1000.0, max_steps FROM runs
        WHERE state = 'finished' AND ended_at_ms >= created_at_ms AND host IS NOT NULL
        AND num_attempts = 1 AND experiment IN (SELECT unnest(?))
        ORDER BY created_at_ms DESC, id DESC
    """
    took: dict[str, list[_Took]] = defaultdict(list)
    for experiment, run, seconds, steps in reader.rows(sql, [list(experiments)]):
        took[experiment].append(_Took(run, float(seconds), steps))
    keys = {}
    for experiment, runs in took.items():
        newest = next((one for one in runs if one.steps), None)
        key = None if newest is None else _key(reader, newest)
        if key is not None:
            keys[experiment] = key
    return Costs(took, keys)


def _key(reader: Reader, one: _Took) -> str | None:
    """Return the key of a run's config that has its number of steps."""
    flat = digest.flatten(reader.run(one.run).canonical)
    named = [key for key, value in flat.items() if "step" in key and value == one.steps]
    return min(named, key=lambda key: (key.rpartition(".")[2] != STEPS, key), default=None)
