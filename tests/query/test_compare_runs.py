from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from expdb.errors import BadInput, NotFound
from expdb.index.reader import Reader, open_reader
from expdb.model import Attempt, Eval, Objective, Pin, Run, RunState
from expdb.query.compare import asked_step, comparison
from expdb.query.compare_results import Comparison, MetricDiff
from expdb.query.lookup import lookup_many
from expdb.query.results import ABSENT, Outcome
from expdb.store.store import Store
from tests.query.conftest import BASELINE_CURVE, DATA, cast_run
from tests.query.made import make_run, write_run


def compare(
    reader: Reader, *words: str, cwd: Path | None = None, metric: str | None = None
) -> Comparison:
    return comparison(reader, lookup_many(reader, words), cwd=cwd, metric=metric)


def metric(found: Comparison, key: str) -> MetricDiff:
    return next(diff for diff in (*found.metrics, *found.evals) if diff.key == key)


def verdicts(found: Comparison) -> list[str]:
    return [f"{one.outcome} {one.reason}" for one in found.verdicts]


def test_the_main_job(cast: Reader) -> None:
    found = compare(cast, "baseline", "exp01")
    assert [run.id[:4] for run in found.runs] == ["k3f9", "t1h6"]
    assert verdicts(found) == ["worse val/loss +0.180 (+9.7 %), beyond noise ±0.022"]
    assert found.step == 300
    assert [(diff.key, diff.values) for diff in found.config if diff.differs] == [
        ("optim.lr", (0.003, 0.01))
    ]
    assert {diff.key for diff in found.config} == {
        "loop.device",
        "optim.lr",
        "schedule.kind",
    }  # the seed is apart
    loss = metric(found, "val/loss")
    assert found.metrics[0] == loss
    assert (loss.is_objective, loss.step, loss.better) == (True, 300, (None, False))
    assert loss.outcomes == (None, Outcome.WORSE)
    assert loss.deltas_pct[1] == pytest.approx(9.74, abs=0.01)
    train = metric(found, "train/loss")
    assert (train.outcomes, train.better) == ((None, None), (None, None))
    assert train.deltas[1] == pytest.approx(0.18)
    acc = metric(found, "eval/cloze/acc")
    assert (acc.values, acc.n, acc.outcomes) == ((0.46, 0.43), 400, (None, Outcome.NO_DIFFERENCE))
    assert acc.noise[1] == pytest.approx(0.049, abs=0.0005)
    assert (acc.better, acc.deltas_pct) == ((None, False), (None, None))
    assert acc.noise_how
    assert [dict(events) for events in found.num_events] == [{}, {"warn": 1}]
    assert found.noise is not None
    assert found.code.same_tree is True
    assert all(len(set(diff.values)) == 1 for diff in (*found.environment, *found.data))


def test_better_and_no_difference(cast: Reader) -> None:
    assert verdicts(compare(cast, "exp01", "h4q8")) == [
        "better val/loss -0.126 (-6.2 %), beyond noise ±0.022"
    ]
    found = compare(cast, "baseline", "exp01", "exp02_cosine")
    assert verdicts(found) == [
        "worse val/loss +0.180 (+9.7 %), beyond noise ±0.022",
        "no_difference val/loss -0.007 (-0.4 %), inside noise ±0.022",
    ]
    assert [verdict.run[:4] for verdict in found.verdicts] == ["t1h6", "d6v3"]


def test_reasons_to_be_inconclusive(cast: Reader) -> None:
    assert verdicts(compare(cast, "baseline", "a9m4")) == [
        "inconclusive exp06_moe a9m4 has no val/loss after step 150; at 150: -0.013"
    ]
    assert verdicts(compare(cast, "baseline", "c7t3")) == [
        "inconclusive val/loss is NaN in exp09_fp16 c7t3 since step 50"
    ]
    assert verdicts(compare(cast, "c7t3", "baseline")) == [
        "inconclusive val/loss is NaN in exp09_fp16 c7t3 since step 50"
    ]


def test_an_unfinished_run_is_read_at_the_last_step_both_have(cast: Reader) -> None:
    found = compare(cast, "baseline", "a9m4")
    assert found.step == 150
    assert metric(found, "val/loss").values == (2.284, 2.271)
    assert metric(found, "val/loss").outcomes == (None, Outcome.INCONCLUSIVE)


