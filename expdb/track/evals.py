"""Evaluations: one JSON file each, of one checkpoint on one task."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expdb.errors import BadInput
from expdb.model import FORMAT, NEEDS
from expdb.store.files import write_json
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.track.scalars import BadValue, to_float


def write_eval(
    layout: RunLayout,
    task: str,
    metrics: Mapping[str, Any],
    *,
    step: int,
    n: int | None,
    shots: int | None,
    scorer: str,
    items: Any,
) -> dict[str, float]:
    """Write one evaluation and return its values as float64.

    Raises:
        BadInput: the task is empty, or a value is no number; nothing is written then.
    """
    if not task:
        raise BadInput("the name of an evaluation's task is empty")
    values: dict[str, float] = {}
    for name, value in metrics.items():
        try:
            values[str(name)] = to_float(value)
        except BadValue as error:
            raise BadInput(f"eval/{task}/{name} at step {step} is {error}, not a number") from error
    layout.evals.mkdir(exist_ok=True)
    number = new_id()
    body = {
        "format": FORMAT,
        "needs": NEEDS,
        "id": number,
        "task": task,
        "step": step,
        "metrics": values,
        "n": n,
        "shots": shots,
        "scorer": scorer,
        "items_digest": items_digest(items),
        "created_at_ms": time.time_ns() // 1_000_000,
    }
    write_json(layout.evals / f"{number}.json", body, durable=False)
    return values


def items_digest(items: Any) -> str:
    """Return the digest of the items of an evaluation: given as text, or taken of a file."""
    if items is None:
        return ""
    if isinstance(items, Path):
        with items.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    if isinstance(items, str):
        return items
    raise BadInput(
        f"items is {type(items).__name__}", hint="give a Path, or the digest of the items as text"
    )
