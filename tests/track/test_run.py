"""The handle: what `log` takes and keeps, and whose it is."""

from __future__ import annotations

import copy
import errno
import math
import os
import pickle
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import expdb
from expdb.errors import BadInput
from expdb.store import marks
from expdb.store.points import read_series
from expdb.store.runs import read_run

QUIET = {"expdb": {"print": "quiet"}}
ITEMS = "sha256:" + "1" * 64
VALUES = [
    (True, 1.0), (np.float32(0.1), 0.10000000149011612), (np.int64(3), 3.0), (np.array(2.5), 2.5),
    (torch.tensor([4.0]), 4.0), (torch.tensor([1.0, 2.0]), "Tensor of 2 elements"),
    (torch.tensor(1.0, dtype=torch.bfloat16), 1.0), (torch.tensor(0.5, dtype=torch.float16), 0.5),
    (torch.tensor(3.0, requires_grad=True), 3.0), (None, "None"), ("0.5", "the text '0.5'"),
    (Decimal("0.1"), "decimal.Decimal"),
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Any:
    with expdb.start(QUIET, store=tmp_path / "runs", objective="val/loss") as handle:
        yield handle


def points(run: Any) -> list[tuple[str, int, float]]:
    table = read_series(run.dir, None)
    return list(zip(*(table[name].to_pylist() for name in ("key", "step", "value")), strict=True))


# ------------------------------------------------------------------------------------- values


def test_one_rule_for_one_value_and_for_many(run: Any) -> None:
    answers: list[list[str]] = [[], []]
    for number, (value, expected) in enumerate(VALUES):
        for way, call in enumerate(({f"one{number}": value}, {f"many{number}": value, "ok": 1.0})):
            try:
                run.log(call, step=number)
                answers[way].append("taken")
            except BadInput as error:
                said = error.message
                assert f"{next(iter(call))} at step {number} is {expected}" in said
                answers[way].append("refused")
    assert answers[0] == answers[1]
    kept = points(run)
    for number, (_, expected) in enumerate(VALUES):
        for name in (f"one{number}", f"many{number}"):
            found = [value for key, _, value in kept if key == name]
            assert found == ([] if isinstance(expected, str) else [expected])
    # The good value of each call is kept, also beside a refused one.
    assert [(step, value) for key, step, value in kept if key == "ok"] == [
        (number, 1.0) for number in range(len(VALUES))
    ]


def test_what_is_not_finite_survives_and_is_no_best(run: Any) -> None:
    for step, value in enumerate([math.nan, 2.0, math.inf, -math.inf, -0.0, math.nan]):
        run.log({"val/loss": value, "int": 2**53}, step=step)
    values = [value for key, _, value in points(run) if key == "val/loss"]
    assert [str(value) for value in values] == ["nan", "2.0", "inf", "-inf", "-0.0", "nan"]
    run.finish()
    series = read_run(run.dir, store_root=run.store.root).series["val/loss"]
    assert (series.count, series.nonfinite, series.min, series.max) == (6, 4, 0.0, 2.0)
    assert series.nonfinite_step == 5


def test_names_are_any_text_but_an_empty_one(run: Any) -> None:
    names = ["Loss", "loss", "a b/é\x1b", "../x", "\u202e", "x" * 600]
    run.log(dict.fromkeys(names, 1.0), step=1)
    with pytest.raises(BadInput, match="a metric name is empty"):
        run.log({"": 1.0, "kept": 2.0}, step=1)
    with pytest.raises(BadInput, match="a metric name is 3"):
        run.log({3: 1.0}, step=1)
    assert sorted(key for key, _, _ in points(run)) == sorted([*names, "kept"])
    run.log({}, step=2)


def test_the_step_is_the_runs_own_unless_it_is_said(run: Any) -> None:
    run.log({"x": 1.0})
    run.step = 7
    run.log({"x": 2.0})
    run.log({"x": 3.0}, step=np.int64(9))
    run.log({"x": 4.0}, step=-1)
    assert [(step, value) for _, step, value in points(run)] == [(-1, 4), (0, 1), (7, 2), (9, 3)]
    for wrong in (2.5, "3", 2**63):
        with pytest.raises(BadInput, match="step"):
            run.log({"x": 1.0}, step=wrong)


def test_a_value_given_twice_is_the_later_one(run: Any) -> None:
    for value in (1.0, 2.0, 3.0):
        run.log({"x": value}, step=5)
        assert run.latest["x"] == (5, value)
    assert points(run) == [("x", 5, 3.0)]


def test_a_value_is_on_disk_when_log_returns(run: Any) -> None:
    for step in range(50):
        run.log({"x": float(step), "y": step}, step=step)
        size = sum(path.stat().st_size for path in (run.dir / "attempts" / "1").glob("*.wal"))
        assert [s for key, s, _ in points(run) if key == "x"][-1] == step
        assert size > 0


def test_threads_may_log(run: Any) -> None:
    def work(name: str) -> None:
        for step in range(300):
            run.log({name: float(step)}, step=step)

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.finish()
    assert len(points(run)) == 1200


# ---------------------------------------------------------------------------- evals, data, notes


def test_an_eval_is_a_file_and_points(run: Any) -> None:
    facts = {"n": 10042, "shots": 0, "scorer": "x", "items": ITEMS}
    run.log_eval("hellaswag", {"acc": 0.31, "acc_stderr": np.float32(0.5)}, step=300, **facts)
    [kept] = read_run(run.dir, store_root=run.store.root).evals
    assert (kept.task, kept.step, kept.metrics) == (
        "hellaswag",
        300,
        {"acc": 0.31, "acc_stderr": 0.5},
    )
    assert (kept.n, kept.shots, kept.items_digest) == (10042, 0, ITEMS)
    assert points(run)[0] == ("eval/hellaswag/acc", 300, 0.31)
    for task, metrics in (("", {"acc": 1}), ("x", {"acc": None})):
        with pytest.raises(BadInput):
            run.log_eval(task, metrics)
    assert len(list((run.dir / "evals").iterdir())) == 1


def test_data_is_known_by_its_digest(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc")
    run.use_data("train", tmp_path / "a.txt")
    run.use_data("val", "corpus", digest="sha256:2", num_bytes=5)
    with pytest.raises(BadInput, match="not a file"):
        run.use_data("test", "corpus")
    attempt = read_run(run.dir, store_root=run.store.root).attempts[0]
    assert attempt.data["train"] == {
        "name": "a.txt",
        "bytes": 3,
        "digest": "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
    assert attempt.data["val"]["digest"] == "sha256:2"


def test_notes_and_events_are_kept(run: Any) -> None:
    run.note("a try")
    run.event(7, "warn", "grad_spike", "train/grad_norm 3.4")
    kept = read_run(run.dir, store_root=run.store.root)
    assert kept.notes == ("a try",)
    assert [(e.step, e.rule, e.severity) for e in kept.events] == [(7, "grad_spike", "warn")]


# ------------------------------------------------------------------------------------- whose


def test_after_the_end_nothing_is_taken(run: Any) -> None:
    run.log({"x": 1.0}, step=1)
    run.finish()
    calls = (
        lambda: run.log({"x": 2.0}),
        lambda: run.log_eval("a", {"b": 1}),
        lambda: run.note("x"),
        lambda: run.use_data("a", "b", digest="c"),
        lambda: run.checkpoint(1, None),
    )
    for call in calls:
        with pytest.raises(BadInput, match="has ended"):
            call()
    assert points(run) == [("x", 1, 1.0)]


def test_a_fork_neither_writes_nor_ends_the_run(run: Any) -> None:
    run.log({"x": 1.0}, step=1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run.log({"x": 9.0}, step=2)
        except BadInput:
            run.__exit__(None, None, None)
            run.finish()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run.log({"x": 2.0}, step=2)
    assert points(run) == [("x", 1, 1.0), ("x", 2, 2.0)]
    assert read_run(run.dir, store_root=run.store.root).state == "running"


def test_a_handle_stays_in_its_process(run: Any) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(run)
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.deepcopy(run)


def test_two_runs_in_one_process_are_two(tmp_path: Path) -> None:
    runs = [expdb.start(QUIET, store=tmp_path / "runs") for _ in range(2)]
    for number, run in enumerate(runs):
        run.log({"x": float(number)}, step=1)
    for run in runs:
        run.finish()
    assert [points(run) for run in runs] == [[("x", 1, 0.0)], [("x", 1, 1.0)]]


def test_items_of_an_eval_are_known_by_their_content(run: Any, tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text('{"q": 1}\n')
    run.log_eval("a", {"acc": 1.0}, step=1, items=tmp_path / "items.jsonl")
    run.log_eval("b", {"acc": 1.0}, step=1, items=str(tmp_path / "items.jsonl"))
    run.log_eval("c", {"acc": 1.0}, step=1, items=[{"id": 1, "right": True}, {"id": 2}])
    for wrong in ("no-such-file.jsonl", 7, [1, 2]):
        with pytest.raises(BadInput):
            run.log_eval("d", {"acc": 1.0}, step=1, items=wrong)
    kept = {ev.task: ev for ev in read_run(run.dir, store_root=run.store.root).evals}
    assert sorted(kept) == ["a", "b", "c"]
    assert kept["a"].items_digest == kept["b"].items_digest != kept["c"].items_digest
    assert all(ev.items_digest.startswith("sha256:") for ev in kept.values())
    assert kept["c"].n == 2
    rows = pq.read_table(run.dir / "evals" / f"{kept['c'].id}.items.parquet").to_pylist()
    assert rows == [{"id": 1, "right": True}, {"id": 2, "right": None}]


def test_a_full_disk_beside_the_journal_stops_nothing(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = [True]

    def refuse(*args: Any, **kwargs: Any) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real_append(*args, **kwargs)

    real_append = marks._append
    monkeypatch.setattr(marks, "_append", refuse)
    run.note("first")
    run.event(3, "critical", "non_finite", "train/loss is NaN")
    run.log({"train/loss": 1.0}, step=3)
    assert read_run(run.dir, store_root=run.store.root).notes == ()
    full[0] = False
    run.note("second")
    found = read_run(run.dir, store_root=run.store.root)
    assert found.notes == ("first", "second")
    assert [event.message for event in found.events] == ["train/loss is NaN"]
