"""Recorded series of the demo, as small files: what the rules look at, call after call."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parent / "series"
DIGITS = 4


class Call(NamedTuple):
    """One call of `log`."""

    step: int
    time_ms: int
    keys: tuple[str, ...]
    values: tuple[float, ...]


def write(path: Path, calls: Iterable[Call]) -> None:
    """Write calls; values keep four digits, times begin at 0."""
    rows = [
        (number, one.step, one.time_ms, key, float(f"{value:.{DIGITS - 1}e}"))
        for number, one in enumerate(calls)
        for key, value in zip(one.keys, one.values, strict=True)
    ]
    call, step, time_ms, key, value = zip(*rows, strict=True)
    table = pa.table(
        {
            "call": pa.array(call, pa.int32()),
            "step": pa.array(step, pa.int32()),
            "time_ms": pa.array(np.asarray(time_ms) - min(time_ms), pa.int32()),
            "key": pa.array(key).dictionary_encode(),
            "value": pa.array(value, pa.float32()),
        }
    )
    pq.write_table(table, path, compression="zstd", compression_level=19)


def read(name: str) -> list[Call]:
    """Return the calls of a series, in their order."""
    rows: list[dict[str, Any]] = pq.read_table(FOLDER / f"{name}.parquet").to_pylist()
    calls: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        calls.setdefault(row["call"], []).append(row)
    return [
        Call(
            some[0]["step"],
            some[0]["time_ms"],
            tuple(one["key"] for one in some),
            tuple(one["value"] for one in some),
        )
        for some in calls.values()
    ]
