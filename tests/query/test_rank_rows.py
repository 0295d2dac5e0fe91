from __future__ import annotations

import math

import pytest

from expdb.errors import NotFound
from expdb.index.reader import Reader, open_reader
from expdb.model import Objective, RunState
from expdb.query.rank import ranking
from expdb.query.results import Ranking
from expdb.store.store import Store
from tests.query.conftest import cast_run, set_ref
from tests.query.made import make_run, write_run


def order(found: Ranking) -> list[str]:
    return [row.id[:4] for row in found.rows]


def left_out(found: Ranking) -> list[str]:
    return [f"{row.id[:4]} {why}" for row, why in found.not_ranked]


def test_the_cast_is_ranked_as_on_the_screen(cast: Reader) -> None:
    found = ranking(cast)
    assert found.objective == Objective(metric="val/loss")
    assert " ".join(order(found)) == ("g2z8 d6v3 k3f9 f0n6 v8k2 p2x7 b3w9 m8c2 q9r1 h4q8 t1h6 e7s5")
    assert found.num_tied == 7
    assert left_out(found) == ["c7t3 NaN since step 50", "a9m4 crashed", "x5j2 running"]
    assert found.extra_metrics == ("eval/cloze/acc",)
    assert found.rows[0].metrics == {"eval/cloze/acc": 0.468}
    assert (found.apart, found.warnings) == ((), ())
    deltas = [row.delta for row in found.rows]
    assert [delta and str(delta.outcome) for delta in deltas[:4]] == [
        "no_difference", "no_difference", None, "no_difference",
    ]  # fmt: skip
    assert str(deltas[-1].outcome) == "worse"  # type: ignore[union-attr]


def test_a_limit_shows_less_and_counts_the_tie_over_all(cast: Reader) -> None:
    found = ranking(cast, limit=2)
    assert order(found) == ["g2z8", "d6v3"]
    assert found.num_tied == 7
    assert len(found.not_ranked) == 3


def a41(store: Store) -> None:
    """Case A41: r1 to r7 of one metric, some of which tempt a ranking to be wrong."""
    objective = Objective(metric="val_loss", mode="min", reading="last")
    curves: dict[str, tuple[dict[int, float], RunState]] = {
        "r1aaaaaaaa": ({0: 0.9, 1: 0.2, 2: 0.6}, RunState.FINISHED),
        "r2aaaaaaaa": ({0: 0.5, 1: 0.4, 2: 0.3}, RunState.FINISHED),
        "r3aaaaaaaa": ({0: math.nan, 1: math.nan, 2: math.nan}, RunState.FINISHED),
        "r4aaaaaaaa": ({}, RunState.FINISHED),
        "r5aaaaaaaa": ({0: 0.1}, RunState.FINISHED),
        "r6aaaaaaaa": ({0: 0.05}, RunState.FAILED),
        "r7aaaaaaaa": ({0: 0.4, 2: 0.3}, RunState.FINISHED),
    }
    for at, (run, (curve, state)) in enumerate(curves.items()):
        points = {"val_loss": curve} if curve else {"other": {0: 1.0}}
        made = make_run(
            run, experiment=f"e{at}", minutes=at, state=state, points=points, objective=objective
        )
        write_run(store, made)


def test_a41_best_and_last_and_both_directions(store: Store) -> None:
    import shutil

    a41(store)
    with open_reader(store) as reader:
        assert order(ranking(reader, "val_loss", reading="best"))[0] == "r5aa"
    shutil.rmtree(store.layout.run_dir("e4", "r5aaaaaaaa"))
    with open_reader(store) as reader:
        best = ranking(reader, "val_loss", reading="best")
        assert order(best) == ["r1aa", "r2aa", "r7aa"]
        assert (best.rows[0].value, best.rows[0].value_step) == (0.2, 1)
        assert order(ranking(reader, "val_loss", reading="best", limit=2)) == ["r1aa", "r2aa"]
        last = ranking(reader, "val_loss")
        assert order(last) == ["r2aa", "r7aa", "r1aa"]
        assert last.warnings == ()
        highest = ranking(reader, "val_loss", mode="max", reading="best")
        assert order(highest) == ["r1aa", "r2aa", "r7aa"]
        assert [row.value for row in highest.rows] == [0.9, 0.5, 0.4]
        assert highest.warnings == (
            "val_loss is ranked with the highest first; by its name lower is better",
        )
        for found in (best, last, highest):
            assert left_out(found) == ["r3aa NaN since step 0", "r6aa failed", "r4aa no val_loss"]
            assert found.num_tied == 0  # no noise is known