def store_two(store: Store, second: Run, *, first: Run | None = None, **points: object) -> Reader:
    first = first or cast_run("k3f9x2m7qd")
    write_run(store, first, points={"val/loss": BASELINE_CURVE})
    write_run(store, second, points={"val/loss": {300: 1.839}})
    return open_reader(store)


def test_no_noise_known(store: Store) -> None:
    plain = {"settings": {"seed_key": "seed"}}
    with store_two(
        store, cast_run("d6v3m9s2xk", **plain), first=cast_run("k3f9x2m7qd", **plain)
    ) as reader:
        found = compare(reader, "k3f9", "d6v3")
    assert verdicts(found) == [
        "inconclusive val/loss -0.007 (-0.4 %): 1 seed each and no noise declared"
    ]
    assert found.noise is None


def test_other_validation_data(store: Store) -> None:
    data = {**DATA, "val": "sha256:77d0ae13" + "0" * 56}
    with store_two(store, cast_run("t1h6y3cz8r", data=data)) as reader:
        found = compare(reader, "k3f9", "t1h6")
    assert verdicts(found) == [
        "inconclusive the val data differ: sha256:5b0e91c2 and sha256:77d0ae13"
    ]
    assert [diff.name for diff in found.data if len(set(diff.values)) > 1] == ["val"]


def test_other_training_data_are_a_change_like_any_other(store: Store) -> None:
    with store_two(store, cast_run("t1h6y3cz8r", data={**DATA, "train": "sha256:other"})) as reader:
        assert verdicts(compare(reader, "k3f9", "t1h6"))[0].startswith("worse ")


def test_no_metric_in_common(store: Store) -> None:
    acc = Objective(metric="val/acc", mode="max")
    with store_two(
        store, make_run("t1h6y3cz8r", points={"val/acc": {300: 0.5}}, objective=acc)
    ) as reader:
        assert verdicts(compare(reader, "k3f9", "t1h6")) == ["inconclusive no metric in common"]


def test_a_run_that_never_measured_its_objective(store: Store) -> None:
    with store_two(
        store, make_run("t1h6y3cz8r", experiment="exp01", points={"train/loss": {300: 0.5}})
    ) as reader:
        assert verdicts(compare(reader, "k3f9", "t1h6")) == [
            "inconclusive exp01 t1h6 has no val/loss"
        ]


def test_a_longer_run_is_compared_at_the_common_step(store: Store) -> None:
    longer = make_run(
        "t1h6y3cz8r", experiment="exp01", points={"val/loss": {150: 2.3, 300: 1.85, 600: 1.5}},
        settings={"noise": {"val/loss": 0.008}},
    )  # fmt: skip
    write_run(store, cast_run("k3f9x2m7qd"), points={"val/loss": BASELINE_CURVE})
    write_run(store, longer, points={"val/loss": {150: 2.3, 300: 1.85, 600: 1.5}})
    with open_reader(store) as reader:
        found = compare(reader, "k3f9", "t1h6")
    assert (found.step, metric(found, "val/loss").values) == (300, (1.848, 1.85))
    assert verdicts(found) == [
        "no_difference val/loss +0.002 (+0.1 %) at step 300, inside noise ±0.022"
    ]


def test_no_step_in_common(store: Store) -> None:
    write_run(store, cast_run("k3f9x2m7qd"), points={"val/loss": BASELINE_CURVE})
    write_run(
        store, make_run("t1h6y3cz8r", points={"val/loss": {7: 2.0}}), points={"val/loss": {7: 2.0}}
    )
    with open_reader(store) as reader:
        found = compare(reader, "k3f9", "t1h6")
    assert found.step is None
    assert verdicts(found) == ["inconclusive no step in common of val/loss"]
    assert metric(found, "val/loss").values == (None, None)


def test_a_crashed_run_that_has_all_its_values_still_did_not_finish(store: Store) -> None:
    crashed = cast_run("t1h6y3cz8r", state=RunState.CRASHED)
    with store_two(store, crashed) as reader:
        assert verdicts(compare(reader, "k3f9", "t1h6")) == [
            "inconclusive exp01 t1h6 crashed; at 300: +0.180"
        ]


