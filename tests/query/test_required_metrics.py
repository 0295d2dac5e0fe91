"""A finished run that lacks a metric which it requires does not count, wherever runs are judged."""

from __future__ import annotations

import math
from typing import Any

import pytest

from expdb.errors import NotFound
from expdb.index.reader import open_reader
from expdb.model import Run, RunState
from expdb.query.compare import comparison
from expdb.query.listing import listing
from expdb.query.lookup import lookup
from expdb.query.noise import noise_of
from expdb.query.rank import ranking
from expdb.query.results import Outcome
from expdb.query.runs import baseline_row
from expdb.query.seeds import over_seeds
from expdb.store.resolve import Resolved
from expdb.store.store import Store
from tests.query.made import make_run, write_run

REQUIRE = {"seed_key": "seed", "require": ["val/loss", "eval/cloze/acc"]}
ACC = {"eval/cloze/acc": {300: 0.4}}


def made(run: str, value: float, points: Any = None, **more: Any) -> Run:
    return make_run(run * 10, value=value, points=points, settings=REQUIRE, **more)


@pytest.mark.parametrize(
    ("points", "lacks"),
    [
        (ACC, ()),
        ({}, ("eval/cloze/acc",)),
        ({"eval/cloze/acc": {1: math.nan, 2: math.inf}}, ("eval/cloze/acc",)),
        ({"eval/cloze/acc": {1: 0.3, 2: math.nan}}, ()),
    ],
)
def test_one_finite_point_is_enough(points: Any, lacks: tuple[str, ...]) -> None:
    assert made("a", 1.8, points).lacks == lacks


def test_settings_of_others_may_hold_anything() -> None:
    for require in (None, "val/loss", 3, {"a": 1}):
        assert make_run("a" * 10, settings={"require": require}).lacks == ()
    run = make_run("a" * 10, settings={"require": ["\x1b[31m", "\x1b[31m", 7]})
    assert run.lacks == ("\x1b[31m", "7")


def test_rank_best_and_groups_leave_it_out_and_say_so(store: Store) -> None:
    write_run(store, made("a", 1.8, ACC))
    write_run(store, made("b", 1.0, experiment="exp01"))
    write_run(store, made("c", 1.9, ACC, experiment="exp02"))
    write_run(store, made("d", 1.2, experiment="exp03", state=RunState.CRASHED))
    with open_reader(store) as reader:
        for metric in (None, "val/loss"):
            found = ranking(reader, metric)
            assert [row.id[0] for row in found.rows] == ["a", "c"]
            assert [(row.id[0], why) for row, why in found.not_ranked] == [
                ("d", "crashed"), ("b", "lacks eval/cloze/acc"),
            ]  # fmt: skip
        assert ranking(reader, limit=1, is_alone=True).num_all == 2
        assert lookup(reader, "best").run[0] == "a"
        groups = over_seeds(reader)
        assert [group.experiment for group in groups.groups] == ["baseline", "exp02"]
        with pytest.raises(NotFound, match=r"none of 1 run can be ranked .*: 1 lacks eval/cloze"):
            ranking(reader, where="r.id[1] = 'b'")


def test_it_is_no_base_and_makes_no_noise(store: Store) -> None:
    for seed, (run, value) in enumerate({"a": 1.8, "b": 1.9, "c": 2.0}.items()):
        write_run(store, made(run, value, ACC if seed else {}, seed=seed, minutes=seed))
    write_run(store, made("e", 1.5, minutes=9))
    with open_reader(store) as reader:
        found = baseline_row(reader)
        assert found is not None
        assert found.id[0] == "c"
        assert noise_of(reader, found, "val/loss") is None
    write_run(store, made("d", 1.85, ACC, seed=0, minutes=3))
    with open_reader(store) as reader:
        found = baseline_row(reader)
        assert found is not None
        noise = noise_of(reader, found, "val/loss")
        assert noise is not None
        assert noise.num_seeds == 3


def test_nothing_is_better_or_worse_that_does_not_count(store: Store) -> None:
    noise = {**REQUIRE, "noise": {"val/loss": 0.001}}
    base = make_run("a" * 10, value=1.8, points=ACC, settings=noise)
    better = make_run("b" * 10, experiment="exp01", value=1.0, settings=noise, minutes=5,
                      config={"lr": 1})  # fmt: skip
    for run in (base, better):
        write_run(store, run)
    at = [Resolved(run=run.id, step=None, said="", is_literal=True) for run in (base, better)]
    with open_reader(store) as reader:
        (verdict,) = comparison(reader, at).verdicts
        assert (str(verdict.outcome), verdict.reason) == (
            "inconclusive", "exp01 bbbb lacks eval/cloze/acc, which it requires",
        )  # fmt: skip
        rows = {row.id[0]: row for row in listing(reader).rows}
        assert rows["b"].lacks == ("eval/cloze/acc",)
        assert rows["b"].delta is not None
        assert rows["b"].delta.outcome is Outcome.INCONCLUSIVE
