from __future__ import annotations

import pytest

from expdb.index.reader import Reader, open_reader
from expdb.model import Objective, RunAt
from expdb.query.listing import listing
from expdb.query.rank import ranking
from expdb.query.results import Outcome
from expdb.query.runs import run_rows
from expdb.store.store import Store
from tests.query.conftest import NOISE, cast_run, set_ref
from tests.query.made import make_run, write_run


def deltas(reader: Reader) -> dict[str, tuple[str, str, int | None]]:
    found = {}
    for row in listing(reader).rows:
        if row.delta is not None:
            outcome = str(row.delta.outcome) if row.delta.outcome else ""
            found[row.id[:4]] = (f"{row.delta.value:+.3f}", outcome, row.delta.at_step)
    return found


def test_the_list_is_newest_first_with_the_baseline_marked(cast: Reader) -> None:
    shown = listing(cast)
    assert " ".join(row.id[:4] for row in shown.rows) == (
        "x5j2 g2z8 c7t3 a9m4 v8k2 b3w9 e7s5 f0n6 q9r1 d6v3 h4q8 t1h6 p2x7 m8c2 k3f9"
    )
    assert (shown.num_all, shown.metric) == (15, "val/loss")
    assert shown.baseline is not None
    assert shown.baseline.id == "k3f9x2m7qd"
    last = shown.rows[-1]
    assert (last.refs, last.is_head, last.delta) == (("baseline",), True, None)
    assert shown.noise is not None
    assert f"{shown.noise.band:.3f} {shown.noise.source}" == "0.022 declared"


def test_deltas_are_those_of_the_screen(cast: Reader) -> None:
    assert deltas(cast) == {
        "x5j2": ("+0.299", "", 150),
        "g2z8": ("-0.009", "no_difference", None),
        "a9m4": ("-0.013", "", 150),
        "v8k2": ("+0.004", "no_difference", None),
        "b3w9": ("+0.011", "no_difference", None),
        "e7s5": ("+1.023", "worse", None),
        "f0n6": ("-0.005", "no_difference", None),
        "q9r1": ("+0.004", "no_difference", None),
        "d6v3": ("-0.007", "no_difference", None),
        "h4q8": ("+0.054", "worse", None),
        "t1h6": ("+0.180", "worse", None),
        "p2x7": ("+0.008", "no_difference", None),
        "m8c2": ("+0.016", "no_difference", None),
    }


def test_head_is_where_a_rollback_set_it(cast: Reader) -> None:
    rows = listing(cast, head=RunAt(run="t1h6y3cz8r")).rows
    assert [row.id[:4] for row in rows if row.is_head] == ["t1h6"]


def test_a_limit_cuts_the_list_and_keeps_the_count(cast: Reader) -> None:
    shown = listing(cast, limit=3)
    assert [row.id[:4] for row in shown.rows] == ["x5j2", "g2z8", "c7t3"]
    assert shown.num_all == 15
    only = listing(cast, where="r.state = ?", params=["finished"], limit=2)
    assert [row.id[:4] for row in only.rows] == ["g2z8", "v8k2"]
    assert only.num_all == 12


def test_an_empty_store_has_an_empty_list(store: Store) -> None:
    with open_reader(store) as reader:
        shown = listing(reader)
    assert (shown.rows, shown.num_all, shown.baseline, shown.metric) == ((), 0, None, None)


def test_without_a_ref_the_newest_finished_baseline_is_measured_against(store: Store) -> None:
    for run in ("k3f9x2m7qd", "p2x7d9wk4h", "t1h6y3cz8r"):
        write_run(store, cast_run(run))
    write_run(store, cast_run("m8c2v5tq1n", variant="+a=1", minutes=9999))
    with open_reader(store) as reader:
        shown = listing(reader)
        assert shown.baseline is not None
        assert shown.baseline.id == "p2x7d9wk4h"
        assert not any(row.is_head for row in shown.rows)
        assert deltas(reader)["t1h6"] == ("+0.180", "worse", None)  # k3f9 has its seed