@pytest.mark.parametrize(("reading", "values"), [("best", (2.0, 1.0)), ("mean_last_3", (3.0, 2.0))])
def test_the_declared_reading_is_compared(
    store: Store, reading: str, values: tuple[float, float]
) -> None:
    objective = Objective(metric="val/loss", reading=reading)  # type: ignore[arg-type]
    for run, curve in (
        ("aaaaaaaaaa", {1: 9.0, 2: 2.0, 3: 3.0, 4: 4.0}),
        ("bbbbbbbbbb", {1: 9.0, 2: 1.0, 3: 2.0, 4: 3.0}),
    ):
        write_run(
            store,
            make_run(run, points={"val/loss": curve}, objective=objective),
            points={"val/loss": curve},
        )
    with open_reader(store) as reader:
        assert metric(compare(reader, "aaaa", "bbbb"), "val/loss").values == values


def test_a_named_metric_is_judged_by(cast: Reader) -> None:
    found = compare(cast, "baseline", "exp01", metric="train/loss")
    assert found.objective == Objective(metric="train/loss")
    assert verdicts(found) == [
        "worse train/loss +0.180 (+10.9 %), beyond noise ±0.022"
    ]  # over three seeds
    with pytest.raises(NotFound) as error:
        compare(cast, "baseline", "exp01", metric="val/los")
    assert error.value.hints == ("nearest: val/loss",)


def test_one_run_cannot_be_compared(cast: Reader) -> None:
    with pytest.raises(BadInput, match="one run cannot be compared"):
        compare(cast, "baseline")


def test_configs_are_compared_under_the_rules_of_the_newest_run(store: Store) -> None:
    config = {"seed": 0, "optim": {"lr": 0.003, "kind": None}, "loop": {"workers": 4}}
    old = make_run("aaaaaaaaaa", config=config, value=1.0, settings={"digest": {"ignore": []}})
    rules = {"digest": {"ignore": ["loop.workers"]}, "seed_key": "seed"}
    new = make_run(
        "bbbbbbbbbb", value=1.0, minutes=5, settings=rules,
        config={"seed": 1, "optim": {"lr": 3, "kind": False}, "loop": {"workers": 8}, "z": "null"},
    )  # fmt: skip
    write_run(store, old)
    write_run(store, new)
    with open_reader(store) as reader:
        found = compare(reader, "aaaa", "bbbb")
    assert [(diff.key, diff.values, diff.differs) for diff in found.config] == [
        ("optim.kind", (None, False), True),
        ("optim.lr", (0.003, 3), True),
        ("z", (ABSENT, "null"), True),
    ]


def test_a_run_without_a_pin_says_why(store: Store) -> None:
    pin = Pin(reproducible=False, reasons=("not in a git repository",))
    bare = replace(cast_run("t1h6y3cz8r"), attempts=(Attempt(number=1, pin=pin),))
    with store_two(store, bare) as reader:
        code = compare(reader, "k3f9", "t1h6").code
    assert (code.same_tree, code.note) == (None, "t1h6 exp01: not in a git repository")


def test_evals_of_other_items_or_other_kinds_have_no_outcome(store: Store) -> None:
    def run(name: str, items: str, minutes: int) -> Run:
        evals = (
            Eval(
                id="a",
                task="cloze",
                step=300,
                metrics={"acc": 0.4, "acc_stderr": 0.1},
                n=400,
                items_digest=items,
            ),
            Eval(id="b", task="sum", step=300, metrics={"bleu": 31.5}, n=400, items_digest="same"),
        )
        return make_run(name, value=1.8, evals=evals, minutes=minutes)

    write_run(store, run("aaaaaaaaaa", "one", 0))
    write_run(store, run("bbbbbbbbbb", "two", 1))
    with open_reader(store) as reader:
        found = compare(reader, "aaaa", "bbbb")
    assert [diff.key for diff in found.evals] == ["eval/cloze/acc", "eval/sum/bleu"]
    assert all(diff.outcomes == (None, None) and diff.noise == (None, None) for diff in found.evals)
    assert metric(found, "eval/sum/bleu").values == (31.5, 31.5)  # though no series was logged


