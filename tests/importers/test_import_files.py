from __future__ import annotations

import gzip
import json
import math

import pytest

from expdb.errors import BadInput, Refused
from expdb.importers.config import assigned, split_name
from expdb.importers.found import Skipped, moment_ms, number, whole
from expdb.importers.lines import MAX_LINE
from expdb.model import Objective, RunState

LOG = """\
torch 2.13
step:0/4 val_loss:10.9 train_time:0ms step_avg:nanms
step:1/4 train_loss:10.5 train_time:5ms step_avg:nanms
step:2/4 train_loss:nan train_time:9ms step_avg:4.5ms
step:2/4
step:4/4 val_loss:8.5 train_time:20ms step_avg:5ms
done
"""


def test_a_log_becomes_a_finished_run(place, tmp_path):
    path = tmp_path / "train.log"
    path.write_text(LOG)
    found = place.take(path, experiment="base", objective="val/loss", config=["optim.lr=1e-3"])
    (made,) = found.runs
    assert (found.format, found.pattern) == ("log", "nanogpt")
    assert found.skipped == (Skipped("a line that the pattern does not read", 3, 1),)
    run = place.run(made.id)
    assert run.state is RunState.FINISHED
    assert (run.experiment, run.last_step, run.host) == ("base", 4, "")
    assert run.problems == ()
    assert run.objective == Objective(metric="val/loss")
    assert run.value() == (8.5, 4)
    assert json.loads(run.canonical) == {"optim": {"lr": 0.001}}
    assert (run.pin.commit, run.pin.reproducible) == (None, False)
    assert run.pin.reasons == ("imported from train.log",)
    assert run.created_at_ms == path.stat().st_mtime_ns // 1_000_000
    body = json.loads((place.root / run.path / "run.json").read_text())
    assert body["imported"] == {
        "source": "train.log", "sha256": found.sha256, "format": "log", "pattern": "nanogpt",
    }  # fmt: skip
    sql = "select step, value from points where run = ? and key = ? order by step"
    values = place.ask(sql, made.id, "train/loss")
    assert [step for step, _ in values] == [1, 2]
    assert math.isnan(values[1][1])
    assert place.ask(sql, made.id, "val/loss") == [(0, 10.9), (4, 8.5)]


def test_the_files_are_those_that_training_leaves(place, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("step,loss\n1,2.5\n")
    (made,) = place.take(path).runs
    folder = place.root / place.run(made.id).path
    names = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert names == {
        "run.json", "status.json", "series.json", "config.json", "attempts/1/pin.json",
        "attempts/1/rank-0.json", "points/part-a1-r0-1-1.parquet",
    }  # fmt: skip
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]


def test_a_second_import_finds_the_first(place, tmp_path):
    path = tmp_path / "train.log"
    path.write_text(LOG)
    (first,) = place.take(path).runs
    version = place.run(first.id).version
    copy = tmp_path / "same.txt"
    copy.write_text(LOG)
    (second,) = place.take(copy, experiment="another").runs
    assert (second.id, second.is_new, second.experiment) == (first.id, False, "train")
    assert place.run(first.id).version == version
    (third,) = place.take(path, pattern="pairs").runs
    assert third.is_new  # read in another way it is another run
    path.write_text(LOG + "step:5/5 val_loss:8 train_time:1ms step_avg:1ms\n")
    (fourth,) = place.take(path).runs
    assert fourth.is_new


