"""What a run is measured against: its own seed first, never a sibling; forks at their ends."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

import expdb
from expdb.index.reader import open_reader
from expdb.model import Eval, Run, RunState
from expdb.query.compare import comparison
from expdb.query.kin import against_base, base_of
from expdb.query.listing import listing
from expdb.query.results import Delta, Outcome
from expdb.store.resolve import Resolved
from expdb.store.store import Store
from tests.query.conftest import NOISE, set_ref
from tests.query.made import make_run, write_run

BASE = "k3f9x2m7qd"


def run(id: str, *, lr: float = 0.003, seed: int | None = 0, **more: Any) -> Run:
    config = {"seed": seed, "optim": {"lr": lr}}
    return make_run(id, seed=seed, **{"settings": NOISE, "config": config, "value": 1.85, **more})


def exp01(id: str, **more: Any) -> Run:
    return run(id, **{"experiment": "exp01", "lr": 0.01, "parent": BASE, **more})


def write_all(store: Store, *runs: Run) -> None:
    for at, one in enumerate(runs):
        write_run(store, replace(one, created_at_ms=1_795_000_000_000 + at * 60_000))


def bases(store: Store, *ids: str) -> list[tuple[str, str] | None]:
    with open_reader(store) as reader:
        found = [base_of(reader, reader.run(id)) for id in ids]
    return [None if one is None else (one.parent[:4], one.measured[:4]) for one in found]


def compare(store: Store, *ids: str) -> Any:
    with open_reader(store) as reader:
        words = [Resolved(run=id, step=None, said="", is_literal=True) for id in ids]
        return comparison(reader, words)


def test_a_run_is_measured_against_its_seed_of_the_parents_config(store: Store) -> None:
    write_all(
        store,
        run(BASE),
        run("m8c2v5tq1n", seed=1, value=1.9),
        exp01("t1h6y3cz8r"),
        exp01("d6v3m9s2xk", seed=1, parent="t1h6y3cz8r"),
        exp01("f0n6k8y5wj", seed=2, parent="d6v3m9s2xk"),
        exp01("g2z8r5n1fs", seed=1, tree="7" * 40, parent="t1h6y3cz8r"),
        exp01("h4q8z1rn6c", seed=1, lr=0.02, parent="zzzzzzzzzz"),
    )
    assert bases(store, BASE, "m8c2v5tq1n", "t1h6y3cz8r") == [None, None, ("k3f9", "k3f9")]
    # A chain of seeds, as stores have it, goes up to the parent of the first.
    assert bases(store, "d6v3m9s2xk", "f0n6k8y5wj") == [("k3f9", "m8c2"), ("k3f9", "k3f9")]
    # Other code is a change, and its counterpart is the seed of the code before.
    assert bases(store, "g2z8r5n1fs", "h4q8z1rn6c") == [("t1h6", "d6v3"), None]


def test_a_fork_is_measured_against_what_it_was_forked_from(store: Store) -> None:
    fork = exp01("t1h6y3cz8r", seed=1)
    write_all(store, run(BASE), run("m8c2v5tq1n", seed=1))
    write_run(store, fork)
    _mark_fork(store, fork, 300)
    assert bases(store, "t1h6y3cz8r") == [("k3f9", "k3f9")]


def _mark_fork(store: Store, fork: Run, step: int) -> None:
    from expdb.store.files import read_json, write_json
    from expdb.store.layout import RunLayout

    path = RunLayout(store.root / fork.path).run_json
    body = read_json(path)
    body["fork"] = {"run": BASE, "step": step}
    body["parent"] = {"run": BASE, "step": step}
    write_json(path, body)


def test_two_seeds_of_one_config_are_neither_better_nor_worse(store: Store) -> None:
    evals = [
        Eval(id="e", task="cloze", step=300, metrics={"acc": acc}, n=400, items_digest="sha256:i")
        for acc in (0.1, 0.9)
    ]
    points = [{"val/loss": {300: v}, "eval/cloze/acc": {300: a}} for v, a in ((1.8, 0.1), (2, 0.9))]
    write_all(
        store,
        run(BASE, points=points[0], evals=(evals[0],), value=None),
        run("m8c2v5tq1n", seed=1, points=points[1], evals=(evals[1],), value=None),
        run("p2x7d9wk4h", seed=2, value=1.9),
    )
    found = compare(store, BASE, "m8c2v5tq1n")
    assert found.verdicts[0].outcome is Outcome.NO_DIFFERENCE
    assert found.verdicts[0].reason == (
        "val/loss +0.200 (+11.1 %): same config, other seed: this is noise"
    )
    spread = found.spread
    assert (spread.num_seeds, spread.low, spread.high) == (3, 1.8, 2.0)
    assert spread.sd == pytest.approx(0.1)
    judged = [diff.outcomes[1] for diff in (*found.metrics, *found.evals) if diff.outcomes[1]]
    assert judged == [Outcome.NO_DIFFERENCE, Outcome.NO_DIFFERENCE]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 0},
        {"lr": 0.004},
        {"tree": "7" * 40},
        {"data": {"train": "sha256:b"}},
    ],
)
def test_what_differs_in_more_than_the_seed_is_judged(
    store: Store, change: dict[str, object]
) -> None:
    more: dict[str, Any] = {"seed": 1, "value": 2.5, "data": {"train": "sha256:a"}, **change}
    write_all(store, run(BASE, data={"train": "sha256:a"}), run("m8c2v5tq1n", **more))
    found = compare(store, BASE, "m8c2v5tq1n")
    assert (found.verdicts[0].outcome, found.spread) == (Outcome.WORSE, None)


def fork_of(store: Store, step: int, curve: dict[int, float], **more: Any) -> Any:
    """Return the comparison of the baseline, 300 steps long, with a fork of it."""
    base = {"val/loss": {0: 5.5, 150: 2.2, 300: 1.85}}
    write_run(store, run(BASE, points=base), points=base)
    fork = run("t1h6y3cz8r", lr=0.004, points={"val/loss": curve}, value=None, minutes=1, **more)
    write_run(store, fork, points={"val/loss": curve})
    _mark_fork(store, fork, step)
    return compare(store, BASE, "t1h6y3cz8r")


def test_a_fork_behind_the_end_is_compared_at_both_ends(store: Store) -> None:
    found = fork_of(store, 300, {300: 1.85, 450: 1.7, 600: 1.5})
    assert (found.step, found.ends) == (None, (300, 600))
    assert found.metrics[0].values == (1.85, 1.5)
    assert found.verdicts[0].reason == (
        "val/loss -0.350 (-18.9 %) at step 600, against step 300, beyond noise ±0.022"
    )
    assert found.verdicts[0].outcome is Outcome.BETTER
    with open_reader(store) as reader:
        assert against_base(reader, reader.run("t1h6y3cz8r"))[1] == found  # type: ignore[index]
    set_ref(store, "baseline", BASE)
    with open_reader(store) as reader:
        row = next(row for row in listing(reader).rows if row.id == "t1h6y3cz8r")
    assert row.delta == Delta(value=1.5 - 1.85, outcome=Outcome.BETTER, against=BASE)


def test_a_fork_that_shows_nothing_at_its_start_is_compared_too(store: Store) -> None:
    assert fork_of(store, 300, {450: 1.7, 600: 1.5}).ends == (300, 600)


def test_a_fork_before_the_end_is_compared_at_the_last_step_of_both(store: Store) -> None:
    found = fork_of(store, 150, {150: 2.2, 300: 1.7})
    assert (found.step, found.ends, found.metrics[0].values) == (300, (), (1.85, 1.7))


def test_a_fork_that_goes_past_the_end_is_compared_at_the_last_step_of_both(store: Store) -> None:
    found = fork_of(store, 150, {150: 2.2, 300: 1.7, 450: 1.6})
    assert (found.step, found.ends, found.metrics[0].values) == (300, (), (1.85, 1.7))


def test_a_fork_that_has_not_finished_is_compared_where_it_began(store: Store) -> None:
    found = fork_of(store, 300, {300: 1.85, 450: 1.7}, state=RunState.FAILED)
    assert (found.step, found.ends) == (300, ())
    assert found.verdicts[0].outcome is Outcome.INCONCLUSIVE


def test_a_list_says_where_a_seed_has_no_counterpart(store: Store) -> None:
    write_all(
        store,
        run(BASE),
        run("m8c2v5tq1n", seed=1, value=1.95),
        exp01("t1h6y3cz8r", value=1.9),
        exp01("d6v3m9s2xk", seed=1, value=1.9),
        exp01("f0n6k8y5wj", seed=2, value=1.9),
    )
    set_ref(store, "baseline", BASE)
    with open_reader(store) as reader:
        rows = {row.id[:4]: row.delta for row in listing(reader).rows}
    told = {
        name: (round(delta.value, 3), str(delta.outcome), delta.against[:4], delta.other_seed)
        for name, delta in rows.items()
        if delta is not None
    }
    assert told == {
        "m8c2": (0.1, "no_difference", "k3f9", None),  # five bands away, and still noise
        "t1h6": (0.05, "worse", "k3f9", None),
        "d6v3": (-0.05, "better", "m8c2", None),
        "f0n6": (0.05, "worse", "k3f9", 0),
    }


def test_a_longer_run_is_read_where_its_seed_of_the_baseline_ends(store: Store) -> None:
    longer = {"val/loss": {0: 5.5, 200: 2.0, 250: 1.9, 300: 1.8}}
    base = {"val/loss": {0: 5.5, 200: 2.1}}
    other = {"val/loss": {0: 5.5, 200: 2.2, 250: 2.0}}
    write_run(store, run(BASE, points=base), points=base)
    write_run(store, run("m8c2v5tq1n", seed=1, points=other), points=other)
    for id, seed in (("t1h6y3cz8r", 0), ("d6v3m9s2xk", 1)):
        write_run(store, exp01(id, seed=seed, points=longer, minutes=5), points=longer)
    set_ref(store, "baseline", BASE)
    with open_reader(store) as reader:
        rows = {row.id[:4]: row.delta for row in listing(reader).rows}
    assert rows["t1h6"] == Delta(value=2.0 - 2.1, outcome=None, at_step=200, against=BASE)
    assert rows["d6v3"] == Delta(value=1.9 - 2.0, outcome=None, at_step=250, against="m8c2v5tq1n")


def test_a_damaged_file_of_a_longer_run_is_named(store: Store) -> None:
    longer = {"val/loss": {0: 5.5, 200: 2.0, 300: 1.8}}
    base = {"val/loss": {0: 5.5, 200: 2.1}}
    write_run(store, run(BASE, points=base), points=base)
    folder = write_run(store, exp01("t1h6y3cz8r", points=longer), points=longer)
    next((folder / "points").iterdir()).write_bytes(b"PAR1")
    set_ref(store, "baseline", BASE)
    with open_reader(store) as reader:
        found = listing(reader)
    assert [row.delta for row in found.rows] == [None, None]
    assert found.warnings
    assert found.warnings[0].startswith("t1h6y3cz8r exp01: part-")


def test_the_reader_of_python_selects_as_the_list_does(store: Store) -> None:
    write_all(store, run(BASE), exp01("t1h6y3cz8r"), exp01("d6v3m9s2xk", seed=1, value=1.7))
    opened = expdb.open(store.root)
    found = opened.runs("optim.lr >= 0.01 and val/loss < 1.8")
    assert [row.id for row in found.rows] == ["d6v3m9s2xk"]
    assert [row.id for row in opened.runs(["experiment = exp01", "seed = 0"]).rows] == [
        "t1h6y3cz8r"
    ]
    assert [row.id for row in opened.runs(sort="val/loss", limit=1).rows] == ["d6v3m9s2xk"]
    (row,) = opened.runs("seed = 1", columns=["+optim.lr"]).rows
    assert row.extra == {"optim.lr": 0.01}
    with pytest.raises(expdb.NotFound, match=r"optim\.lrr"):
        opened.runs("optim.lrr > 1")
    with open_reader(store) as reader:
        assert opened.runs().rows == listing(reader, limit=None).rows


def test_the_closing_table_of_a_run_whose_parent_is_gone_stands_alone(store: Store) -> None:
    write_all(store, run(BASE), exp01("t1h6y3cz8r", parent="zzzzzzzzzz"))
    opened = expdb.open(store.root)
    lines = opened.closing_table("t1h6y3cz8r", stream=io.StringIO(), env={})
    assert lines[0].strip() == "exp01 t1h6"
    assert [line.split() for line in lines[-3:]] == [
        ["events", "none"],
        [],
        ["look:", "expdb", "show", "t1h6"],
    ]


def test_a_parent_of_another_seed_is_said(store: Store) -> None:
    write_all(store, run(BASE), exp01("t1h6y3cz8r", seed=3, value=1.9))
    opened = expdb.open(store.root)
    lines = opened.closing_table("t1h6y3cz8r", stream=io.StringIO(), env={})
    assert lines[lines.index("") + 1 : -3] == [
        "worse  val/loss +0.050 (+2.7 %), beyond noise +-0.022",
        "not the same seed: 3 against 0; no baseline with seed 3 has finished",
    ]
