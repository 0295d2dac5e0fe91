from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from expdb.errors import BadInput
from expdb.index.reader import Reader, open_reader
from expdb.model import RunState
from expdb.query.sql import answer
from expdb.store.layout import RunLayout
from expdb.store.recorder import Recorder
from expdb.store.store import Store
from tests.query.made import make_run, make_store, write_run

NAN = float("nan")


@pytest.fixture(scope="module")
def cast(cast_store: Store) -> Iterator[Reader]:
    """One reader for all tests here: none of them changes anything."""
    with open_reader(cast_store) as reader:
        yield reader


def ask(reader: Reader, statement: str, params=(), **more):
    return [tuple(row.values()) for row in answer(reader, statement, params, **more).to_pylist()]


def log(folder: Path, run: str, steps: dict[int, float], *, close: bool, attempt: int = 1):
    recorder = Recorder(RunLayout(folder), run=run, attempt=attempt)
    for step, value in steps.items():
        recorder.write(("train/loss",), (value,), step, 1_000 + step)
    if close:
        recorder.close()
    return recorder


def test_the_tables_are_those_of_the_index(cast):
    tables = {row[0] for row in ask(cast, "show tables")}
    assert tables == {
        "runs", "params", "series", "attempts", "files", "checkpoints", "evals", "events",
        "used_files", "refs", "points", "texts", "hists", "tables", "images",
    }  # fmt: skip
    assert ask(cast, "select count(*) from runs") == [(15,)]
    assert ask(cast, "select name, run from refs") == [("baseline", "k3f9x2m7qd")]
    sql = "select distinct text from params where key = 'optim.lr' order by all"
    assert ask(cast, sql) == [("0.003",), ("0.005",), ("0.01",)]
    assert ask(cast, "select rule, step from events") == [("grad_spike", 112)]
    assert ask(cast, "select metric, value from evals where run = ?", ["k3f9x2m7qd"]) == [
        ("acc", 0.46)
    ]


def test_no_machine_is_named(cast):
    columns = {row[0] for row in ask(cast, "select column_name from information_schema.columns")}
    assert not columns & {"host", "version", "work_tree"}
    assert {"study", "labels", "seed"} <= columns


def test_seeds_and_sums_are_whole_numbers(cast):
    found = answer(cast, "select seed, sum(seed) over () from runs where id = 'f0n6k8y5wj'")
    assert [str(kind) for kind in found.schema.types] == ["int64", "int64"]
    assert found.to_pylist() == [{"seed": 2, found.column_names[1]: 2}]


def test_points_have_the_run_and_its_true_experiment(cast):
    sql = "select run, experiment, key, step, time, value, attempt, rank from points order by all"
    rows = ask(cast, sql)
    assert len(rows) == 9
    assert rows[0] == ("a9m4y7h3pq", "exp06_moe", "val/loss", 0, 0, 5.5, 1, 0)
    assert rows[-1] == ("k3f9x2m7qd", "baseline", "val/loss", 300, 30_000, 1.848, 1, 0)


def test_every_value_comes_back_and_nan_is_found_by_predicates(store):
    values = {0: 1.0, 1: 2.0, 2: NAN, 3: math.inf, 4: -0.0, 5: 5e-324, 6: -math.inf}
    run = make_run("k0000000aa", points={"x": values})
    write_run(store, run, points={"x": values})
    with open_reader(store) as reader:
        assert repr([v for (v,) in ask(reader, "select value from points order by step")]) == repr(
            list(values.values())
        )
        assert ask(reader, "select step from points where isnan(value)") == [(2,)]
        assert ask(reader, "select step from points where value > 100 order by all") == [(2,), (3,)]
        assert ask(reader, "select count(*) from points where value <= 3") == [(5,)]
        finite = "select max(value), count(*) from points where isfinite(value)"
        assert ask(reader, finite) == [(2.0, 4)]


