r"""`expdb export`: runs and points as CSV, JSON lines and JSON.

Every float64 comes back the same: finite ones as the shortest text that reads back (`-0.0`,
`5e-324`), others as `nan inf -inf` in CSV and "NaN" "Infinity" "-Infinity" in JSON, which a strict
parser takes.

Invariant: names stand byte for byte as they are; CSV quotes, JSON escapes.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from expdb.query.export import Export, flat_row
from expdb.report.json import SCHEMA_VERSION
from expdb.store.files import plain

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = ("run", "key", "step", "time", "value", "attempt", "rank")
BATCH_ROWS: Final = 50_000


def dumped(value: Any) -> str:
    """Return strict JSON on one line; as ASCII where a text has no UTF-8 form."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    return text if _is_utf8(text) else json.dumps(plain(value), allow_nan=False)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def rows(points: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the points in the order of `COLUMNS`."""
    for batch in points.select(list(COLUMNS)).to_batches(max_chunksize=BATCH_ROWS):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def as_csv(export: Export) -> Iterator[str]:
    """Yield the text of a long table of all points."""
    yield _csv_rows([COLUMNS])
    for run in export.runs:
        points = export.points(run)
        for start in range(0, points.num_rows, BATCH_ROWS):
            some = points.slice(start, BATCH_ROWS)
            yield _csv_rows(
                (run, key, step, time, repr(value), attempt, rank)
                for run, key, step, time, value, attempt, rank in rows(some)
            )


def _csv_rows(found: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    usual = csv.writer(out, lineterminator="\n")
    # The module quotes no lone carriage return, and every reader takes it for the end of a line.
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in found:
        has_return = any(isinstance(cell, str) and "\r" in cell for cell in row)
        (quoted if has_return else usual).writerow(row)
    return out.getvalue()


def records(export: Export) -> Iterator[str]:
    """Yield the lines that say what the runs are."""
    for _, record in export.records():
        yield dumped(record) + "\n"


def as_jsonl(export: Export) -> Iterator[str]:
    """Yield one line for each run, followed by one for each of its points."""
    for run, record in export.records():
        yield dumped(record) + "\n"
        for text in _points(export.points(run.id)):
            yield text + "\n"


def as_json(export: Export, *, points: bool) -> Iterator[str]:
    """Yield the text of one document: `runs`, each a record with its `points`."""
    yield f'{{"schema_version": {SCHEMA_VERSION}, "runs": ['
    for at, (run, record) in enumerate(export.records()):
        text = ("," if at else "") + "\n" + dumped(record)
        if points:
            yield text.removesuffix("}") + ', "points": ['
            for number, point in enumerate(_points(export.points(run.id))):
                yield ("," if number else "") + "\n" + point
            yield "]}"
        else:
            yield text
    yield "\n]}\n"


def _points(points: pa.Table) -> Iterator[str]:
    names: dict[str, str] = {}
    for run, key, step, time, value, attempt, rank in rows(points):
        name = names.get(key)
        if name is None:
            name = names[key] = dumped(key)
        number = repr(value) if math.isfinite(value) else dumped(value)
        yield (
            f'{{"run": "{run}", "key": {name}, "step": {step}, "time": {time}, "value": {number},'
            f' "attempt": {attempt}, "rank": {rank}}}'
        )


def runs_as_csv(export: Export) -> Iterator[str]:
    """Yield the text of a table of runs; config, metrics and evaluations are JSON in a cell."""
    head = False
    for run, _ in export.records():
        row = flat_row(run)
        if not head:
            yield _csv_rows([list(row)])
            head = True
        yield _csv_rows([[_cell(value) for value in row.values()]])


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return dumped(value) if isinstance(value, list | Mapping) else value


def as_step_records(export: Export) -> Iterator[str]:
    """Yield one line a step under the short names of `SHORT`, all of them in each line.

    A value that is absent is null; one that is not finite is null, and named in `nonfinite`.
    """
    for run, _ in export.records():
        steps: dict[int, dict[str, float]] = {}
        for _, key, step, _, value, _, _ in rows(export.points(run.id)):
            short = SHORT.get(key)
            if short is not None:
                name, scale = short
                # The lowest rank comes first, and stands for the run.
                steps.setdefault(step, {}).setdefault(name, value if scale == 1 else value * scale)
        for step in sorted(steps):
            found = steps[step]
            finite = {name: v if math.isfinite(v) else None for name, v in found.items()}
            nonfinite = [name for name in SHORT_NAMES if name in found and finite[name] is None]
            body = {name: finite.get(name) for name in SHORT_NAMES}
            head = {"config_name": run.experiment, "run": run.id, "seed": run.seed, "step": step}
            yield dumped({**head, **body, "nonfinite": nonfinite}) + "\n"


SHORT_NAMES: Final = (
    "loss", "token_acc", "grad_norm", "tokens_per_sec", "memory_peak_mb", "val_ppl",
)  # fmt: skip
SHORT: Final[Mapping[str, tuple[str, float]]] = {
    "train/loss": ("loss", 1),
    "train/token_acc": ("token_acc", 1),
    "train/grad_norm": ("grad_norm", 1),
    "train/tokens_per_s": ("tokens_per_sec", 1),
    "train/memory_peak_bytes": ("memory_peak_mb", 1e-6),
    "sys/memory_peak_bytes": ("memory_peak_mb", 1e-6),
    "val/ppl": ("val_ppl", 1),
}
"""Name of a metric -> its short name, and what a value is multiplied by."""
