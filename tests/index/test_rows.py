from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from expdb.errors import Corrupt
from expdb.index import connect
from expdb.index.rows import rows_of
from expdb.index.schema import COLUMNS
from expdb.model import Attempt, Checkpoint, Eval, Event, Pin, Series
from tests.query.made import make_run, series


def full_run() -> object:
    return make_run(
        "k3f9x2m7qd",
        experiment="exp01",
        variant="+optim.lr=0.005",
        seed=2**64 - 1,
        points={"val/loss": {0: 5.5, 100: math.nan, 300: 1.848}, "eval/cloze/acc": {300: 0.46}},
        config={"a": {"i": 1, "f": 0.5, "t": "x", "n": None, "b": True, "l": [1, "y"], "m": {}}},
        attempts=(Attempt(number=1, pin=Pin(tree="t" * 40, used={"train.py": "b" * 40})),),
        checkpoints=(),
        evals=(
            Eval(id="e1", task="cloze", step=300, metrics={"acc": 0.46}, n=400, items_digest="i"),
        ),
        events=(Event(step=112, severity="warn", rule="grad_spike", message="z 7.1"),),
        labels=("keep",),
    )


def as_dicts(table: str, rows: list[tuple[object, ...]]) -> list[dict[str, object]]:
    return [dict(zip(COLUMNS[table], row, strict=True)) for row in rows]


def test_every_row_has_the_columns_of_the_schema() -> None:
    tables = rows_of(full_run())
    assert set(tables) == set(COLUMNS)
    for name, rows in tables.items():
        assert all(len(row) == len(COLUMNS[name]) for row in rows), name


def test_both_ways_of_inserting_give_the_same_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = rows_of(full_run())
    found = []
    for bound in (10**6, 0):  # bound parameters; Arrow
        monkeypatch.setattr(connect, "MAX_BOUND", bound)
        con = connect.open_memory()
        connect.create_schema(con)
        connect.insert(con, tables, prefix="gen.")
        found.append(
            {name: repr(con.execute(f"SELECT * FROM gen.{name}").fetchall()) for name in COLUMNS}
        )
        con.close()
    assert found[0] == found[1]
    assert "18446744073709551615" in found[0]["runs"]


def test_config_values_keep_their_kind_and_numbers_stand_apart() -> None:
    rows = {row["key"]: row for row in as_dicts("params", rows_of(full_run())["params"])}
    found = {key: (row["kind"], row["text"], row["number"]) for key, row in rows.items()}
    assert found == {
        "a.i": ("int", "1", 1.0),
        "a.f": ("float", "0.5", 0.5),
        "a.t": ("text", "x", None),
        "a.n": ("null", "null", None),
        "a.b": ("bool", "true", None),
        "a.l": ("list", '[1, "y"]', None),
        "a.m": ("map", "{}", None),
    }


def test_a_series_keeps_the_reading_of_an_objective_and_its_non_finite_points() -> None:
    found = as_dicts("series", rows_of(full_run())["series"])
    loss = next(row for row in found if row["key"] == "val/loss")
    assert (loss["nonfinite"], loss["min"], loss["last"], loss["nonfinite_step"]) == (
        1,
        1.848,
        1.848,
        None,
    )
    assert math.isnan(loss["mean_last_3"])


def test_layer_keys_are_left_out_only_when_there_are_many() -> None:
    layers = {f"layer/{at}/norm": series(f"layer/{at}/norm", {0: 1.0}) for at in range(99)}
    few = make_run(
        "k3f9x2m7qd", value=1.0, series={**layers, "val/loss": series("val/loss", {0: 1.0})}
    )
    assert len(rows_of(few)["series"]) == 100
    many = make_run(
        "k3f9x2m7qd", series={**few.series, "train/loss": series("train/loss", {0: 1.0})}
    )
    assert {row[1] for row in rows_of(many)["series"]} == {"val/loss", "train/loss"}


def test_numbers_that_fit_no_column_do_not_keep_a_run_out() -> None:
    odd = Series(
        key="val/loss", count=1, nonfinite=0, first_step=0, first=1.0, last_step=2**70, last=1.0
    )
    run = make_run(
        "k3f9x2m7qd",
        series={"val/loss": odd},
        max_steps=2**80,
        config={"big": 10**400},
    )
    con = connect.open_memory()
    connect.create_schema(con)
    connect.insert(con, rows_of(run), prefix="gen.")
    assert con.execute("SELECT max_steps FROM gen.runs").fetchall() == [(None,)]
    assert con.execute("SELECT kind, number FROM gen.params").fetchall() == [("int", None)]


@pytest.mark.parametrize("bound", [10**6, 0])
def test_odd_names_are_kept_or_replaced_sign_by_sign(
    bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "MAX_BOUND", bound)
    runs = [
        make_run("k3f9x2m7qd", experiment="日本語 🧪", value=1.0),
        make_run("m8c2v5tq1n", experiment="a\0b'\"; DROP TABLE runs", value=1.0),
        make_run("p2x7d9wk4h", experiment="half \ud83e", value=1.0),
    ]
    con = connect.open_memory()
    connect.create_schema(con)
    for run in runs:
        connect.insert(con, rows_of(run), prefix="gen.")
    found = dict(con.execute("SELECT id, experiment FROM gen.runs").fetchall())
    assert found == {
        "k3f9x2m7qd": "日本語 🧪",
        "m8c2v5tq1n": "a\0b'\"; DROP TABLE runs",
        "p2x7d9wk4h": "half ?",
    }


def test_a_config_that_is_no_json_is_named() -> None:
    with pytest.raises(Corrupt, match="config in run"):
        rows_of(make_run("k3f9x2m7qd", canonical="{"))


def test_checkpoints_and_their_files_are_listed() -> None:
    kept = Checkpoint(
        step=300, bytes=12, complete=True, files={"model.pt": {"bytes": 12, "sha256": "ab"}}
    )
    tables = rows_of(replace(make_run("k3f9x2m7qd"), checkpoints=(kept,)))
    assert as_dicts("files", tables["files"]) == [
        {"run": "k3f9x2m7qd", "path": "checkpoints/step=300/model.pt", "bytes": 12, "sha256": "ab"}
    ]
    assert as_dicts("checkpoints", tables["checkpoints"])[0]["complete"] is True


def test_settings_are_json() -> None:
    row = as_dicts(
        "runs", rows_of(make_run("k3f9x2m7qd", settings={"noise": {"val/loss": math.inf}}))["runs"]
    )[0]
    assert json.loads(str(row["settings"])) == {"noise": {"val/loss": "Infinity"}}