def test_points_of_a_live_run_are_there_before_they_are_sealed(store):
    run = make_run("k0000000aa", state=RunState.RUNNING)
    folder = write_run(store, run, old=False)
    recorder = log(folder, run.id, {1: 0.5, 2: 0.25}, close=False)
    try:
        with open_reader(store) as reader:
            found = ask(reader, "select step, value, time from points order by step")
        assert found == [(1, 0.5, 1001), (2, 0.25, 1002)]
    finally:
        recorder.close()


def test_superseded_points_are_hidden(store):
    from expdb.model import Attempt, Pin

    attempts = (
        Attempt(number=1, pin=Pin()),
        Attempt(number=2, pin=Pin(), resumed_from=10),
    )
    run = make_run("k0000000aa", attempts=attempts)
    folder = write_run(store, run)
    log(folder, run.id, {10: 1.0, 20: 2.0, 30: 3.0}, close=True)
    log(folder, run.id, {20: 20.0}, close=True, attempt=2)
    with open_reader(store) as reader:
        found = ask(reader, "select step, value, attempt from points order by all")
    assert found == [(10, 1.0, 1), (20, 20.0, 2)]


def test_a_step_logged_twice_is_one_point(store):
    run = make_run("k0000000aa")
    folder = write_run(store, run)
    recorder = Recorder(RunLayout(folder), run=run.id, attempt=1)
    for value in (1.0, 2.0):
        recorder.write(("x",), (value,), 7, 1)
    recorder.close()
    with open_reader(store) as reader:
        assert ask(reader, "select step, value from points") == [(7, 2.0)]


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A store of two runs; the part of the second one is damaged."""
    store = make_store(tmp_path_factory.mktemp("spoilt") / "runs")
    for number, experiment in enumerate(("good", "bad")):
        points = {"x": {1: 1.0, 2: 2.0}}
        run = make_run(f"k{number:09d}", experiment=experiment, points=points)
        folder = write_run(store, run, points=points)
        if experiment == "bad":
            part = next((folder / "points").iterdir())
            part.write_bytes(part.read_bytes()[:-9])
    with open_reader(store) as reader:
        yield reader


@pytest.mark.parametrize(
    ("statement", "params"),
    [
        ("select count(*) from points where run = 'k000000000'", ()),
        ("select count(*) from points p where p.run in ('k000000000', 'nope') and step > 0", ()),
        ("select count(*) from POINTS where 'good' = experiment", ()),
        ("select count(*) from points where run = ?", ["k000000000"]),
        ("select count(*) from points where run = $run", {"run": "k000000000"}),
        ("with p as (from points where run = 'k000000000') select count(*) from p", ()),
        (
            "select count(*) from runs r join points p on p.run = r.id where p.run = 'k000000000'",
            (),
        ),
    ],
)
def test_nothing_is_read_of_runs_that_are_not_asked_for(spoilt, statement, params):
    warnings: list[str] = []
    assert ask(spoilt, statement, params, warnings=warnings) == [(2,)]
    assert warnings == []


@pytest.mark.parametrize(
    "statement",
    [
        "select count(*) from points",
        "select count(*) from points where run <> 'k000000001'",
        "select count(*) from points where run = 'k000000000' or step = 1",
        "select count(*) from points a, points b where a.run = 'k000000000' and b.step = 1",
        "select count(*) from points p(key, run, step) where run = 'k000000000'",
        "select count(*) from points where not (run = 'k000000001')",
        "select count(*) from points where lower(run) = 'k000000000'",
        "select count(*) from (from points) where run = 'k000000000'",
    ],
)
def test_all_runs_are_looked_at_where_the_statement_leaves_it_open(spoilt, statement):
    warnings: list[str] = []
    ask(spoilt, statement, warnings=warnings)
    assert len(warnings) == 1
    assert "is damaged (k000000001)" in warnings[0]


def test_a_join_that_looks_at_neighbours_gets_all_rows(store):
    for number in range(2):
        points = {"x": {10 * number: 1.0}}
        run = make_run(f"k{number:09d}", points=points)
        write_run(store, run, points=points)
    sql = (
        "select p.run from (select 15 as at) a asof left join points p on a.at >= p.step"
        " where p.run = 'k000000000'"
    )
    with open_reader(store) as reader:
        assert ask(reader, sql) == []  # the nearest point is of the other run


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("select count(*) from {p} anti join points on {p}.key = points.key where run = 'a'", 0),
        ("select count(*) from {p} semi join points on {p}.key = points.key where run = 'a'", 1),
        ("select count(*) from {p} q left join points p using (run) where run = 'a'", 1),
        ("select count(*) from points p full join {p} q using (run) where run = 'a'", 1),
    ],
)
def test_a_filter_on_another_table_takes_no_points_away(cast, statement, found):
    own = "(select 'a' as run, 'val/loss' as key) q"
    said = statement.replace("from {p} q", f"from {own}").replace("join {p} q", f"join {own}")
    said = said.replace("from {p} ", f"from {own} ").replace("{p}.", "q.")
    assert ask(cast, said) == [(found,)]


def test_limit_keeps_the_order(cast):
    rows = ask(cast, "select step from points order by step desc", limit=3)
    assert rows == [(300,), (250,), (200,)]


def test_what_fails_is_one_line(cast):
    with pytest.raises(BadInput, match='referenced column "nope" not found') as caught:
        ask(cast, "select nope from runs")
    assert "\n" not in caught.value.message
    with pytest.raises(BadInput, match="syntax error") as caught:
        ask(cast, "select 1 frm runs x y")
    assert caught.value.details[0].startswith("LINE 1: select 1 frm")
    assert "^" in caught.value.details[1]
    with pytest.raises(BadInput, match=r"^could not convert string 'x'"):
        ask(cast, "select cast('x' as integer)")


def test_the_store_may_lie_anywhere(tmp_path: Path):
    root = tmp_path / "it's [a] *run=x" / "key=step"
    root.mkdir(parents=True)
    store = make_store(root / ".." / "key=step" / "runs")
    points = {"x": {1: 1.5}}
    run = make_run("k0000000aa", experiment="../../AC/DC %2F", points=points, path="")
    folder = write_run(store, run, points=points)
    assert folder.is_relative_to(store.root)
    with open_reader(store) as reader:
        assert ask(reader, "select run, experiment, key, value from points") == [
            ("k0000000aa", "../../AC/DC %2F", "x", 1.5)
        ]


def test_two_answers_at_once_do_not_lock_each_other(cast):
    found: list[object] = []

    def work() -> None:
        with open_reader(cast.store) as reader:
            found.append(ask(reader, "select count(*) from points"))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[(9,)]] * 3
    assert cast.rows("SELECT count(*) FROM runs") == [(15,)]


def test_ctrl_c_ends_a_statement(cast):
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.7, lambda: signal.pthread_kill(main, signal.SIGINT))
    # A test run in the background of a shell has SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ask(cast, "select sum(a.range * b.range % 7) from range(100000000) a, range(1000) b")
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_media_are_tables_too(store):
    import expdb

    with expdb.start({"a": 1}, name="base", store=str(store.root)) as run:
        run.log_text("sample", "one", step=3)
        run.log_text("sample", "two", step=6)
    with open_reader(store) as reader:
        sql = "select experiment, key, step, text from texts where run = ? order by step"
        assert ask(reader, sql, [run.id]) == [
            ("base", "sample", 3, "one"),
            ("base", "sample", 6, "two"),
        ]
        assert ask(reader, "select count(*) from texts where experiment = 'other'") == [(0,)]
        columns = {row[0]: row[1] for row in ask(reader, "describe hists")}
        assert columns["edges"] == "DOUBLE[]"
        assert {row[0]: row[1] for row in ask(reader, "describe images")}["image"] == "BLOB"
