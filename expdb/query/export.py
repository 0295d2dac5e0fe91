"""What `export` writes of runs: a record that says all of a run, and its points.

Invariant: a record and the points are enough to make the same run again (importers/exported.py):
id, config and its digest, seed, objective, pins, evaluations; no name of a machine, and no path
that is not in the command, is in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from expdb.index.reader import Reader
from expdb.model import Attempt, Run
from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from expdb.store.runs import read_identity, read_run

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION: Final = 1
PARQUET_META: Final = b"expdb.runs"
"""Where an exported Parquet file says what its runs are: a JSON array of records."""


class Export:
    """The runs that are exported, in order; each is read when it is asked for."""

    def __init__(self, reader: Reader, runs: Sequence[str], *, attempts: bool = False) -> None:
        self.runs = tuple(runs)
        self.problems: list[str] = []
        """What is damaged, and left out."""
        self.num_points = 0
        """Points read so far."""
        self._reader = reader
        self._attempts = attempts

    def records(self) -> Iterator[tuple[Run, dict[str, Any]]]:
        """Yield each run with its record."""
        root = self._reader.store.root
        for id in self.runs:
            folder = self._reader.run_dir(id)
            run = read_run(folder, store_root=root)
            self.problems += [f"{problem} ({id})" for problem in run.problems]
            yield run, record_of(run, read_identity(RunLayout(folder)))

    def points(self, run: str) -> pa.Table:
        """Return the points of a run: run, experiment, key, step, time, value, attempt, rank.

        They are the visible ones, by key, step and rank; with `attempts` all there are.
        """
        import pyarrow as pa

        folder, problems = self._reader.run_dir(run), list[str]()
        table = read_series(folder, attempts=self._attempts, problems=problems)
        self.problems += [f"{problem} ({run})" for problem in problems]
        if self._attempts:
            order = ("key", "attempt", "rank", "seq")
            table = table.sort_by([(name, "ascending") for name in order])
        self.num_points += table.num_rows
        table = table.drop_columns(["seq"])
        return table.add_column(0, "run", pa.array([run] * table.num_rows, pa.string()))


def record_of(run: Run, identity: dict[str, Any]) -> dict[str, Any]:
    """Return what a run is: run.json with the config as a tree, and what the other files say."""
    kept = {
        name: value
        for name, value in identity.items()
        if name not in ("format", "needs", "canonical", "imported")
    }
    return {
        "expdb": "run",
        "schema_version": SCHEMA_VERSION,
        **kept,
        "config": json.loads(run.canonical),
        "status": {
            "state": run.state.value,
            "reason": run.reason,
            "last_step": run.last_step,
            "max_steps": run.max_steps,
            "ended_at_ms": run.ended_at_ms,
            "num_dropped": run.num_dropped,
        },
        "attempts": [_attempt(item) for item in run.attempts],
        "evals": [asdict(item) for item in run.evals],
        "events": [asdict(item) for item in run.events],
        "labels": list(run.labels),
        "notes": list(run.notes),
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "started_at_ms": attempt.started_at_ms,
        "resumed_from": attempt.resumed_from,
        "git": asdict(attempt.pin),
        "environment": dict(attempt.environment),
        "data": {name: dict(about) for name, about in attempt.data.items()},
        **({"intervention": dict(attempt.intervention)} if attempt.intervention else {}),
    }


def flat_row(run: Run) -> dict[str, Any]:
    """Return a run as one row: what lists show, and its config and evaluations as JSON."""
    objective, read = run.objective, run.value()
    return {
        "id": run.id,
        "experiment": run.experiment,
        "variant": run.variant,
        "seed": run.seed,
        "study": run.study or None,
        "state": run.state.value,
        "reason": run.reason,
        "created_at_ms": run.created_at_ms,
        "ended_at_ms": run.ended_at_ms,
        "last_step": run.last_step,
        "objective": objective.metric if objective else None,
        "objective_mode": objective.mode if objective else None,
        "value": read[0] if read else None,
        "value_step": read[1] if read else None,
        "config_digest": run.digest,
        "commit": run.pin.commit,
        "tree": run.pin.tree,
        "dirty": run.pin.dirty,
        "labels": list(run.labels),
        "config": json.loads(run.canonical),
        "metrics": {key: series.last for key, series in run.series.items()},
        "evals": [asdict(item) for item in run.evals],
    }