def test_a_delta_needs_the_same_objective_and_a_known_band(store: Store) -> None:
    plain = {"settings": {"seed_key": "seed"}}
    write_run(store, cast_run("k3f9x2m7qd", **plain))
    write_run(store, cast_run("t1h6y3cz8r", **plain))
    other = Objective(metric="val/loss", mode="min", reading="best")
    write_run(store, cast_run("h4q8z1rn6c", objective=other, **plain))
    set_ref(store, "baseline", "k3f9x2m7qd")
    with open_reader(store) as reader:
        assert deltas(reader) == {"t1h6": ("+0.180", "inconclusive", None)}
        assert listing(reader).noise is None


def test_an_unfinished_run_without_a_common_step_has_no_delta(store: Store) -> None:
    write_run(store, cast_run("k3f9x2m7qd"), points={"val/loss": {0: 5.5, 300: 1.848}})
    write_run(store, cast_run("a9m4y7h3pq"))
    with open_reader(store) as reader:
        assert deltas(reader) == {}


def test_a_direction_of_max_turns_the_outcome(store: Store) -> None:
    acc = Objective(metric="val/acc", mode="max")
    common = {"objective": acc, "settings": {"noise": {"val/acc": 0.01}}}
    write_run(store, make_run("k3f9x2m7qd", points={"val/acc": {300: 0.5}}, **common))
    write_run(
        store,
        make_run("t1h6y3cz8r", experiment="e", points={"val/acc": {300: 0.6}}, minutes=1, **common),
    )
    write_run(
        store,
        make_run("h4q8z1rn6c", experiment="e", points={"val/acc": {300: 0.4}}, minutes=2, **common),
    )
    with open_reader(store) as reader:
        assert deltas(reader) == {
            "t1h6": ("+0.100", "better", None),
            "h4q8": ("-0.100", "worse", None),
        }


def test_a_run_without_its_objective_is_listed_without_a_value(store: Store) -> None:
    write_run(store, cast_run("k3f9x2m7qd"))
    write_run(store, make_run("t1h6y3cz8r", experiment="e", minutes=9999))
    write_run(
        store, make_run("h4q8z1rn6c", experiment="e", objective=None, minutes=99999, value=3.0)
    )
    with open_reader(store) as reader:
        found = {row.id[:4]: (row.value, row.objective is None) for row in listing(reader).rows}
    assert found == {"k3f9": (1.848, False), "t1h6": (None, False), "h4q8": (None, True)}


def test_another_metric_may_be_read_of_every_run(cast: Reader) -> None:
    acc = Objective(metric="eval/cloze/acc", mode="max", reading="best")
    rows = run_rows(
        cast, objective=acc, metrics=["train/loss"], order="s.max DESC NULLS LAST, r.id"
    )
    assert [(row.id[:4], row.value) for row in rows[:2]] == [("m8c2", 0.490), ("q9r1", 0.478)]
    assert rows[0].metrics == {"train/loss": pytest.approx(1.664)}
    assert rows[-1].id[:4] == "c7t3"
    assert rows[-1].value is None


def test_outcome_words_are_the_documented_ones() -> None:
    assert [str(item) for item in Outcome] == ["better", "worse", "no_difference", "inconclusive"]


def test_runs_that_end_at_different_steps_get_no_verdict(store: Store) -> None:
    ends = {"k3f9x2m7qd": (0, 20), "t1h6y3cz8r": (0, 20, 60), "h4q8z1rn6c": (0, 10)}
    for at, (run, steps) in enumerate(ends.items()):
        points = {"val/loss": {step: 3.0 - step / 100 - at / 10 for step in steps}}
        config = {"points": points, "settings": NOISE, "minutes": at}
        experiment = "baseline" if at == 0 else "e"
        write_run(store, make_run(run, experiment=experiment, **config), points=points)
    with open_reader(store) as reader:
        # The longer run is read at 20, the shorter one at 10, where the baseline has no value.
        assert deltas(reader) == {"t1h6": ("-0.100", "", 20)}
        assert ranking(reader).warnings == (
            "the runs end at different steps, 10 to 60; each is ranked by its own last value",
        )


def test_a_baseline_that_was_run_only_with_overrides_is_measured_against(store: Store) -> None:
    write_run(store, cast_run("k3f9x2m7qd", variant="+loop=fast"))
    write_run(store, cast_run("t1h6y3cz8r"))
    with open_reader(store) as reader:
        assert deltas(reader) == {"t1h6": ("+0.180", "worse", None)}
