"""Cases of the case log that are about logging: A04, A06, A10, A12, A14, by name."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import torch

import expdb
from expdb.digest import flatten
from expdb.errors import BadInput
from expdb.index.reader import open_reader
from expdb.query.rank import ranking
from expdb.query.select import Selection, selected
from expdb.store.artifacts import read_artifacts
from expdb.store.points import read_series
from expdb.store.runs import read_run, run_dirs
from expdb.store.store import open_store

pytestmark = pytest.mark.slow

QUIET = {"expdb": {"print": "quiet"}}


def begin(root: Path, config: Any = None, **more: Any) -> Any:
    return expdb.start({**QUIET, **(config or {})}, store=root, seed=0, **more)


def points(run: Any) -> dict[str, list[tuple[int, float]]]:
    """Key -> (step, value), by step."""
    table = read_series(run.dir)
    found: dict[str, list[tuple[int, float]]] = {}
    names = ("key", "step", "value")
    for key, step, value in zip(*(table[name].to_pylist() for name in names), strict=True):
        found.setdefault(key, []).append((step, value))
    return found


# --------------------------------------------------------------------------------------- A04


def a04_values() -> dict[str, tuple[Any, float | str]]:
    """Name -> (what is logged, the number that is read back or how it is refused)."""
    return {
        "bool": (True, 1.0),
        "numpy.float32": (np.float32(0.1), 0.10000000149011612),
        "numpy.int64": (np.int64(3), 3.0),
        "array 0-d": (np.array(0.25), 0.25),
        "tensor 1-d of 1": (torch.tensor([0.5]), 0.5),
        "tensor of 2": (torch.tensor([1.0, 2.0]), "Tensor of 2 elements"),
        "bf16 0-d": (torch.tensor(1.0, dtype=torch.bfloat16), 1.0),
        "float16 0-d": (torch.tensor(0.5, dtype=torch.float16), 0.5),
        "needs grad": (torch.tensor(2.0, requires_grad=True) * 3, 6.0),
        "None": (None, "None"),
        "text": ("0.5", "the text '0.5'"),
        "Decimal": (Decimal("0.1"), "decimal.Decimal"),
    }


@pytest.mark.parametrize("how", ["run", "attached"])
def test_case_a04_types_have_one_answer_in_every_call(tmp_path: Path, how: str) -> None:
    run = begin(tmp_path, name="a04")
    target = run if how == "run" else expdb.attach(run.id, store=tmp_path)
    values = a04_values()
    good = {name: number for name, (_, number) in values.items() if isinstance(number, float)}
    refused = {name: words for name, (_, words) in values.items() if isinstance(words, str)}
    for name, (value, expected) in values.items():
        if isinstance(expected, str):
            with pytest.raises(BadInput) as caught:
                target.log({name: value}, step=1)
            assert caught.value.message == f"{name} at step 1 is {expected}, not a number"
        else:
            target.log({name: value}, step=1)
    with pytest.raises(BadInput) as caught:
        target.log({name: value for name, (value, _) in values.items()}, step=2)
    assert caught.value.message == "; ".join(
        f"{name} at step 2 is {words}, not a number" for name, words in refused.items()
    )
    target.log({"after": 1.0}, step=3)
    wanted = {name: [(1, value), (2, value)] for name, value in good.items()}
    assert points(run) == {**wanted, "after": [(3, 1.0)]}
    target.finish()
    run.finish()
    assert points(run) == {**wanted, "after": [(3, 1.0)]}
    record = expdb.open(tmp_path).run(run.id).record
    assert {key: item.last for key, item in record.series.items()} == {**good, "after": 1.0}


# --------------------------------------------------------------------------------------- A06


def test_case_a06_a_metric_logged_later_at_earlier_steps_is_kept(tmp_path: Path) -> None:
    with begin(tmp_path, name="a06") as run:
        for step in range(5):
            run.log({"metric_a": step / 10}, step=step)
    with expdb.attach("a06", store=tmp_path) as second:
        for step in range(5):
            second.log({"metric_b": float(step)}, step=step)
        second.log({"metric_b": 22.0}, step=2)
        second.log({"metric_a": 0.5}, step=5)
    assert points(run) == {
        "metric_a": [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4), (5, 0.5)],
        "metric_b": [(0, 0.0), (1, 1.0), (2, 22.0), (3, 3.0), (4, 4.0)],
    }
    record = expdb.open(tmp_path).run("a06").record
    assert {key: (item.count, item.last_step) for key, item in record.series.items()} == {
        "metric_a": (6, 5),
        "metric_b": (5, 4),
    }
    assert (record.num_dropped, record.problems, record.state) == (0, (), "finished")


def test_case_a06_one_process_may_go_back_in_steps(tmp_path: Path) -> None:
    with begin(tmp_path, name="a06") as run:
        for step in (0, 1, 2, 3, 4):
            run.log({"metric_a": float(step)}, step=step)
        for step in (0, 1, 2, 3, 4, 2):
            run.log({"metric_b": float(step)}, step=step)
        run.log({"metric_a": 5.0}, step=5)
    record = read_run(run.dir, store_root=tmp_path)
    assert {key: item.count for key, item in record.series.items()} == {
        "metric_a": 6,
        "metric_b": 5,
    }


# --------------------------------------------------------------------------------------- A10

NAMES = [
    "train/loss", "train//loss", "/lead", "trail/", "val/AR@100", "0_iou:recall",
    "huber[delta=1.3]", "a b", "loss", "loss/train", ".hidden", "n" * 300, "\U0001f600", "损失",
    "x' OR 1=1 --", 'a"b',
]  # fmt: skip


def test_case_a10_every_metric_name_comes_back_byte_for_byte(tmp_path: Path) -> None:
    with begin(tmp_path, name="a10") as run:
        run.log({name: float(at) for at, name in enumerate(NAMES)}, step=1)
        with pytest.raises(BadInput, match="a metric name is empty"):
            run.log({"": 1.0, "kept": 1.0}, step=1)
        for name in NAMES:
            run.log_text(name, name)
    wanted = {name: [(1, float(at))] for at, name in enumerate(NAMES)}
    assert points(run) == {**wanted, "kept": [(1, 1.0)]}
    store = expdb.open(tmp_path)
    record = store.run("a10").record
    assert set(record.series) == {*NAMES, "kept"}
    assert store.series(NAMES[-2], runs=["a10"])["value"].to_pylist() == [len(NAMES) - 2]
    with open_reader(open_store(tmp_path)) as reader:
        for name in NAMES[::3]:
            assert [row.id for row in ranking(reader, name).rows] == [run.id]
    query = f"SELECT DISTINCT key FROM '{tmp_path}/exp=*/run=*/points/part-*.parquet'"
    assert {key for (key,) in duckdb.sql(query).fetchall()} == {*NAMES, "kept"}


# --------------------------------------------------------------------------------------- A12

PATHS = [
    "AC/DC", "a=b", "100%", "a%2Fb", "a/b", "a b", "..", "../../outside", "con", "n" * 255, "dot.",
    "space ",
]  # fmt: skip


def test_case_a12_names_with_separators_stay_inside_the_store(tmp_path: Path) -> None:
    top = tmp_path / "top"
    root = top / "in" / "runs"
    root.parent.mkdir(parents=True)
    given = tmp_path / "given.txt"
    given.write_text("content")
    runs = {}
    for name in PATHS:
        with begin(root, {"expdb": {"print": "quiet", "study": name}}, name=name) as run:
            run.log({"x": 1.0}, step=1)
            for other in PATHS if name == PATHS[0] else ():
                run.artifact(given, name=other)
        runs[name] = run
    outside = {path for path in tmp_path.rglob("*") if path.is_file()} - set(root.rglob("*"))
    assert outside == {given}
    for name, run in runs.items():
        assert run.dir.resolve().parent.parent == root
        record = read_run(run.dir, store_root=root)
        assert (record.experiment, record.study) == (name, name)
    with open_reader(open_store(root)) as reader:
        for name, run in ((name, runs[name]) for name in ("a b", "a%2Fb", "..")):
            for field in ("experiment", "study"):
                found = selected(reader, Selection(where=f"{field} = '{name}'"), now_ms=0)
                assert found == [run.id]
    first = runs[PATHS[0]]
    artifacts = read_artifacts(first.layout, [])
    assert [item.name for item in artifacts] == PATHS
    paths = [(first.dir / item.path).resolve() for item in artifacts]
    assert len(set(paths)) == len(PATHS)
    assert {path.parent for path in paths} == {first.dir / "artifacts"}
    assert {path.read_text() for path in paths} == {"content"}
    names = {path.parent.name for _, path, _ in run_dirs(root)}
    assert {"exp=a%2Fb", "exp=a%252%46b", "exp=a%20b"} <= names
    # Any engine reads the folders as Hive keys; the true name is in run.json.
    query = f"SELECT count(DISTINCT exp) FROM '{root}/exp=*/run=*/points/part-*.parquet'"
    assert duckdb.sql(query).fetchall() == [(len(PATHS),)]


# --------------------------------------------------------------------------------------- A14


def nested(depth: int) -> Any:
    return {"deep": nested(depth - 1)} if depth else "bottom"


def a14_params() -> dict[str, Any]:
    return {
        "floats": [at / 7 for at in range(45)],
        "long": "word " * 2400,
        "nested": nested(8),
        "empty": "",
        "k" * 600: 1.5,
        "bad": object(),
        "many": {f"key{at:04}": at for at in range(5000)},
    }


def test_case_a14_params_of_any_size_are_stored_whole(tmp_path: Path) -> None:
    params = a14_params()
    singly = {}
    for name in set(params) - {"many"}:  # each by itself; the many are one case of their own
        with begin(tmp_path, {name: params[name]}, name="one") as run:
            pass
        singly.update(flatten(read_run(run.dir, store_root=tmp_path).canonical))
    with begin(tmp_path, params, name="all") as run:
        run.log({"x": 1.0}, step=1)
    record = read_run(run.dir, store_root=tmp_path)
    flat = flatten(record.canonical)
    assert {key: flat[key] for key in singly} == singly
    assert flat["floats"] == params["floats"]
    assert flat["long"] == "word " * 2400
    assert flat["nested." + ".".join(["deep"] * 8)] == "bottom"
    assert flat["empty"] == ""
    assert flat["k" * 600] == 1.5
    assert {key: flat[f"many.{key}"] for key in params["many"]} == params["many"]
    # What no file can hold is marked, and stops nothing.
    assert str(flat["bad"]) == "builtins.object"
    assert points(run) == {"x": [(1, 1.0)]}
    with open_reader(open_store(tmp_path)) as reader:
        query = "SELECT key, text FROM params WHERE run = ? AND NOT starts_with(key, 'many.')"
        rows = dict(reader.rows(query, [run.id]))
        assert rows["long"] == "word " * 2400
        assert rows["empty"] == ""
        query = "SELECT count(*) FROM params WHERE run = ? AND starts_with(key, 'many.')"
        assert reader.rows(query, [run.id]) == [(5000,)]