def test_infinity_never_wins_and_is_named(store: Store) -> None:
    for at, (run, value) in enumerate(
        [("aaaaaaaaaa", math.inf), ("bbbbbbbbbb", -math.inf), ("cccccccccc", 2.0)]
    ):
        points = {"val/loss": {0: 3.0, 100: value}}
        write_run(store, make_run(run, experiment=f"e{at}", minutes=at, points=points))
    with open_reader(store) as reader:
        for mode in ("min", "max"):
            found = ranking(reader, "val/loss", mode=mode)  # type: ignore[arg-type]
            assert order(found) == ["cccc"]
            assert left_out(found) == [
                "bbbb -Inf since step 100, not finite",
                "aaaa Inf since step 100, not finite",
            ]


def test_runs_with_another_objective_stand_apart(store: Store) -> None:
    write_run(store, cast_run("k3f9x2m7qd"))
    write_run(
        store, make_run("t1h6y3cz8r", objective=Objective(metric="val/acc", mode="max"), value=0.1)
    )
    write_run(store, make_run("h4q8z1rn6c", objective=None, value=0.1))
    set_ref(store, "baseline", "k3f9x2m7qd")
    with open_reader(store) as reader:
        found = ranking(reader)
        assert order(found) == ["k3f9"]
        assert sorted(row.id[:4] for row in found.apart) == ["h4q8", "t1h6"]
        everyone = ranking(reader, "val/loss")
        assert order(everyone) == ["h4q8", "t1h6", "k3f9"]
        assert everyone.apart == ()


def test_a_metric_of_unknown_direction_is_ranked_with_a_warning(store: Store) -> None:
    write_run(
        store, make_run("k3f9x2m7qd", points={"train/grad_norm": {0: 1.0}, "val/acc": {0: 0.5}})
    )
    with open_reader(store) as reader:
        assert (
            "nothing says which way train/grad_norm"
            in ranking(reader, "train/grad_norm").warnings[0]
        )
        assert ranking(reader, "val/acc").objective.mode == "max"
        assert ranking(reader, "val/acc").warnings == ()


def test_what_cannot_be_ranked_says_why(store: Store) -> None:
    with open_reader(store) as reader, pytest.raises(NotFound, match="no runs yet in the store"):
        ranking(reader)
    nan = {"val/loss": {0: 5.0, 50: math.nan}}
    write_run(store, make_run("aaaaaaaaaa", points=nan))
    write_run(store, make_run("bbbbbbbbbb", points=nan, state=RunState.FAILED))
    write_run(store, make_run("cccccccccc", value=2.0, state=RunState.CRASHED))
    with open_reader(store) as reader:
        with pytest.raises(NotFound) as error:
            ranking(reader)
        assert error.value.message == "none of 3 runs can be ranked by val/loss: 2 NaN, 1 crashed"
        with pytest.raises(NotFound) as error:
            ranking(reader, "val/los")
        assert error.value.message == "no run has a metric val/los"
        assert error.value.hints == ("nearest: val/loss (3 runs)",)


def test_ties_stand_older_first_whatever_the_order_on_disk(store: Store) -> None:
    for run, minutes in (
        ("zzzzzzzzzz", 1),
        ("aaaaaaaaaa", 3),
        ("mmmmmmmmmm", 2),
        ("bbbbbbbbbb", 2),
    ):
        write_run(store, make_run(run, value=1.5, minutes=minutes))
    with open_reader(store) as reader:
        assert order(ranking(reader)) == ["zzzz", "bbbb", "mmmm", "aaaa"]
