from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"
BY_LR = (
    "select r.experiment, p.number as lr, r.value, r.value_step as step from runs r join params p"
    " on p.run = r.id and p.key = 'optim.lr' where r.state = 'finished' and r.experiment <> "
    "'hostile' order by r.value, r.seed"
)


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("EXPDB_UPDATE_GOLDEN") == "1":
        path.write_bytes(text.encode())
    assert text == path.read_bytes().decode()


def test_a_table_in_a_pipe(here):
    done = here("sql", BY_LR)
    assert (done.code, done.err) == (0, "")
    golden("sql-pipe.txt", done.out)


def test_json_has_columns_and_rows(here):
    done = here("sql", BY_LR, "--json")
    golden("sql.json", done.out)
    nan = here(
        "sql", "select 'NaN'::double as a, 'inf'::double as b, null as c, [1] as d", "--json"
    )
    assert json.loads(nan.out)["rows"] == [["NaN", "Infinity", None, [1]]]


def test_other_forms(here):
    statement = "select step, value, key from points where key = 'val/loss' order by value limit 2"
    assert here("sql", statement, "--csv").out == (
        "step,value,key\n20,1.848,val/loss\n20,1.849,val/loss\n"
    )
    lines = here("sql", statement, "--jsonl").out.splitlines()
    assert json.loads(lines[0]) == {"step": 20, "value": 1.848, "key": "val/loss"}
    assert here("sql", statement, "--md").out.splitlines()[:3] == [
        "| step | value | key |",
        "| ---: | ---: | --- |",
        "| 20 | 1.848 | val/loss |",
    ]
    twice = here("sql", "select 1 as a, 2 as a", "--jsonl")
    assert json.loads(twice.out) == {"a": 1, "a_1": 2}


def test_parquet_is_written_once_and_never_into_the_store(mine, own_lab):
    pq = pytest.importorskip("pyarrow.parquet")
    done = mine("sql", "select id, value from runs", "--parquet", "out.parquet")
    assert (done.code, done.out) == (0, "")
    assert "wrote 8 rows to out.parquet" in done.err
    assert pq.read_table(own_lab.top / "out.parquet").num_rows == 8
    again = mine("sql", "select 1", "--parquet", "out.parquet")
    assert again.code == 4
    assert "out.parquet is there already" in again.err
    assert mine("sql", "select 1", "--parquet", "out.parquet", "--force").code == 0
    assert pq.read_table(own_lab.top / "out.parquet").num_rows == 1
    inside = mine("sql", "select 1", "--parquet", "runs/x.parquet")
    assert inside.code == 4
    assert "lies in the store" in inside.err
    (own_lab.top / "link").symlink_to(own_lab.top / "runs", target_is_directory=True)
    assert mine("sql", "select 1", "--parquet", "link/x.parquet").code == 4
    assert mine("sql", "select 1", "--parquet", "no/x.parquet").code == 2
    assert not list((own_lab.top / "runs").glob("*.parquet"))


def test_rows_are_limited_with_a_hint(here):
    done = here("sql", "from range(1000)")
    assert len(done.out.splitlines()) == 201
    assert "hint: the first 200 rows; more: -n 1000" in done.err
    assert len(here("sql", "from range(1000)", "--csv").out.splitlines()) == 1001
    assert len(here("sql", "from range(1000)", "--csv", "-n", "5").out.splitlines()) == 6
    whole = here("sql", "from range(200)")
    assert (len(whole.out.splitlines()), whole.err) == (201, "")
    assert here("sql", "select 1 where false").err == "no rows\n"


def test_columns_that_do_not_fit_are_counted(here):
    done = here("sql", "from runs")
    assert max(map(len, done.out.splitlines())) <= 100
    assert "columns do not fit; all: --csv or --json" in done.err


def test_a_statement_from_stdin(lab):
    done = lab.run("sql", "-", "--csv", stdin="select count(*) as n\nfrom runs;\n")
    assert (done.code, done.out) == (0, "n\n8\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("selct 1",), 'error: syntax error at or near "selct"\n         LINE 1: selct 1\n'),
        (("copy runs to 'x.csv'",), "error: COPY is refused: sql only reads\n"),
        (("from read_text('/etc/passwd')",), "error: the table function read_text is refused"),
        (("select 1", "--csv", "--json"), "are two kinds of output: take one"),
    ],
)
def test_errors_are_a_line_and_nothing_is_printed(here, args, said):
    done = here("sql", *args)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_hostile_names_are_text(here):
    done = here("sql", "select experiment from runs where experiment like '%evil'")
    assert "\\x1b[31m[red]\\u202eevil" in done.out
    assert "\x1b" not in done.out
    as_json = here("sql", "select experiment from runs where experiment like '%evil'", "--json")
    assert json.loads(as_json.out)["rows"] == [["\x1b[31m[red]\u202eevil"]]


def test_python_asks_the_same(lab, monkeypatch):
    import expdb
    from expdb.errors import BadInput

    store = expdb.open(str(lab.top / "runs"))
    found = store.sql("select value from runs where experiment = ? and seed = $2", ["baseline", 0])
    assert found.to_pylist() == [{"value": 1.848}]
    with pytest.raises(BadInput, match="is refused"):
        store.sql("install httpfs")


def test_times_that_python_does_not_have_are_text(here):
    statement = "select date 'infinity' as a, timestamp_ns '2020-01-01 00:00:00.123456789' as b"
    done = here("sql", statement, "--json")
    assert done.code == 0
    assert json.loads(done.out)["rows"] == [["infinity", "2020-01-01T00:00:00.123456789"]]


@pytest.mark.parametrize("words", [("ls",), ("log",), ("rank",), ("sql", "select 1")])
def test_more_rows_than_64_bits_count_are_refused(here, words):
    done = here(*words, "-n", str(10**20))
    assert (done.code, done.out) == (2, "")
