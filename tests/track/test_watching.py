"""Rules in the training process: what they find is kept, and a replay finds the same."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import expdb
from expdb.errors import BadInput
from expdb.query.replay import replay, rules_in
from expdb.store.monitored import read_monitored
from expdb.store.records import read_events
from expdb.store.runs import read_run
from expdb.track.state import State
from tests.track import tiny_linear as linear

SETTINGS = {"print": "quiet", "keep": {"last": None}, "dirty": "allow"}
MONITOR = {"loss_spike": {"cooldown": 5}, "grad_range": {"note_first": True}, "data_bound": False}


def begun(store: Path, monitor: Any = MONITOR, **given: Any) -> Any:
    settings = {**SETTINGS, "monitor": monitor}
    config = {"seed": 1, "optim": {"lr": 0.1}, "expdb": settings}
    return expdb.start(config, name="tiny", store=store, **given)


def state_of() -> State:
    model = torch.nn.Linear(2, 1)
    return State(model=model, optim=torch.optim.SGD(model.parameters(), lr=0.1))


def train(run: Any, state: State, first: int, last: int, save_at: int, spikes: Any) -> None:
    """Log as a loop does; `spikes` are steps at which loss and norm are high."""
    draw = random.Random(first)
    for step in range(first, last):
        if step == save_at:
            run.log({"val/loss": 2.0}, step=step)
            run.checkpoint(step, state)
            run.settle(wait=True)
        high = spikes.get(step, 0.0)
        loss = draw.gauss(2.0, 0.03) + high
        norm = 0.25 * math.exp(draw.gauss(0.0, 0.05)) * (1 + 40 * bool(high))
        run.log({"train/loss": loss, "train/grad_norm": norm, "train/lr": 1e-3}, step=step)
        if step % 10 == 0:
            run.log({"layer/a/act_dead": 0.9 if step > 60 else 0.1, "own/x": loss}, step=step)


def lines(run: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.dir / "events.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any]:
    """A run with trouble, gone on with from before some of it; and a fork from there."""
    store = tmp_path_factory.mktemp("watched") / "runs"
    spikes = {120: 3.0, 128: 2.0, 129: 2.0, 150: math.nan}
    first = begun(store)
    train(first, state_of(), 0, 160, 129, spikes)
    first.preempt("stopped")
    second, state = begun(store, resume=first.id), state_of()
    assert second.restore(state) == 129
    train(second, state, 129, 230, 180, {136: 4.0, 137: 4.0, 200: 1.0})
    second.finish()
    third, state = begun(store, fork=f"{first.id}@129"), state_of()
    third.restore(state)
    train(third, state, 129, 150, 0, {140: 4.0})
    third.finish()
    return first, second, third


def test_what_is_found_live_is_found_again(resumed: tuple[Any, Any, Any]) -> None:
    first, _, third = resumed
    found = replay(first.dir)
    assert found.is_equal
    assert (found.new, found.gone, found.problems) == ((), (), ())
    rules = {one.rule for one in found.events}
    assert {"loss_spike", "grad_spike", "non_finite", "dead_units", "grad_range"} <= rules
    assert found.num_recorded == len(found.events) >= 7
    attempts = {one.facts["attempt"] for one in found.events}
    assert attempts == {1, 2}
    forked = replay(third.dir)
    assert forked.is_equal
    assert {one.rule for one in forked.events} >= {"loss_spike", "grad_range"}  # at its 11th step


def test_a_resumed_attempt_goes_on_from_the_state_of_its_checkpoint(
    resumed: tuple[Any, Any, Any],
) -> None:
    first, second, _ = resumed
    stood = read_monitored(first.layout, 2)
    assert stood is not None
    assert stood.state is not None
    assert stood.section == MONITOR
    own = [one for one in lines(second) if one["attempt"] == 2 and one["rule"] == "loss_spike"]
    assert (own[0]["state"], own[0]["step"], own[0]["opened"]) == ("over", 129, 128)
    assert [one["step"] for one in own if one["state"] == "open"][-1] == 200


def test_other_rules_find_other_things_and_are_warm_where_an_attempt_begins(
    resumed: tuple[Any, Any, Any],
) -> None:
    first, _, third = resumed
    changed = replay(first.dir, {**MONITOR, "loss_spike": {"cooldown": 5, "k": 5}}, is_own=False)
    assert not changed.is_equal
    assert {one.rule for one in (*changed.new, *changed.gone)} == {"loss_spike"}
    assert 136 in {one.step for one in changed.events if one.rule == "loss_spike"}
    assert replay(first.dir, False, is_own=False).gone
    none = replay(third.dir, False, is_own=False)
    assert none.events == ()


def test_an_event_has_what_only_training_knows(resumed: tuple[Any, Any, Any]) -> None:
    _, second, _ = resumed
    found = {
        (one.step, one.rule): one
        for one in read_run(second.dir, store_root=second.store.root).events
    }
    spike = found[200, "loss_spike"].facts
    assert spike["good"] == 180
    assert spike["command"] == f"expdb resume {second.id[:4]}@180 --lr-scale 0.5"
    assert set(spike["runbook"]) == {"cause", "checks", "action"}
    assert spike["window"]["train/loss"][-1][0] == 200
    assert len(spike["window"]["train/loss"]) <= 16
    assert len(spike["version"]) == 8
    nan = found[150, "non_finite"]
    assert nan.severity == "critical"
    assert nan.facts["value"] == "NaN"
    assert nan.facts["good"] == 129
    assert nan.now == "over at 151"


def test_the_loop_names_the_batches_of_an_event(tmp_path: Path) -> None:
    good = [(torch.ones(2, 5, 3, dtype=torch.float64), torch.ones(2, 5, dtype=torch.float64))] * 239
    bad = [(100 * good[0][0], good[0][1])]
    run = begun(tmp_path / "runs", monitor={})
    state = linear.linear(linear.Rows(*good[:221], *bad, *good[:20]), lr=1e-9)
    with run:
        linear.drive(run, state, max_steps=115, accum=2, save_every=50)
    events = {one.rule: one for one in read_events(run.layout, [])}
    assert events["loss_spike"].step == 110
    assert events["loss_spike"].facts["batches"] == [220, 221]
    assert events["loss_spike"].facts["good"] in (50, 100)  # the later one is in place, or nearly
    assert replay(run.dir).is_equal


def test_rules_that_make_no_sense_stop_a_start_and_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no rule is called expdb\.monitor\.los_spike") as caught:
        begun(tmp_path / "runs", monitor={"los_spike": True})
    assert "nearest: loss_spike" in caught.value.hints[0]
    assert not list((tmp_path / "runs").glob("exp=*"))


def test_without_rules_nothing_is_found(tmp_path: Path) -> None:
    run = begun(tmp_path / "runs", monitor=False)
    run.log({"train/loss": math.nan}, step=0)
    run.finish()
    assert not (run.dir / "events.jsonl").exists()
    assert replay(run.dir).is_equal


def test_a_state_is_compared_without_where_its_rules_stand(tmp_path: Path) -> None:
    run, state = begun(tmp_path / "runs"), state_of()
    train(run, state, 0, 5, 4, {})
    run.finish()
    before, other = state.digest(), state_of()
    from expdb.track.checkpoint import load_checkpoint

    load_checkpoint(run.layout, 4, other)
    assert other.loop.monitor is not None
    assert other.digest() == before


@pytest.mark.parametrize(
    "text", ["a: [1", "- 1", "!!python/object/apply:os.system ['true']", "\xff"]
)
def test_a_file_without_rules_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput, match=r"rules\.yaml"):
        rules_in(path)


def test_rules_are_read_from_a_preset_or_a_whole_config(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    for text in (
        "defaults: [base]\na: {k: 1}",
        "monitor: {a: {k: 1}}",
        "expdb: {monitor: {a: {k: 1}}}",
    ):
        path.write_text(text)
        assert rules_in(path) == {"a": {"k": 1}}
    with pytest.raises(BadInput, match="cannot read the rules"):
        rules_in(tmp_path / "none.yaml")