def test_wide_csv(place, tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text(
        "epoch,step,train/loss,note,lr,big\n"
        "0,1,2.5,first,0.1,\n"
        "0,2,,second,inf,9007199254740993\n"
        "0,x,1.0,,,\n"
        '0,3,"1e-3",,-0.0,True\n'
    )
    found = place.take(path)
    (made,) = found.runs
    assert place.ask("select key, step, value from points where key <> 'epoch' order by all") == [
        ("big", 3, 1.0),
        ("lr", 1, 0.1),
        ("lr", 2, math.inf),
        ("lr", 3, -0.0),
        ("train/loss", 1, 2.5),
        ("train/loss", 3, 0.001),
    ]
    assert (made.experiment, made.first_step, made.last_step) == ("metrics", 1, 3)
    assert set(found.skipped) == {
        Skipped("a value is text", 2, 2),
        Skipped("a whole number beyond 2^53", 1, 3),
        Skipped("a step that is no whole number", 1, 4),
    }


def test_wide_csv_with_a_run_column_is_several_runs(place, tmp_path):
    path = tmp_path / "sweep.csv"
    path.write_text("run,step,loss\na,1,1.0\nb,1,2.0\na,2,0.5\n")
    found = place.take(path)
    assert [(run.experiment, run.num_points) for run in found.runs] == [("sweep", 2), ("sweep", 1)]
    assert not any(run.is_new for run in place.take(path).runs)


def test_other_separators_steps_and_times(place, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("\ufeffIter\ttimestamp\tloss\r\n5\t1700000000.5\t1.5\r\n")
    (made,) = place.take(path).runs
    assert place.ask("select key, step, time, value from points") == [
        ("loss", 5, 1_700_000_000_500, 1.5)
    ]
    assert place.run(made.id).created_at_ms == 1_700_000_000_500
    path = tmp_path / "b.csv"
    path.write_text("batch,time,loss\n1,0.25,3.0\n")
    with pytest.raises(BadInput, match="has no column step") as caught:
        place.take(path)
    assert "--step" in caught.value.hints[0]
    (made,) = place.take(path, step="batch").runs
    sql = "select key, value from points where run = ? order by all"
    assert place.ask(sql, made.id) == [("loss", 3.0), ("time", 0.25)]  # seconds a step, no moment


def test_long_csv(place, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("Metric,Step,Value\nloss,1,2.5\nacc,1,0.5\n,1,9\nloss,2,\n")
    found = place.take(path)
    assert place.ask("select key, step, value from points order by all") == [
        ("acc", 1, 0.5),
        ("loss", 1, 2.5),
    ]
    assert found.skipped == (Skipped("a name is empty", 1, 4),)


def test_json_lines(place, tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(
        '{"step": 1, "loss": 2.5, "eval": {"acc": 0.5, "n": {"x": 1}}, "_timestamp": 1700000000}\n'
        '{"step": 2, "loss": NaN, "ok": true, "gone": null, "name": "x"}\n'
        '{"loss": 1}\n'
        "[1]\n"
        '{"step": 3, "loss": "-Infinity"}\n'
        '{"step": 4, "lo'
    )
    found = place.take(path)
    rows = place.ask("select key, step, value from points order by all")
    assert rows[:4] == [("eval/acc", 1, 0.5), ("eval/n/x", 1, 1.0), ("loss", 1, 2.5), rows[3]]
    assert math.isnan(rows[3][2])
    assert rows[4:] == [("loss", 3, -math.inf), ("ok", 2, 1.0)]
    assert {(item.reason, item.first_line) for item in found.skipped} == {
        ("a value is text", 2),
        ("an object without a step", 3),
        ("a line that is no JSON object", 4),
        ("a line that is no JSON", 6),
    }


def test_a_huge_line_is_passed_over(place, tmp_path):
    path = tmp_path / "metrics.jsonl"
    with path.open("w") as file:
        file.write('{"step": 1, "loss": 1.0}\n')
        file.write('{"step": 2, "loss": 2.0, "x": "' + "x" * (3 * MAX_LINE) + '"}\n')
        file.write('{"step": 3, "loss": 3.0}\n')
    found = place.take(path)
    assert place.ask("select step, value from points order by all") == [(1, 1.0), (3, 3.0)]
    assert found.skipped == (Skipped("a line over 1 MB", 1, 2),)


def test_wide_parquet(place, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    table = pa.table({"step": [1, 2], "loss": [1.5, math.nan], "acc": [None, 0.25]})
    pq.write_table(table, path)
    place.take(path)
    rows = place.ask("select key, step, value from points order by all")
    assert [row[:2] for row in rows] == [("acc", 2), ("loss", 1), ("loss", 2)]
    assert math.isnan(rows[2][2])
    path.write_bytes(b"PAR1 no")
    with pytest.raises(BadInput, match="is no Parquet file"):
        place.take(path)


def test_trainer_state(place, tmp_path):
    path = tmp_path / "trainer_state.json"
    history = [
        {"epoch": 0.5, "loss": 3.5, "learning_rate": 1e-4, "step": 10},
        {"epoch": 0.5, "eval_loss": 3.0, "step": 10},
        {"epoch": 1, "train_runtime": 9.5, "step": 20},
        {"epoch": 1},
    ]
    body = {"best_metric": None, "log_history": history, "max_steps": 40, "num_train_epochs": 2}
    path.write_text(json.dumps(body, indent=2))
    found = place.take(path, experiment="hf", names=["loss=train/loss"])
    (made,) = found.runs
    run = place.run(made.id)
    assert (run.max_steps, run.last_step) == (40, 20)
    assert json.loads(run.canonical) == {"num_train_epochs": 2}
    assert sorted(run.series) == ["eval_loss", "learning_rate", "train/loss", "train_runtime"]
    assert found.skipped == (Skipped("an entry without a step", 1, 4),)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.log", "nothing here\n", "no known pattern reads a.log"),
        ("a.log", "", "no known pattern reads a.log"),
        ("a.csv", "", "a.csv is empty"),
        ("a.csv", "a,b\n1,2\n", "has no column step"),
        ("a.csv", "step,loss\n1,x\n", "holds no value that can be taken"),
        ("a.jsonl", "\n\n", "holds no value that can be taken"),
        ("a.json", '{\n"a": 1}', "has no log_history"),
        ("a.json", '{\n"schema_version": 1}', "is no export of runs"),
        ("a.json", '{\n"log_history": [', "is no JSON"),
    ],
)
def test_what_holds_nothing_leaves_nothing(place, tmp_path, name, text, said):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BadInput, match=said):
        place.take(path)
    assert sorted(entry.name for entry in place.root.iterdir()) == [".expdb", ".gitignore"]


def test_a_file_that_is_none_is_named(place, tmp_path):
    with pytest.raises(BadInput, match="nope does not exist"):
        place.take(tmp_path / "nope")
    with pytest.raises(BadInput, match="is a folder") as caught:
        place.take(tmp_path)
    assert caught.value.hints == (f"all in it: {tmp_path}/*",)


def test_gzip_and_bytes_that_are_no_text(place, tmp_path):
    path = tmp_path / "train.log.gz"
    path.write_bytes(gzip.compress(b"step 1: loss=2.0 \xff\n"))
    (made,) = place.take(path).runs
    assert (made.experiment, made.num_points) == ("train", 1)


def test_a_secret_of_the_command_line_is_not_written(place, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("step,loss\n1,2.5\n")
    (made,) = place.take(path, config=["hub.api_key=abcdef123456", "pad_token=x"]).runs
    folder = place.root / place.run(made.id).path
    for file in folder.rglob("*"):
        assert not file.is_file() or b"abcdef123456" not in file.read_bytes()
    assert '"pad_token":"x"' in place.run(made.id).canonical


def test_names_say_seed_and_experiment():
    assert split_name("klsoap-h-b1090_sh090-K3125-seed-4.log") == ("klsoap-h-b1090_sh090-K3125", 4)
    assert split_name("base_seed=12.csv.gz") == ("base", 12)
    assert split_name("seed0.jsonl") == ("seed0", 0)
    assert split_name("train.v2.log") == ("train.v2", None)
    assert split_name(".log") == (".log", None)


def test_the_seed_is_apart_from_the_digest(place, tmp_path):
    for seed in (1, 2):
        (tmp_path / f"base-seed-{seed}.csv").write_text(f"step,loss\n1,{seed}.5\n")
    made = [
        place.take(tmp_path / f"base-seed-{seed}.csv", config=["lr=0.1"]).runs[0] for seed in (1, 2)
    ]
    first, second = (place.run(run.id) for run in made)
    assert (first.seed, second.seed) == (1, 2)
    assert first.experiment == second.experiment == "base"
    assert first.digest == second.digest


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("1e-3", 0.001), ("3", 3), ("-0.5", -0.5), ("true", True), ("null", None), ("None", "None"),
        ("00123", "00123"), ("0_e0", "0_e0"), ("inf", "inf"), (".inf", math.inf), ("no", "no"),
        ('"1E234"', "1E234"), ("[1, 2]", [1, 2]), ("", ""), ("1.10", 1.1), ("NaN", "NaN"),
        ("a=b", "a=b"),
    ],
)  # fmt: skip
def test_a13_config_values_keep_their_kind(said, value):
    found = assigned([f"a.b={said}"])["a"]["b"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("words", [["x"], ["=1"], ["a..b=1"], ["a=1", "a.b=2"], ["a.b=1", "a=2"]])
def test_config_words_that_make_no_sense(words):
    with pytest.raises(BadInput, match="--config"):
        assigned(words)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("1.5", 1.5), (" 2 ", 2.0), ("-Infinity", -math.inf), ("+inf", math.inf), (True, 1.0),
        ("5e-324", 5e-324), (2**53, 2.0**53), (2**53 + 1, None), (2**60, 2.0**60), ("1_000", None),
        ("1e999", None), ("٣", None), ("0x10", None), (None, None), ([], None), ("9" * 500, None),
    ],
)  # fmt: skip
def test_what_counts_as_a_number(value, found):
    assert number(value) == found


