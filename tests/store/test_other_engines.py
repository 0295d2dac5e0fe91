"""Engines that know nothing of expdb read the sealed points of a store by the Hive glob alone.

Right everywhere: every bit of a value, the true names of experiments, ids and names as text however
much they look like numbers, and rows of NaN that no filter prunes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.parts import Column
from expdb.store.seal import seal

GLOB = "exp=*/run=*/points/part-*.parquet"
RUNS = {"e100000000": "007", "k3f9x2m7qd": "a b/é", "nan0000000": "1e5"}
"""Run -> experiment; each looks like something else."""
VALUES = [1.5, math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.0]
FIELDS = {"key", "step", "time", "value", "attempt", "rank", "seq", "exp", "run"}
Row = tuple[str, str, str, int, bytes]


def bits(value: float) -> bytes:
    return b"nan" if math.isnan(value) else struct.pack("<d", value)


def wanted(runs: dict[str, str] = RUNS) -> list[Row]:
    """(experiment, run, key, step, bits) of every point."""
    return sorted(
        (experiment, run, key, step, bits(value))
        for run, experiment in runs.items()
        for key in ("train/loss", "Loss")
        for step, value in enumerate(VALUES)
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three runs with two parts each, beside files that are no part."""
    root = tmp_path_factory.mktemp("engines") / "runs"
    count = len(VALUES)
    for run, experiment in RUNS.items():
        layout = RunLayout(StoreLayout(root).run_dir(experiment, run))
        layout.attempt(1).mkdir(parents=True)
        for number, key in enumerate(("train/loss", "Loss")):
            first = 1 + number * count
            steps = np.arange(count, dtype=np.int64)
            column = Column(steps, steps * 1000, np.array(VALUES), steps + first)
            seal(layout, attempt=1, rank=0, columns={key: column}, first_seq=first,
                 last_seq=first + count - 1, journals=())  # fmt: skip
        (layout.points / ".tmp-part-a1-r0-99-100.parquet").write_bytes(b"half")
    assert len(list(root.glob(GLOB))) == 2 * len(RUNS)
    return root


def of_table(table: pa.Table) -> list[Row]:
    assert set(table.column_names) == FIELDS
    for name in ("exp", "run", "key"):
        kind = table.schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        assert pa.types.is_string(kind) or pa.types.is_large_string(kind), (name, kind)
    assert pa.types.is_float64(table.schema.field("value").type)
    rows = table.select(["exp", "run", "key", "step", "value"]).to_pylist()
    return sorted((r["exp"], r["run"], r["key"], r["step"], bits(r["value"])) for r in rows)


def by_duckdb(root: Path, where: str) -> pa.Table:
    source = (
        f"read_parquet('{root}/{GLOB}', hive_partitioning=true,"
        " hive_types={'exp': VARCHAR, 'run': VARCHAR})"
    )
    with duckdb.connect() as con:
        return con.sql(f"SELECT * FROM {source} WHERE {where}").to_arrow_table()


def by_pyarrow(root: Path, where: str) -> pa.Table:
    """A folder holds more than points, so the files are found by the glob and given by name."""
    kinds = pa.schema([("exp", pa.string()), ("run", pa.string())])
    dataset = ds.dataset(
        [str(path) for path in sorted(root.glob(GLOB))],
        partitioning=ds.HivePartitioning(kinds),
        partition_base_dir=str(root),
    )
    found = {
        "true": None,
        "isnan(value)": pc.is_nan(ds.field("value")),
        "value > 1": ds.field("value") > 1,
        "exp = '007'": ds.field("exp") == "007",
        "run = 'e100000000'": ds.field("run") == "e100000000",
    }
    return dataset.to_table(filter=found[where])


def by_polars(root: Path, where: str) -> pa.Table:
    pl = pytest.importorskip("polars")
    frame = pl.scan_parquet(
        f"{root}/{GLOB}",
        hive_partitioning=True,
        hive_schema={"exp": pl.String, "run": pl.String},
    )
    found = {
        "true": pl.lit(True),
        "isnan(value)": pl.col("value").is_nan(),
        "value > 1": pl.col("value") > 1,
        "exp = '007'": pl.col("exp") == "007",
        "run = 'e100000000'": pl.col("run") == "e100000000",
    }
    return frame.filter(found[where]).collect().to_arrow()


ENGINES = pytest.mark.parametrize("read", [by_duckdb, by_pyarrow, by_polars])
Read = Callable[[Path, str], pa.Table]


@ENGINES
def test_every_point_with_its_bits_and_true_names(root: Path, read: Read) -> None:
    assert of_table(read(root, "true")) == wanted()


@ENGINES
def test_rows_of_nan_are_not_pruned(root: Path, read: Read) -> None:
    found = of_table(read(root, "isnan(value)"))
    assert found == [row for row in wanted() if row[4] == b"nan"]
    assert len(found) == 2 * len(RUNS)


@ENGINES
def test_a_comparison_finds_infinity(root: Path, read: Read) -> None:
    """NaN is above all numbers for some engines and not for others."""
    found = [row for row in of_table(read(root, "value > 1")) if row[4] != b"nan"]
    assert found == [row for row in wanted() if row[4] in (bits(1.5), bits(math.inf))]


@ENGINES
@pytest.mark.parametrize("where", ["exp = '007'", "run = 'e100000000'"])
def test_names_are_text_and_select_their_folders(root: Path, read: Read, where: str) -> None:
    assert of_table(read(root, where)) == wanted({"e100000000": "007"})
