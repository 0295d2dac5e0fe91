"""Evaluations: one JSON file each, of one checkpoint on one task; items as Parquet beside it."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import BadInput
from expdb.model import FORMAT, NEEDS
from expdb.store.files import write_json
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.track.scalars import BadValue, to_float

DIGEST = re.compile(r"([a-z0-9]+:)?[0-9a-f]{16,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEval:
    """One evaluation, checked and not written yet."""

    id: str
    values: Mapping[str, float]
    body: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...] = ()

    def write(self, layout: RunLayout) -> None:
        """Write its files; the JSON last, since it names the evaluation."""
        layout.evals.mkdir(exist_ok=True)
        if self.rows:
            import pyarrow as pa
            import pyarrow.parquet as pq

            table = pa.Table.from_pylist([dict(row) for row in self.rows])
            pq.write_table(table, layout.evals / f"{self.id}.items.parquet", compression="zstd")
        write_json(layout.evals / f"{self.id}.json", dict(self.body), durable=False)


def new_eval(
    task: str,
    metrics: Mapping[str, Any],
    *,
    step: int,
    n: int | None,
    shots: int | None,
    scorer: str,
    items: Any,
) -> NewEval:
    """Return an evaluation with its values as float64.

    `items` is what was scored: a path, rows (mappings), or a digest (`sha256:...`).

    Raises:
        BadInput: the task is empty, a value is no number, or items are none of these.
    """
    if not task:
        raise BadInput("the name of an evaluation's task is empty")
    values: dict[str, float] = {}
    for name, value in metrics.items():
        try:
            values[str(name)] = to_float(value)
        except BadValue as error:
            raise BadInput(f"eval/{task}/{name} at step {step} is {error}, not a number") from error
    digest, rows = _items(items)
    number = new_id()
    body = {
        "format": FORMAT,
        "needs": NEEDS,
        "id": number,
        "task": task,
        "step": step,
        "metrics": values,
        "n": len(rows) if n is None and rows else n,
        "shots": shots,
        "scorer": scorer,
        "items_digest": digest,
        "created_at_ms": time.time_ns() // 1_000_000,
    }
    return NewEval(id=number, values=values, body=body, rows=rows)


def _items(items: Any) -> tuple[str, tuple[Mapping[str, Any], ...]]:
    if items is None:
        return "", ()
    if isinstance(items, str) and DIGEST.fullmatch(items):
        return items, ()
    if isinstance(items, (str, Path)):
        path = Path(items)
        if not path.is_file():
            raise BadInput(
                f"items {str(items)[:80]!r} is neither a file nor a digest",
                hint='give a path, rows, or a digest such as "sha256:..."',
            )
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}", ()
    if isinstance(items, Iterable):
        rows = tuple(items)
        if rows and all(isinstance(row, Mapping) for row in rows):
            text = json.dumps([dict(row) for row in rows], sort_keys=True, default=str)
            return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", rows
    raise BadInput(
        f"items is {type(items).__name__}", hint="give a path, rows (mappings), or a digest as text"
    )