def test_steps_and_moments():
    assert [whole(value) for value in ("3", "3.0", 3.5, "x", True, 2**63)] == [
        3, 3, None, None, None, None,
    ]  # fmt: skip
    assert moment_ms(1_700_000_000) == moment_ms("1700000000000") == 1_700_000_000_000
    assert (
        moment_ms("2023-11-14T22:13:20Z") == moment_ms("2023-11-14 22:13:20") == 1_700_000_000_000
    )
    assert [moment_ms(value) for value in (0.5, "x", None, "1-1")] == [None] * 4


def test_a_run_of_the_same_id_that_is_another_one_is_refused(place, tmp_path):
    record = {
        "expdb": "run", "id": "k3f9x2m7qd", "experiment": "a", "config": {"lr": 1},
        "digest": "v1:1", "created_at_ms": 5, "seed": 0,
    }  # fmt: skip
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(record))
    assert place.take(path).runs[0].is_new
    assert not place.take(path).runs[0].is_new
    path.write_text(json.dumps({**record, "config": {"lr": 2}, "digest": "v1:2"}))
    with pytest.raises(Refused, match="another run k3f9x2m7qd: its digest differs"):
        place.take(path)
    with pytest.raises(BadInput, match="says what its runs are"):
        place.take(path, experiment="x")


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../../../x"}, {"id": 7}, {"experiment": ""}, {"experiment": None}, {"config": []},
        {"seed": "0"}, {"created_at_ms": "x"}, {"attempts": [{"number": 0}]}, {"evals": [{}]},
        {"attempts": [{"number": 1, "git": {"used": {"a": 1}}}]}, {"objective": {"metric": 3}},
    ],
)  # fmt: skip
def test_a_record_that_is_damaged_is_refused(place, tmp_path, change):
    record = {"expdb": "run", "id": "k3f9x2m7qd", "experiment": "a", "config": {}, **change}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(record))
    with pytest.raises(BadInput, match="line 1 is no run of an export"):
        place.take(path)
    assert sorted(entry.name for entry in place.root.iterdir()) == [".expdb", ".gitignore"]


