"""Runs as rows of the index; the same function feeds the build and the live overlay.

Invariant: rows have the columns of `schema.sql`, in its order, and no null where the schema forbids
it; a number that a damaged file holds and no column can is 0 or null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from expdb import digest
from expdb.errors import Corrupt
from expdb.index.schema import Tables, version_text
from expdb.model import SEED_LIMIT, Run, Series
from expdb.store.files import plain
from expdb.store.gates import kept_gates

MAX_LAYER_KEYS: Final = 100
BIGINT: Final = 2**63
HUGEINT: Final = SEED_LIMIT


def rows_of(run: Run) -> Tables:
    """Return the rows of one run.

    Raises:
        Corrupt: its config cannot be read.
    """
    return {
        "runs": [_run(run)],
        "params": list(_params(run)),
        "series": list(_series(run)),
        "attempts": list(_attempts(run)),
        "files": list(_files(run)),
        "checkpoints": list(_checkpoints(run)),
        "evals": list(_evals(run)),
        "events": list(_events(run)),
        "used_files": list(_used_files(run)),
    }


def _run(run: Run) -> tuple[Any, ...]:
    pin, objective, value = run.pin, run.objective, run.value()
    series = run.series.get(objective.metric) if objective else None
    return (
        run.id, run.experiment, run.variant, run.name,
        run.seed if run.seed is not None and abs(run.seed) < HUGEINT else None,
        str(run.state), run.reason, _count(run.created_at_ms), _int(run.ended_at_ms),
        _int(run.last_step), _int(run.max_steps),
        run.parent.run if run.parent else None, _int(run.parent.step) if run.parent else None,
        run.fork.run if run.fork else None, _int(run.fork.step) if run.fork else None,
        objective.metric if objective else None,
        objective.mode if objective else None,
        objective.reading if objective else None,
        value[0] if value else None, _int(value[1]) if value else None,
        _int(run.best_step()), _int(series.nonfinite_step) if series else None,
        run.digest, pin.commit, pin.tree, pin.branch, pin.snapshot, bool(pin.dirty),
        bool(pin.reproducible), len(run.attempts), _count(run.num_dropped), run.path,
        _count(run.bytes), list(run.labels), list(run.notes), list(run.problems),
        list(run.lacks), _json(run.settings), run.study or None, run.host or None,
        version_text(run.version),
    )  # fmt: skip


def _params(run: Run) -> Iterator[tuple[Any, ...]]:
    try:
        flat = digest.flatten(run.canonical)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Corrupt(f"the config in run.json of {run.id} is damaged ({error})") from error
    id = run.id
    for key, value in flat.items():
        if type(value) is str:
            yield id, key, "text", value, None
        elif type(value) is float:
            yield id, key, "float", repr(value), value
        else:
            yield id, key, *_typed(value)


def _typed(value: Any) -> tuple[str, str | None, float | None]:
    """Return kind, text and number of a value that is neither text nor a float."""
    match value:
        case None:
            return "null", "null", None
        case bool():
            return "bool", "true" if value else "false", None
        case int():
            return "int", str(value) if abs(value) < HUGEINT else hex(value), _float(value)
        case list() | tuple():
            return "list", _json(value), None
        case dict():
            return "map", _json(value), None
    return "marker", str(value), None


def _float(value: int) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _series(run: Run) -> Iterator[tuple[Any, ...]]:
    crowded = len(run.series) > MAX_LAYER_KEYS
    gated = {gate.metric for gate in kept_gates(run.settings)}
    for key, item in run.series.items():
        if crowded and key.startswith("layer/") and key not in gated:
            continue
        yield (
            run.id, key, _count(item.count), _count(item.nonfinite), _count(item.first_step),
            item.first, _count(item.last_step), item.last, _int(item.min_step), item.min,
            _int(item.max_step), item.max, _mean(item), _int(item.nonfinite_step),
        )  # fmt: skip


def _mean(series: Series) -> float | None:
    return sum(series.tail) / len(series.tail) if series.tail else None


def _attempts(run: Run) -> Iterator[tuple[Any, ...]]:
    for item in run.attempts:
        pin = item.pin
        yield (
            run.id, item.number, _count(item.started_at_ms), _int(item.resumed_from), pin.commit,
            pin.tree, pin.branch, pin.snapshot, bool(pin.dirty), _count(pin.num_edits),
            bool(pin.reproducible),
            list(pin.reasons), item.work_tree, _json(dict(item.environment)),
            _json({name: dict(about) for name, about in item.data.items()}),
        )  # fmt: skip


def _files(run: Run) -> Iterator[tuple[Any, ...]]:
    for item in run.checkpoints:
        for name, about in item.files.items():
            sha256 = about.get("sha256")
            path = f"checkpoints/step={item.step}/{name}"
            yield run.id, path, _int(about.get("bytes")), str(sha256) if sha256 else None


def _checkpoints(run: Run) -> Iterator[tuple[Any, ...]]:
    for item in run.checkpoints:
        yield (
            run.id, _count(item.step), _count(item.bytes), bool(item.complete),
            _count(item.attempt), _count(item.created_at_ms), item.problem,
        )  # fmt: skip


def _evals(run: Run) -> Iterator[tuple[Any, ...]]:
    for item in run.evals:
        for metric, value in item.metrics.items():
            yield (
                run.id, item.id, item.task, _count(item.step), metric, float(value), _int(item.n),
                _int(item.shots), item.scorer, item.items_digest, _count(item.created_at_ms),
            )  # fmt: skip


def _events(run: Run) -> Iterator[tuple[Any, ...]]:
    for place, item in enumerate(run.events):
        severity, when = str(item.severity), _count(item.created_at_ms)
        yield (
            run.id, _count(item.step), severity, item.rule, item.message, when, item.key, item.now,
            item.is_acknowledged, place,
        )  # fmt: skip


def _used_files(run: Run) -> Iterator[tuple[Any, ...]]:
    for item in run.attempts:
        for path, blob in item.pin.used.items():
            yield run.id, item.number, str(path), str(blob)


def _json(value: Any) -> str:
    if value == {}:
        return "{}"
    return json.dumps(plain(value), ensure_ascii=True, default=str)


def _int(value: Any) -> int | None:
    """Return an integer that fits a column, None for anything else that a damaged file may hold."""
    return value if type(value) is int and -BIGINT < value < BIGINT else None


def _count(value: Any) -> int:
    return value if type(value) is int and -BIGINT < value < BIGINT else 0
