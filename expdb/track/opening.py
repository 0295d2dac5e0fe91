"""The opening of a run on the console: gathers what `intro` words, and what later lines are
measured against.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expdb import digest
from expdb.digest import ABSENT
from expdb.model import Attempt, Run
from expdb.store import points
from expdb.track import intro
from expdb.track.job import added_keys
from expdb.track.prepare import Start
from expdb.track.run import Run as Handle


def open_console(
    begun: Start, handle: Handle, attempt: Attempt, parent: Run | None, *, fork: str
) -> None:
    """Say what starts, from what weights, against what, with which code."""
    settings = begun.settings
    keys: dict[str, tuple[Any, Any]] = {}
    if parent is not None:
        keys = digest.differing(
            parent.canonical,
            begun.composed.canonical,
            ignore=settings["digest"]["ignore"],
            seed_key=settings["seed_key"],
        )
    head = intro.head_line(
        begun.name,
        handle.id,
        begun.seed,
        attempt=attempt.number,
        resumed_from=attempt.resumed_from,
        fork=fork,
    )
    same_seed = parent is not None and parent.seed == begun.seed
    lines = [
        head,
        *intro.parent_lines(parent, keys, run=handle.id, same_seed=same_seed),
        intro.code_line(attempt.pin),
        intro.objective_line(begun.objective, parent, settings["noise"]),
        intro.path_line(handle.dir),
    ]
    handle.console.introduce(
        lines,
        experiment=begun.name,
        run=handle.id[:4],
        objective=begun.objective,
        base_name=parent.id[:4] if parent is not None else "",
        base_values=_base_values(begun.store.root, begun, handle, parent),
        latest=lambda: handle.latest,
    )
    if attempt.pin.pinned is not None and settings["dirty"] != "allow":
        for why in attempt.pin.reasons:
            handle.console.warning(why)
    # A parent that has a key too says nothing about a typo.
    new = begun.composed.flat if parent is None else [k for k in keys if keys[k][0] is ABSENT]
    for key, near in added_keys(begun.job, list(new), settings["experiment_key"]).items():
        guess = f": a typo of {near}?" if near else ": a typo?"
        handle.console.warning(f"this run ADDS {key}, which its base lacks{guess}")


def _base_values(store: Path, begun: Start, handle: Handle, parent: Run | None) -> dict[int, float]:
    """Return step -> the objective of the run that this one is measured against."""
    if parent is None or begun.objective is None:
        return {}
    damaged: list[str] = []
    found = points.read_series(store / parent.path, [begun.objective.metric], problems=damaged)
    for problem in damaged:
        handle.console.warning(f"{parent.id[:4]}: {problem}")
    return dict(zip(found["step"].to_pylist(), found["value"].to_pylist(), strict=True))
