"""`log --why`: which change moved a metric, by the runs that differ in it alone."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from expdb.errors import NotFound
from expdb.index.reader import open_reader
from expdb.model import Run, RunState
from expdb.query.results import Outcome
from expdb.query.why import why
from expdb.query.why_results import Cause, Why
from expdb.report.style import Style
from expdb.report.why import render
from expdb.store.store import Store
from tests.query.made import make_run, make_store, write_run

SD = 0.008
BAND = 1.96 * 2**0.5 * SD
SETTINGS = {"seed_key": "seed", "noise": {"val/loss": SD}}
BASE = {"optim.lr": 0.003, "optim.wd": 0.1, "model.width": 96, "data.seq": 64, "loop.clip": 1.0}


def made(run: str, value: float | None, change: dict[str, Any] | None = None, **more: Any) -> Run:
    """Return a run of BASE with other values; `used` is path -> blob."""
    seed = more.pop("seed", 0)
    used = more.pop("used", None)
    config: dict[str, Any] = {"seed": seed}
    for key, one in {**BASE, **(change or {})}.items():
        group, name = key.split(".")
        config.setdefault(group, {})[name] = one
    values: dict[str, Any] = {"experiment": "e" + run[:4], "settings": SETTINGS}
    found = make_run(run, value=value, config=config, seed=seed, **{**values, **more})
    if used is None:
        return found
    attempt = found.attempts[0]
    return replace(found, attempts=(replace(attempt, pin=replace(attempt.pin, used=used)),))


def asked(store: Store, runs: list[Run], run: str | None = None, metric: str = "val/loss") -> Why:
    for at, one in enumerate(runs):
        write_run(store, replace(one, created_at_ms=one.created_at_ms + at * 60_000))
    with open_reader(store) as reader:
        return why(reader, metric, run=run)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path / "runs")


def by_name(causes: tuple[Cause, ...]) -> dict[str, Cause]:
    return {cause.change.name: cause for cause in causes}


def eight(planted: str) -> list[Run]:
    """Return a chain of four and four leaves beside it; one key moves val/loss by 10 bands."""
    jitter = random.Random(7)
    steps = [
        ("r0aaaaaaaa", None, {}),
        ("r1aaaaaaaa", "r0aaaaaaaa", {"optim.lr": 0.01}),
        ("r2aaaaaaaa", "r1aaaaaaaa", {"optim.lr": 0.01, "model.width": 128}),
        ("r3aaaaaaaa", "r2aaaaaaaa", {"optim.lr": 0.01, "model.width": 128, "data.seq": 128}),
        ("s0aaaaaaaa", "r0aaaaaaaa", {"optim.wd": 0.2}),
        ("s1aaaaaaaa", "r0aaaaaaaa", {"loop.clip": 0.5}),
        ("s2aaaaaaaa", "r0aaaaaaaa", {"loop.ema": 0.99}),
        ("s3aaaaaaaa", "r3aaaaaaaa",
         {"optim.lr": 0.01, "model.width": 128, "data.seq": 128, "loop.clip": 0.5}),
    ]  # fmt: skip
    return [
        made(
            run,
            1.85 + jitter.uniform(-BAND, BAND) / 3 + (10 * BAND if planted in change else 0.0),
            change,
            parent=parent,
        )
        for run, parent, change in steps
    ]


@pytest.mark.parametrize("planted", ["optim.lr", "model.width", "data.seq"])
def test_of_eight_runs_the_planted_key_is_named_and_the_others_are_within_noise(
    store: Store, planted: str
) -> None:
    found = asked(store, eight(planted), "r3aaaaaaaa")
    assert [step.run for step in found.steps] == ["r1aaaaaaaa", "r2aaaaaaaa", "r3aaaaaaaa"]
    assert not any(step.is_confounded for step in found.steps)
    causes = by_name(found.causes)
    assert set(causes) == {"optim.lr", "model.width", "data.seq"}
    effect = causes.pop(planted).effect
    assert effect is not None
    assert effect.outcome is Outcome.WORSE
    assert abs(effect.value - 10 * BAND) < BAND
    assert effect.half_width == pytest.approx(BAND, rel=1e-4)
    assert found.causes[0].change.name == planted  # the largest effect first
    beside = by_name(found.beside)
    assert {"optim.wd", "loop.ema", "loop.clip"} <= set(beside)
    for one in (*causes.values(), *(beside[name] for name in ("optim.wd", "loop.ema"))):
        assert one.effect is not None
        assert one.effect.outcome is Outcome.NO_DIFFERENCE


@pytest.mark.parametrize("planted", ["optim.lr", "model.width", "data.seq"])
def test_of_eight_runs_the_text_names_the_planted_key_and_no_other(
    store: Store, planted: str
) -> None:
    lines = render(asked(store, eight(planted), "r3aaaaaaaa"), Style())
    said = {key: "" for key in ("optim.lr", "model.width", "data.seq", "optim.wd", "loop.ema")}
    for key in said:
        said[key] = [line for line in lines if line.startswith(f"{key} ")][-1]
    assert "  worse  " in said.pop(planted)
    assert all("  within noise  " in line for line in said.values())
    [cause] = [line for line in lines if line.startswith("cause ")]
    assert cause.split()[1] == planted


@pytest.mark.parametrize("planted", ["optim.wd", "loop.clip", "loop.ema"])
def test_without_a_run_the_planted_key_is_found_in_the_whole_store(
    store: Store, planted: str
) -> None:
    found = asked(store, eight(planted))
    moved = {c.change.name for c in found.causes if c.effect and c.effect.outcome is Outcome.WORSE}
    assert moved == {planted}
    assert len(by_name(found.causes)) == 6


def test_two_pairs_of_one_change_halve_the_variance(store: Store) -> None:
    found = by_name(asked(store, eight("loop.clip")).causes)["loop.clip"]
    assert [(pair.before, pair.after) for pair in found.pairs] == [
        (("r0aaaaaaaa",), ("s1aaaaaaaa",)),
        (("r3aaaaaaaa",), ("s3aaaaaaaa",)),
    ]
    assert found.effect is not None
    assert found.effect.half_width == pytest.approx(BAND / 2**0.5, rel=1e-4)


def test_several_changes_at_once_are_confounded(store: Store) -> None:
    runs = [
        made("r0aaaaaaaa", 1.85, used={"train.py": "1" * 40}),
        made("r1aaaaaaaa", 2.5, {"optim.lr": 0.01, "model.width": 128}, parent="r0aaaaaaaa",
             used={"train.py": "2" * 40}, tree="7" * 40),
    ]  # fmt: skip
    found = asked(store, runs, "r1aaaaaaaa")
    (step,) = found.steps
    assert [change.name for change in step.left] == ["model.width", "optim.lr", "train.py"]
    assert [cause.effect for cause in found.causes] == [None] * 3
    assert asked(store, runs).steps[0].is_confounded  # in the whole store too


def test_other_pairs_separate_what_changed_at_once(store: Store) -> None:
    runs = [
        made("r0aaaaaaaa", 1.85),
        made("r1aaaaaaaa", 2.5, {"optim.lr": 0.01, "model.width": 128}, parent="r0aaaaaaaa"),
        made("s0aaaaaaaa", 2.4, {"optim.lr": 0.01}),  # of nobody; one key from each of them
    ]
    found = asked(store, runs, "r1aaaaaaaa")
    assert not found.steps[0].is_confounded
    effects = {name: one.effect.value for name, one in by_name(found.causes).items() if one.effect}
    assert effects == pytest.approx({"optim.lr": 0.55, "model.width": 0.1})


def test_a_pair_the_other_way_round_counts_with_its_sign(store: Store) -> None:
    runs = [
        made("s1aaaaaaaa", 2.0, {"optim.lr": 0.01, "loop.clip": 0.5}),
        made("s0aaaaaaaa", 1.8, {"loop.clip": 0.5}),
        made("r0aaaaaaaa", 1.85),
        made("r1aaaaaaaa", 2.05, {"optim.lr": 0.01}, parent="r0aaaaaaaa"),
    ]
    cause = by_name(asked(store, runs, "r1aaaaaaaa").causes)["optim.lr"]
    assert [pair.delta.value for pair in cause.pairs] == pytest.approx([0.2, 0.2])
    assert not cause.disagree


def test_pairs_that_disagree_name_no_outcome(store: Store) -> None:
    runs = [
        made("r0aaaaaaaa", 1.85),
        made("r1aaaaaaaa", 2.05, {"optim.lr": 0.01}, parent="r0aaaaaaaa"),
        made("s0aaaaaaaa", 1.8, {"loop.clip": 0.5}),
        made("s1aaaaaaaa", 1.6, {"optim.lr": 0.01, "loop.clip": 0.5}),
    ]
    cause = by_name(asked(store, runs, "r1aaaaaaaa").causes)["optim.lr"]
    assert cause.disagree
    assert cause.effect is not None
    assert cause.effect.outcome is Outcome.INCONCLUSIVE


def test_a_changed_file_and_an_environment_are_causes(store: Store) -> None:
    one, two = {"train.py": "1" * 40, "net.py": "5" * 40}, {"train.py": "2" * 40}
    newer = {"python": "3.11.7", "torch": "2.14.0", "torch.num_threads": "1", "cpu": "other"}
    runs = [
        made("r0aaaaaaaa", 1.85, used=one),
        made("r1aaaaaaaa", 2.2, used=two, tree="7" * 40, parent="r0aaaaaaaa"),
        made("r2aaaaaaaa", 1.9, used=two, tree="7" * 40, parent="r1aaaaaaaa", environment=newer),
    ]
    found = asked(store, runs, "r2aaaaaaaa")
    assert [(c.change.kind, c.change.name) for c in found.causes] == [
        ("file", "train.py"),
        ("environment", "torch"),
    ]
    assert (found.causes[0].change.before, found.causes[0].change.after) == ("1" * 40, "2" * 40)


def test_a_file_that_only_one_side_imports_is_no_change_of_code(store: Store) -> None:
    runs = [
        made("r0aaaaaaaa", 1.85, used={"train.py": "1" * 40}),
        made("r1aaaaaaaa", 2.2, {"model.kind": "moe"}, parent="r0aaaaaaaa",
             used={"train.py": "1" * 40, "moe.py": "3" * 40}),
    ]  # fmt: skip
    found = asked(store, runs, "r1aaaaaaaa")
    assert [c.change.name for c in found.causes] == ["model.kind"]
    assert found.causes[0].effect is not None


def test_other_validation_data_give_no_outcome(store: Store) -> None:
    runs = [
        made("r0aaaaaaaa", 1.85, data={"val": "a"}),
        made("r1aaaaaaaa", 2.2, data={"val": "b"}, parent="r0aaaaaaaa"),
    ]
    (cause,) = asked(store, runs, "r1aaaaaaaa").causes
    assert cause.effect is not None
    assert cause.effect.outcome is Outcome.INCONCLUSIVE


def test_seeds_are_means_and_three_of_each_measure_their_own_noise(store: Store) -> None:
    runs = [
        made(f"r{lr}{seed}aaaaaaa", 1.85 + 0.2 * lr + 0.01 * seed, {"optim.lr": (0.003, 0.01)[lr]},
             seed=seed, parent="r00aaaaaaa" if lr else None, experiment=f"e{lr}")
        for lr, seed in product((0, 1), (0, 1, 2))
    ]  # fmt: skip
    (cause,) = asked(store, runs, "r12aaaaaaa").causes
    assert [len(pair.before) for pair in cause.pairs] == [3]
    assert cause.effect is not None
    assert cause.effect.value == pytest.approx(0.2)
    assert cause.effect.how == "welch"


def test_runs_without_a_value_cause_nothing(store: Store) -> None:
    runs = [
        made("r0aaaaaaaa", 1.85),
        made("r1aaaaaaaa", 2.2, {"optim.lr": 0.01}, parent="r0aaaaaaaa", state=RunState.CRASHED),
        made("r2aaaaaaaa", float("nan"), {"optim.lr": 0.02}, parent="r0aaaaaaaa"),
    ]
    found = asked(store, runs, "r1aaaaaaaa")
    assert [cause.effect for cause in found.causes] == [None]
    assert found.total is None
    assert asked(store, runs).causes == ()


def test_a_circle_of_parents_and_a_lost_one_end(store: Store) -> None:
    runs = [
        made("r0aaaaaaaa", 1.85, parent="r1aaaaaaaa"),
        made("r1aaaaaaaa", 2.2, {"optim.lr": 0.01}, parent="r0aaaaaaaa"),
        made("r2aaaaaaaa", 2.2, {"optim.lr": 0.02}, parent="gone000000"),
    ]
    assert len(asked(store, runs, "r1aaaaaaaa").steps) == 1
    assert asked(store, runs, "r2aaaaaaaa").steps == ()


def test_an_unknown_metric_names_the_nearest(store: Store) -> None:
    with pytest.raises(NotFound, match="no run has a metric val/los"):
        asked(store, [made("r0aaaaaaaa", 1.85)], metric="val/los")
    with pytest.raises(NotFound, match="no run has a metric"):
        asked(make_store(store.root.parent / "empty"), [])


def test_it_says_what_it_cannot_see(store: Store) -> None:
    runs = [
        made("r0aaaaaaaa", 1.85, tree=None, commit=None),
        made("r1aaaaaaaa", 2.2, {"optim.lr": 0.01}, parent="r0aaaaaaaa", tree=None, commit=None),
    ]
    found = asked(store, runs, "r1aaaaaaaa")
    assert found.warnings == (
        "the code of 2 runs was not pinned: a change of it between them cannot be seen",
    )
    mixed = asked(store, [runs[0], replace(runs[1], attempts=made("x0aaaaaaaa", 1).attempts)],
                  "r1aaaaaaaa")  # fmt: skip
    assert mixed.steps[0].unknown == ("code",)
    assert mixed.steps[0].is_confounded


def test_a_key_that_changed_with_a_file_is_no_pair(store: Store) -> None:
    runs = [
        made("r0aaaaaaaa", 1.85, used={"train.py": "1" * 40}),
        made("s0aaaaaaaa", 2.5, {"optim.lr": 0.01}, used={"train.py": "2" * 40}, tree="7" * 40),
    ]
    assert asked(store, runs).causes == ()