def test_ids_in_a_record_build_no_path(place, tmp_path):
    evals = [{"id": "../../evil", "task": "../t", "step": 1, "metrics": {"acc": 0.5}}]
    record = {
        "expdb": "run", "id": "k3f9x2m7qd", "experiment": "../../up", "config": {}, "evals": evals,
    }  # fmt: skip
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(record))
    (made,) = place.take(path).runs
    run = place.run(made.id)
    assert run.experiment == "../../up"
    assert run.evals[0].task == "../t"
    assert {entry.name for entry in tmp_path.iterdir()} == {"a.jsonl", "runs"}


def test_a_long_file_is_sealed_in_several_parts(place, tmp_path, monkeypatch):
    monkeypatch.setattr("expdb.store.new_run.SEAL_POINTS", 40)
    path = tmp_path / "a.csv"
    rows = [f"{step},{step / 7!r},{-step}" for step in [*range(50), 10, 3]]
    path.write_text("\n".join(["step,x,y", *rows]) + "\n")
    (made,) = place.take(path).runs
    run = place.run(made.id)
    parts = list((place.root / run.path / "points").iterdir())
    assert len(parts) == 3
    assert (run.series["x"].count, run.series["x"].last_step, run.problems) == (50, 49, ())
    found = place.ask("select step, value from points where key = 'x' order by step")
    assert found == [(step, step / 7) for step in range(50)]


def test_what_breaks_off_leaves_no_run(place, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"step": range(200_000), "x": [0.1] * 200_000}), path)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = b"\0" * 2000
    path.write_bytes(bytes(data))
    with pytest.raises(BadInput, match="is damaged after row"):
        place.take(path)
    assert sorted(entry.name for entry in place.root.iterdir()) == [".expdb", ".gitignore"]


def test_a_column_of_nanoseconds_is_passed_over_and_the_rest_taken(place, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "ns.parquet"
    table = {"step": [0, 1], "loss": [1.0, 0.5], "at": pa.array([1, 2], pa.timestamp("ns"))}
    pq.write_table(pa.table(table), path)
    place.take(path)
    assert place.ask("select step, value from points where key = 'loss' order by step") == [
        (0, 1.0),
        (1, 0.5),
    ]


def test_an_export_of_a_newer_schema_is_refused_and_a_config_too_deep(place, tmp_path):
    record = {"expdb": "run", "id": "k3f9x2m7qd", "experiment": "a", "config": {}}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({**record, "schema_version": 99}))
    with pytest.raises(BadInput, match="is an export of schema 99; this expdb reads 1"):
        place.take(path)
    deep = '{"a":' * 700 + "1" + "}" * 700
    path.write_text(json.dumps(record).replace('"config": {}', f'"config": {deep}'))
    with pytest.raises(BadInput, match="line 1"):
        place.take(path)
    assert sorted(entry.name for entry in place.root.iterdir()) == [".expdb", ".gitignore"]
