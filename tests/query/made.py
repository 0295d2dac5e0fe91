"""Runs made up in memory, and written as run folders the way the store lays them out."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from expdb import digest
from expdb.model import (
    Attempt,
    Checkpoint,
    Eval,
    Event,
    Objective,
    Pin,
    Run,
    RunAt,
    RunState,
    Series,
)
from expdb.store.files import encode_json, write_json
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.series import _as_json
from expdb.store.store import Store, open_store

MINUTE_MS = 60_000
VAL_LOSS = Objective(metric="val/loss", mode="min", reading="last")


def series(key: str, values: dict[int, float]) -> Series:
    """Return the summary of a key from its points, step -> value."""
    import numpy as np

    from expdb.store.series import SeriesBook

    book = SeriesBook()
    book.update(key, np.array(list(values), np.int64), np.array(list(values.values()), np.float64))
    return book[key]


def make_run(
    run: str,
    *,
    experiment: str = "baseline",
    variant: str = "",
    seed: int | None = 0,
    state: RunState = RunState.FINISHED,
    reason: str = "",
    minutes: int = 0,
    config: dict[str, Any] | None = None,
    points: dict[str, dict[int, float]] | None = None,
    value: float | None = None,
    objective: Objective | None = VAL_LOSS,
    settings: dict[str, Any] | None = None,
    tree: str | None = "9d41c7e" + "0" * 33,
    commit: str | None = "4be1f02" + "0" * 33,
    data: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
    checkpoints: tuple[int, ...] = (),
    evals: tuple[Eval, ...] = (),
    events: tuple[Event, ...] = (),
    parent: str | None = None,
    **more: Any,
) -> Run:
    """Return a run that began `minutes` after the others' start and was 300 steps long."""
    points = dict(points or {})
    if value is not None:
        points.setdefault("val/loss", {0: 5.5, 150: value + 0.4, 300: value})
    found = {key: series(key, values) for key, values in points.items()}
    canonical = digest.canonical(
        config if config is not None else {"seed": seed, "optim": {"lr": 0.003}}
    )
    created = 1_795_000_000_000 + minutes * MINUTE_MS
    last = max((item.last_step for item in found.values()), default=None)
    ended = None if state.is_alive or state is RunState.LOST else created + 35_000
    attempt = Attempt(
        number=1,
        pin=Pin(commit=commit, tree=tree, branch="main"),
        started_at_ms=created,
        environment=environment
        or {"python": "3.11.7", "torch": "2.13.0+cpu", "torch.num_threads": "1"},
        data={name: {"digest": text, "name": name} for name, text in (data or {}).items()},
        work_tree="",
    )
    values: dict[str, Any] = dict(
        id=run,
        experiment=experiment,
        variant=variant,
        seed=seed,
        state=state,
        reason=reason,
        created_at_ms=created,
        ended_at_ms=ended,
        last_step=last,
        max_steps=300,
        path=f"exp={experiment}/run={run}",
        parent=RunAt(run=parent) if parent else None,
        fork=None,
        objective=objective,
        digest=digest.digest(canonical, ignore=(), seed_key="seed"),
        canonical=canonical,
        settings=settings if settings is not None else {"seed_key": "seed"},
        command=("python", "train.py", f"+exp={experiment}"),
        attempts=(attempt,),
        series=found,
        checkpoints=tuple(
            Checkpoint(step=step, bytes=4_600_000, complete=True) for step in checkpoints
        ),
        evals=evals,
        events=events,
    )
    values.update(more)
    return Run(**values)


def write_run(
    store: Store, run: Run, *, old: bool = True, points: dict[str, dict[int, float]] | None = None
) -> Path:
    """Write the folder of a run; with `old` it counts as settled."""
    path = StoreLayout(store.root).run_dir(run.experiment, run.id)
    path.mkdir(parents=True, exist_ok=True)
    layout = RunLayout(path)
    settings = dict(run.settings)
    write_json(
        layout.run_json,
        {
            "format": 1, "needs": "0.1.0", "id": run.id, "experiment": run.experiment,
            "variant": run.variant, "seed": run.seed, "created_at_ms": run.created_at_ms,
            "settings": settings, "digest": run.digest, "canonical": run.canonical,
            "parent": asdict(run.parent) if run.parent else None, "command": list(run.command),
            "study": run.study or None,
            "objective": asdict(run.objective) if run.objective else None,
        },
        durable=False,
    )  # fmt: skip
    for item in run.attempts:
        write_attempt(layout, item, alive=run.state.is_alive)
    body = {"series": {key: _as_json(item) for key, item in run.series.items()}}
    write_json(layout.series_json, body, durable=False)
    for item in run.evals:
        layout.evals.mkdir(exist_ok=True)
        write_json(layout.evals / f"{item.id}.json", asdict(item), durable=False)
    if run.events:
        lines = b"".join(encode_json(asdict(item)) for item in run.events)
        layout.events.write_bytes(lines)
    if points:
        write_points(layout, points)
    (path / "x").write_bytes(bytes(run.bytes))
    stored = "running" if run.state.is_alive else str(run.state)
    status = {
        "format": 1, "state": stored, "reason": run.reason, "attempt": len(run.attempts),
        "last_step": run.last_step, "max_steps": run.max_steps, "ended_at_ms": run.ended_at_ms,
        "files": {"x": run.bytes},
    }  # fmt: skip
    write_json(layout.status_json, status, durable=False)
    if old:
        then = time.time() - 3600
        os.utime(layout.status_json, (then, then))
    return path


def write_attempt(layout: RunLayout, attempt: Attempt, *, alive: bool) -> None:
    """Write the pin and the owner of an attempt: this process, or one that is gone."""
    from expdb.store import owner
    from expdb.store.attempts import write_pin

    folder = layout.attempt(attempt.number)
    folder.mkdir(parents=True, exist_ok=True)
    me = owner.describe()
    write_json(folder / "owner.json", me if alive else {**me, "start": -1}, durable=False)
    write_pin(layout, attempt)


def write_points(layout: RunLayout, points: dict[str, dict[int, float]]) -> None:
    """Seal points, key -> step -> value, as one part of attempt 1."""
    import numpy as np

    from expdb.store.parts import Column
    from expdb.store.seal import seal

    columns, seq = {}, 0
    for key, values in points.items():
        steps = np.array(list(values), np.int64)
        seqs = np.arange(seq + 1, seq + 1 + len(steps), dtype=np.int64)
        seq += len(steps)
        columns[key] = Column(steps, steps * 100, np.array(list(values.values()), np.float64), seqs)
    seal(layout, attempt=1, rank=0, columns=columns, first_seq=1, last_seq=seq, journals=())


def make_store(root: Path) -> Store:
    """Return a new store."""
    return open_store(root, create=True)


def renamed(run: Run, **changes: Any) -> Run:
    """Return the run with other fields."""
    return replace(run, **changes)