def test_points_are_read_only_where_runs_end_at_different_steps(store: Store) -> None:
    """The folders have no points at all: the summaries are enough for runs of one length."""
    write_run(store, cast_run("k3f9x2m7qd"))
    write_run(store, cast_run("t1h6y3cz8r"))
    with open_reader(store) as reader:
        assert metric(compare(reader, "k3f9", "t1h6"), "val/loss").values == (1.848, 2.028)


def test_infinite_values_have_no_delta(store: Store) -> None:
    write_run(
        store,
        make_run("aaaaaaaaaa", points={"val/loss": {300: 1.0}, "train/loss": {300: math.inf}}),
    )
    write_run(
        store,
        make_run("bbbbbbbbbb", points={"val/loss": {300: math.inf}, "train/loss": {300: 1.0}}),
    )
    with open_reader(store) as reader:
        found = compare(reader, "aaaa", "bbbb")
    assert metric(found, "train/loss").deltas == (None, None)
    assert verdicts(found) == ["inconclusive val/loss is Inf in baseline bbbb since step 300"]


def test_a_config_value_differs_by_its_canonical_json(store: Store) -> None:
    same = {"seed": 0, "a": math.nan, "b": 1, "c": (1, 2), "d": {"x": []}}
    old = {**same, "list": [1, 2], "deep": [{"k": [0]}], "one": 1, "text": "1", "none": None}
    new = {**same, "b": 1.0, "c": [1, 2], "list": [True, 2], "deep": [{"k": [False]}], "one": True,
           "text": 1, "none": "null"}  # fmt: skip
    write_run(store, make_run("aaaaaaaaaa", config=old, value=1.0, settings={}))
    write_run(store, make_run("bbbbbbbbbb", config=new, value=1.0, minutes=5, settings={}))
    with open_reader(store) as reader:
        found = compare(reader, "aaaa", "bbbb")
    assert [diff.key for diff in found.config if diff.differs] == [
        "deep", "list", "none", "one", "text",
    ]  # fmt: skip
    a, b = (next(d for d in found.config if d.key == key) for key in ("a", "b"))
    assert not a.differs
    assert not b.differs


def test_damaged_files_that_were_left_out_are_named(store: Store) -> None:
    base, run = cast_run("k3f9x2m7qd"), cast_run("a9m4y7h3pq")
    write_run(store, base, points={"val/loss": BASELINE_CURVE})
    path = write_run(store, run, points={"val/loss": {0: 5.5, 150: 2.271}})
    with open_reader(store) as reader:
        assert compare(reader, "k3f9", "a9m4").warnings == ()
    (part,) = (path / "points").iterdir()
    part.write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
    with open_reader(store) as reader:
        (said,) = compare(reader, "k3f9", "a9m4").warnings
    assert said.startswith("exp06_moe a9m4: left out of the comparison: ")
    assert part.name in said
    (path / "series.json").write_text("{")
    with open_reader(store) as reader:
        assert any("series.json" in line for line in compare(reader, "k3f9", "a9m4").warnings)


def test_runs_are_read_at_the_step_that_is_asked_for(store: Store) -> None:
    for at, run in enumerate(("k3f9x2m7qd", "t1h6y3cz8r")):
        points = {"val/loss": {10: 3.0 + at, 20: 2.0 + at / 2}}
        experiment = ("baseline", "exp01")[at]
        made = make_run(run, experiment=experiment, points=points)
        write_run(store, made, points=points)
    with open_reader(store) as reader:
        words = ("baseline@10", "exp01@10")
        plain = lookup_many(reader, ("baseline", "exp01"))
        targets = [replace(target, step=10) for target in plain]
        found = comparison(reader, targets, step=asked_step(words, targets))
        assert (found.step, metric(found, "val/loss").values) == (10, (3.0, 4.0))
        assert asked_step(("baseline", "exp01"), targets) is None
        apart = [targets[0], replace(targets[1], step=20)]
        with pytest.raises(BadInput, match="compared at one step, and 10 and 20 are asked for"):
            asked_step(("baseline@10", "exp01@20"), apart)
