"""Export, import elsewhere, and find the same run: every value, name and config key."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import expdb
from expdb import digest
from expdb.index.reader import open_reader
from expdb.model import Attempt, Eval, Event, Pin, RunAt
from expdb.query.export import Export
from expdb.report import export as report
from expdb.report.export_parquet import write_points
from expdb.store.layout import RunLayout
from expdb.store.marks import add_mark
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from tests.query.made import make_run, write_run

FORMS = ("json", "jsonl", "csv", "parquet")
VALUES = (math.inf, -math.inf, 1.7976931348623157e308, 5e-324, math.nan, -0.0, 0.1, 2.0**53)
NAMES = (
    "train/loss", "train//loss", "/lead", "trail/", "val/AR@100", "0_iou:recall",
    "huber[delta=1.3]", "a b", "loss", "loss/train", ".hidden", "x" * 300, "🐇", "损失",
    "x' OR 1=1 --", 'a"b', "comma,name", "line\nend", "tab\tand\rreturn", "Loss", "\ufeffmark",
)  # fmt: skip


def write(place, form: str, folder: Path, *, attempts: bool = False) -> Path:
    """Export all runs of a store to a file."""
    path = folder / f"out.{form}"
    with open_reader(place.store, build=False) as reader:
        ids = [row[0] for row in reader.rows("SELECT id FROM runs ORDER BY created_at_ms, id")]
        found = Export(reader, ids, attempts=attempts)
        if form == "parquet":
            with path.open("wb") as file:
                write_points(file, found)
        elif form == "csv":
            path.write_bytes("".join(report.as_csv(found)).encode())
            path.with_suffix(".runs.jsonl").write_bytes("".join(report.records(found)).encode())
        else:
            made = report.as_jsonl(found) if form == "jsonl" else report.as_json(found, points=True)
            path.write_bytes("".join(made).encode())
        assert found.problems == []
    return path


def points(place, run: str, *, attempts: bool = False) -> list[str]:
    """Return the points of a run as texts, so that NaN equals NaN and -0.0 is not 0.0."""
    folder = place.root / place.run(run).path
    rows = read_series(folder, attempts=attempts).drop_columns(["seq"]).to_pylist()
    return sorted(repr(tuple(row.values())) for row in rows)


def log(place, run: str, steps: list[dict[str, float]]) -> None:
    folder = place.root / place.run(run).path
    recorder = Recorder(RunLayout(folder), run=run, attempt=1)
    for step, values in enumerate(steps):
        recorder.write(tuple(values), tuple(values.values()), step, 1_795_000_000_000 + step)
    recorder.close()


def strict(text: str) -> object:
    """Parse as a strict parser does: without the words NaN and Infinity."""

    def refuse(word: str) -> object:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("form", FORMS)
def test_a03_every_float_is_the_same_after_a_round_trip(place, other, tmp_path, form):
    run = make_run("k3f9x2m7qd")
    write_run(place.store, run)
    log(place, run.id, [{"loss": value} for value in VALUES])
    path = write(place, form, tmp_path)
    if form == "json":
        strict(path.read_text())
    if form == "jsonl":
        for line in path.read_text().splitlines():
            strict(line)
    (made,) = other.take(path).runs
    assert made.id == run.id
    assert points(other, run.id) == points(place, run.id)
    found = [row[0] for row in other.ask("select value from points order by step")]
    assert found[0] == math.inf
    assert found[0] != found[2] == 1.7976931348623157e308
    assert found[3] == 5e-324 != 0.0
    assert math.isnan(found[4])
    assert math.copysign(1, found[5]) == -1


@pytest.mark.parametrize("form", FORMS)
def test_a10_names_come_back_byte_for_byte(place, other, tmp_path, form):
    run = make_run("k3f9x2m7qd")
    write_run(place.store, run)
    log(place, run.id, [{name: float(at) for at, name in enumerate(NAMES)}])
    other.take(write(place, form, tmp_path))
    assert points(other, run.id) == points(place, run.id)
    assert set(other.run(run.id).series) == set(NAMES)
    found = dict(other.ask("select key, value from points"))
    assert found == {name: float(at) for at, name in enumerate(NAMES)}
    for name in ("x' OR 1=1 --", "train//loss"):
        assert other.ask("select value from points where key = ?", name) == [(found[name],)]


CONFIG = {
    "lr": "1e-3",
    "lr2": 1e-5,
    "lr3": 0.00001,
    "password_file": "1E234",
    "version": 1.10,
    "flag": "no",
    "x": "0_e0",
    "limit": "inf",
    "limit2": math.inf,
    "name": "None",
    "gone": None,
    "zip": "00123",
    "whole": 1.0,
    "huge": 2**70,
    "on": True,
    "dict": {},
    "$odd": {2: "a", "2": "b", None: "c", True: "d"},
}


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a13_config_values_keep_type_and_form(place, other, tmp_path, form):
    run = make_run("k3f9x2m7qd", config=CONFIG, points={"x": {1: 1.0}})
    write_run(place.store, run, points={"x": {1: 1.0}})
    other.take(write(place, form, tmp_path))
    again = other.run(run.id)
    assert again.canonical == run.canonical
    assert again.digest == run.digest == digest.digest(again.canonical, seed_key="seed")
    rows = dict(
        (key, (kind, text)) for key, kind, text in other.ask("select key, kind, text from params")
    )
    assert rows["lr"] == ("text", "1e-3")
    assert rows["lr2"] == rows["lr3"] == ("float", "1e-05")
    assert rows["name"] == ("text", "None")
    assert rows["gone"] == ("null", "null")
    assert rows["zip"] == ("text", "00123")
    numbers = "select count(*) from params where key like 'lr%' and number is not null"
    assert other.ask(numbers) == [(2,)]


def test_a14_long_and_deep_params_are_whole(place, other, tmp_path):
    deep: dict[str, object] = {"end": 1}
    for level in range(8):
        deep = {f"level{level}": deep}
    config = {
        "list": [0.1 * number for number in range(45)],
        "text": "lorem " * 2000,
        "deep": deep,
        "empty": "",
        "k" * 600: 1,
        "many": {f"key{number}": number for number in range(5000)},
    }
    run = make_run("k3f9x2m7qd", config=config, points={"x": {1: 1.0}})
    write_run(place.store, run, points={"x": {1: 1.0}})
    other.take(write(place, "jsonl", tmp_path))
    assert other.run(run.id).canonical == run.canonical
    rows = dict(other.ask("select key, text from params"))
    assert rows["text"] == config["text"]
    assert rows["empty"] == ""
    assert rows["k" * 600] == "1"
    assert len([key for key in rows if key.startswith("many.")]) == 5000
    assert points(other, run.id) == points(place, run.id)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_everything_that_is_known_of_a_run_comes_back(place, other, tmp_path, form):
    pin = Pin(
        commit="4" * 40, branch="main", tree="9" * 40, dirty=True, num_edits=3, snapshot="0" * 40,
        remote="https://example.org/x.git", used={"train.py": "a" * 40}, reasons=("why",),
    )  # fmt: skip
    data = {"train": {"digest": "sha256:aa", "name": "pydoc", "bytes": 5}}
    environment = {"python": "3.11.7", "gpu": "none"}
    attempts = (
        Attempt(number=1, pin=pin, started_at_ms=7, environment=environment, data=data),
        Attempt(number=2, pin=pin, started_at_ms=9, resumed_from=1, work_tree="/home/ada/x/.git"),
    )
    run = make_run(
        "k3f9x2m7qd",
        experiment="AC/DC 100%",
        variant="+optim.lr=0.1",
        seed=-(2**40),
        parent="k000000000",
        attempts=attempts,
        fork=RunAt(run="k000000001", step=30),
        evals=(Eval(id="e000000001", task="t/x", step=2, metrics={"acc": math.nan}, n=7),),
        events=(Event(step=1, severity="warn", rule="spike", message="z > 6", created_at_ms=5),),
    )
    folder = write_run(place.store, run)
    add_mark(RunLayout(folder), "label", "keep")
    add_mark(RunLayout(folder), "note", "two\nlines")
    for attempt, steps in ((1, (0, 1, 2, 3)), (2, (2, 3, 4))):
        for rank in (0, 3):
            recorder = Recorder(RunLayout(folder), run=run.id, attempt=attempt, rank=rank)
            for step in steps:
                recorder.write(("x",), (attempt + rank / 10 + step,), step, step)
            recorder.close()
    before = place.run(run.id)
    path = write(place, form, tmp_path, attempts=True)
    assert b"/home/ada" not in path.read_bytes()
    (made,) = other.take(path).runs
    after = other.run(run.id)
    for name in (
        "id", "experiment", "variant", "seed", "digest", "canonical", "objective", "parent",
        "settings", "command", "created_at_ms", "ended_at_ms", "max_steps", "state", "reason",
        "labels", "notes", "events", "last_step", "path",
    ):  # fmt: skip
        assert getattr(after, name) == getattr(before, name), name
    assert [(item.number, item.resumed_from) for item in after.attempts] == [(1, None), (2, 1)]
    assert [item.pin for item in after.attempts] == [pin, pin]
    assert after.attempts[0].environment == environment
    assert after.attempts[0].data == data
    assert repr(after.evals) == repr(before.evals)
    assert points(other, run.id) == points(place, run.id)
    assert points(other, run.id, attempts=True) == points(place, run.id, attempts=True)
    assert made.num_points == len(points(place, run.id, attempts=True))
    assert after.problems == ()
    assert not other.take(path).runs[0].is_new


def test_a_real_run_comes_back(place, other, tmp_path):
    cfg = {"seed": 3, "optim": {"lr": 0.1}, "hub_token": "abcdefgh12345678"}
    with expdb.start(cfg, name="base", store=str(place.root)) as run:
        for step in range(5):
            run.log({"train/loss": 1.0 / (step + 1), "val/loss": step}, step=step)
        run.log_eval("cloze", {"acc": 0.25}, step=4, n=10)
    path = write(place, "jsonl", tmp_path)
    assert b"abcdefgh12345678" not in path.read_bytes()
    other.take(path)
    before, after = place.run(run.id), other.run(run.id)
    assert after.digest == before.digest
    assert after.series == before.series
    assert points(other, run.id) == points(place, run.id)
    assert other.ask("select task, metric, value, n from evals") == [("cloze", "acc", 0.25, 10)]


def test_a_live_run_is_exported_with_what_it_has(place, other, tmp_path):
    from expdb.model import RunState

    run = make_run("k3f9x2m7qd", state=RunState.RUNNING)
    folder = write_run(place.store, run, old=False)
    recorder = Recorder(RunLayout(folder), run=run.id, attempt=1)
    recorder.write(("x",), (0.5,), 3, 9)
    try:
        path = write(place, "jsonl", tmp_path)
    finally:
        recorder.close()
    other.take(path)
    found = other.run(run.id)
    assert (found.state, found.reason) == (
        RunState.PREEMPTED, "it was running when it was exported",
    )  # fmt: skip
    assert other.ask("select step, value from points") == [(3, 0.5)]


def test_step_records_have_the_fixed_names(place):
    points = {
        "train/loss": {1: 2.5, 2: math.nan},
        "train/grad_norm": {1: 0.5},
        "train/tokens_per_s": {1: 18_000.0},
        "sys/memory_peak_bytes": {1: 141e6},
        "val/ppl": {2: 8.0},
        "train/lr": {1: 0.1},
    }
    run = make_run("k3f9x2m7qd", points=points)
    write_run(place.store, run, points=points)
    with open_reader(place.store, build=False) as reader:
        made = list(report.as_step_records(Export(reader, [run.id])))
    head = {"config_name": "baseline", "run": run.id, "seed": 0}
    none = dict.fromkeys(report.SHORT_NAMES)
    assert [strict(line) for line in made] == [
        {**head, "step": 1, **none, "loss": 2.5, "grad_norm": 0.5, "tokens_per_sec": 18_000.0,
         "memory_peak_mb": 141.0, "nonfinite": []},
        {**head, "step": 2, **none, "val_ppl": 8.0, "nonfinite": ["loss"]},
    ]  # fmt: skip
