from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from expdb.errors import BadInput
from expdb.index.reader import Reader, open_reader
from expdb.query.sql import answer
from expdb.store.store import Store
from tests.query.made import make_run, write_run


@pytest.fixture(scope="module")
def cast(cast_store: Store) -> Iterator[Reader]:
    """One reader for all tests here: none of them changes anything."""
    with open_reader(cast_store) as reader:
        yield reader


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("copy (select 1) to 'out.csv'", "COPY is refused"),
        ("copy runs from 'in.csv'", "COPY is refused"),
        ("attach 'other.db'", "ATTACH is refused"),
        ("install httpfs", "INSTALL or LOAD is refused"),
        ("load httpfs", "INSTALL or LOAD is refused"),
        ("set threads = 1", "SET is refused"),
        ("reset lock_configuration", "SET is refused"),
        ("call enable_logging()", "CALL is refused"),
        ("pragma enable_profiling", "PRAGMA is refused"),
        ("explain analyze select 1", "EXPLAIN is refused"),
        ("create table x (a integer)", "CREATE is refused"),
        ("create secret (type s3)", "is refused"),
        ("insert into runs values (1)", "INSERT is refused"),
        ("delete from runs", "DELETE is refused"),
        ("drop view points", "DROP is refused"),
        ("export database 'x'", "EXPORT is refused"),
        ("prepare a as select 1", "PREPARE is refused"),
        ("vacuum", "VACUUM is refused"),
        ("pivot runs on id", "is refused|one statement"),
        ("with gone as (delete from runs returning *) select * from gone", "refused|SELECT"),
        ("with new as (insert into refs values (1) returning *) from new", "refused|SELECT"),
        ("select 1; select 2", "there are 2"),
        ("select 1; drop table runs", "there are 2"),
        ("", "there are none"),
        ("-- nothing", "there are none"),
        ("selct 1", "syntax error"),
    ],
)
def test_only_one_select_may_run(cast, statement, said):
    with pytest.raises(BadInput, match=said):
        answer(cast, statement)
    assert cast.rows("SELECT count(*) FROM runs") == [(15,)]


@pytest.mark.parametrize(
    "call",
    [
        "read_csv('{file}')",
        "read_text('{file}')",
        "read_blob('{file}')",
        "read_json('{file}')",
        "read_parquet('{file}')",
        "parquet_metadata('{file}')",
        "sniff_csv('{file}')",
        "glob('/etc/*')",
        "query('select 1')",
        "query_table('runs')",
        "duckdb_secrets()",
        "duckdb_settings()",
        "which_secret('s3://x', 's3')",
        "enable_logging(storage = 'file', storage_path = '{folder}/log')",
        "enable_profiling(save_location = '{folder}/profile')",
        "json_execute_serialized_sql('x')",
        "pandas_scan(1)",
        "arrow_scan(1, 2, 3)",
    ],
)
def test_table_functions_that_leave_the_store_are_refused(cast, tmp_path, call):
    secret = tmp_path / "secret"
    secret.write_text("s3cr3t\n")
    call = call.format(file=secret, folder=tmp_path)
    with pytest.raises(BadInput, match=r"table function \w+ is refused"):
        answer(cast, f"from {call}")
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize(
    "statement",
    [
        "select (select count(*) from {})",
        "with a as (from {}) from a",
        "from runs where exists (from {})",
        "select 1 union all (select 2 from {})",
        "summarize from {}",
    ],
)
def test_a_table_function_is_found_wherever_it_stands(cast, statement):
    with pytest.raises(BadInput, match="table function read_text is refused"):
        answer(cast, statement.format("READ_TEXT('/etc/passwd')"))


@pytest.mark.parametrize(
    "statement",
    [
        "select * from '{file}'",
        "select * from '{file}.csv'",
        "select * from 'https://example.org/x.csv'",
        "select * from 's3://x/y.parquet'",
        "select getenv('HOME')",
        "select * from other",
        "select * from os",
        "select load_extension('x')",
    ],
)
def test_no_file_network_environment_or_variable_is_reached(cast, tmp_path, statement):
    other = {"a": [1, 2]}
    assert other
    assert os.environ["PATH"]
    secret = tmp_path / "secret"
    secret.write_text("a\n1\n")
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with pytest.raises(BadInput):
        answer(cast, statement.format(file=secret))


def test_a_part_can_be_read_and_not_written(store):
    points = {"x": {1: 1.0}}
    folder = write_run(store, make_run("k0000000aa", points=points), points=points)
    part = next((folder / "points").iterdir())
    before = part.read_bytes()
    with open_reader(store) as reader:
        assert answer(reader, "from points").num_rows == 1
        for statement in (
            f"copy (select 1) to '{part}'",
            f"copy points to '{part}' (format parquet)",
            f"from points; copy (select 1) to '{part}'",
        ):
            with pytest.raises(BadInput):
                answer(reader, statement)
    assert part.read_bytes() == before
    assert [path.name for path in part.parent.iterdir()] == [part.name]


def test_values_are_bound_and_never_text_of_the_statement(cast):
    hostile = "x' OR 1=1 --"
    found = answer(cast, "select count(*) as n from runs where experiment = ?", [hostile])
    assert found.to_pylist() == [{"n": 0}]


def test_what_is_deep_is_an_answer_or_refused(cast):
    deep = "select " + "(" * 3000 + "1" + ")" * 3000
    with suppress(BadInput):
        assert answer(cast, deep).num_rows == 1


@pytest.mark.parametrize(
    "statement",
    [
        "select 1;",
        "values (1)",
        "from runs",
        "table runs",
        "describe points",
        "summarize refs",
        "select * from range(3)",
        "select * from json_each('[1]')",
        "with recursive t(n) as (select 1 union all select n + 1 from t where n < 3) from t",
        "select * from series pivot (max(last) for key in ('val/loss'))",
        "select id from runs union select run from series",
        "select list_transform([1, 2], lambda x: x + 1)",
    ],
)
def test_what_only_reads_runs(cast, statement):
    assert answer(cast, statement).num_rows > 0


def test_it_leaves_nothing_in_the_folder(cast, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer(cast, "select * from points order by random()")
    assert list(tmp_path.iterdir()) == []


def test_a_proxy_of_the_environment_is_in_no_setting(cast, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://user:FAKE-PW@h:1")
    statement = "select count(*) from pg_catalog.pg_settings where setting like '%FAKE-PW%'"
    assert answer(cast, statement).to_pylist() == [{"count_star()": 0}]
    found = answer(cast, "select current_setting('http_proxy') as proxy").to_pylist()
    assert found == [{"proxy": ""}]
