"""What rules do by themselves: nothing unless asked, and then as a person would, to the bit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from expdb.model import RunState
from expdb.query.replay import replay
from expdb.store import control
from expdb.store.layout import RunLayout
from expdb.store.refs import read_refs
from expdb.store.runs import read_run
from tests.track import tiny_training as tiny
from tests.track.acting_run import ACCUM, RULE, Trained, same

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make runs belong to a script outside every repository: no code is pinned here."""
    script = str(tmp_path / "train.py")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", script, raising=False)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_without_an_action_a_rule_changes_nothing(store: Path, tmp_path: Path) -> None:
    plain, watched = Trained(tmp_path / "other", bad=()), Trained(store, bad=(12,))
    assert [one.rule for one in watched.read.events] == ["bad"]
    assert plain.read.events == ()
    assert plain.state.digest() == watched.state.digest()
    assert len(watched.read.attempts) == 1
    assert read_refs(watched.run.store.layout) == {}


def test_a_rewind_is_the_resume_that_a_person_would_make_to_the_bit(
    store: Path, tmp_path: Path
) -> None:
    """Update 9 is made of batches 18 and 19; two steps back before it stands checkpoint 4."""
    rewind = {"rewind": {"back": 2, "skip": 3, "lr_scale": 0.5}}
    auto = Trained(store, rewind, bad=(18,), steps=20)
    assert auto.read.state is RunState.FINISHED
    first, second = auto.read.attempts
    assert (first.number, second.number, second.resumed_from) == (1, 2, 4)
    assert second.intervention == {
        "skip_batches": 6, "skipped": [8, 19], "lr_scale": 0.5,
        "rewind": {"rule": "bad", "step": 9, "from": 10, "try": 1},
    }  # fmt: skip
    assert (second.pin.tree, second.data) == (first.pin.tree, first.data)
    hand = Trained(tmp_path / "hand", bad=(18,), steps=10)
    again = Trained(
        tmp_path / "hand", resume=f"{hand.run.id}@4", skip_batches=6, lr_scale=0.5, steps=20
    )
    assert again.read.attempts[-1].intervention["skipped"] == [8, 19]
    for key in ("train/loss", "train/grad_norm", "train/lr", "val/loss", "train/tokens"):
        assert dict(auto.series(key)) == dict(again.series(key)), key
    assert auto.state.digest() == again.state.digest()
    assert auto.taken[20:] == again.taken
    # What was left can be read, and counts no more.
    assert len(auto.series("train/loss", attempts=True)) == 20 + 6
    assert auto.read.series["train/loss"].count == 20
    assert auto.said == [
        "bad at 9: went back from step 10 to 4, try 1 of 2",
        "learning rate times 0.5 from step 4 on",
        "batches 8-19 skipped, those of 6 updates",
    ]
    assert replay(auto.run.dir).is_equal
    logs = [(auto.run.dir / f"attempts/{n}/log.txt").read_text() for n in (1, 2)]
    assert "went back" not in logs[0]
    assert "went back from step 10 to 4" in logs[1]
    assert "finished" in logs[1]


def test_tries_are_counted_over_attempts_and_a_further_one_leaves_out_more(store: Path) -> None:
    """From the same checkpoint again, behind what the first try left out; then the list goes on."""
    actions = [{"rewind": {"back": 2, "skip": 1, "tries": 2}}, "stop"]
    run = Trained(store, actions, bad=(18, 22, 34), steps=40)
    assert run.code == 143
    first, second, third = run.read.attempts
    assert [one.resumed_from for one in (first, second, third)] == [None, 4, 4]
    assert first.intervention == {}
    assert second.intervention["skipped"] == [8, 19]
    assert second.intervention["rewind"]["try"] == 1
    # Update 5 of the second attempt is made of batches 22 and 23: two more updates are left out.
    assert third.intervention["skipped"] == [8, 23]
    assert third.intervention["rewind"] == {"rule": "bad", "step": 5, "from": 6, "try": 2}
    assert run.said[-2:] == [
        "bad at 9: no rewind: 2 of 2 tries are used up",
        "bad at 9: stops at step 10",
    ]
    assert run.read.state is RunState.PREEMPTED
    assert run.read.reason == "rule bad at step 10, checkpoint saved"
    taken = [ids for _, ids in run.taken]
    assert len(taken) == (10 + 2 + 6) * ACCUM
    again = Trained(store, actions, bad=(18, 22, 34), steps=40, resume=run.run.id)
    assert (again.code, again.run.resumed_from) == (0, 10)
    assert replay(run.run.dir).is_equal


def test_without_a_good_checkpoint_it_says_so_and_goes_on(store: Path) -> None:
    run = Trained(store, {"rewind": {"back": 8}}, bad=(18,))
    assert run.code == 0
    assert len(run.read.attempts) == 1
    (event,) = (one for one in run.read.events if one.rule == "intervention")
    assert (event.step, event.severity) == (10, "warn")
    assert event.message == "bad at 9: no rewind: there is no good checkpoint up to step 1"
    assert event.facts["by"] == {"rule": "bad", "step": 9, "action": "rewind"}


def test_a_damaged_checkpoint_is_no_place_to_go_back_to(store: Path) -> None:
    def damage(loop: Any, run: Any) -> None:
        if loop.step == 9:
            run.settle(wait=True)
            path = run.dir / "checkpoints/step=8/model.pt"
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)

    run = Trained(store, {"rewind": {"back": 2}}, bad=(22,), steps=12, at_step=damage)
    assert run.read.attempts[1].resumed_from == 4


def test_what_a_tag_keeps_is_not_written_over(store: Path) -> None:
    """The tag of an earlier action counts too, so it has to be on what the rewind goes back to."""
    actions = ["tag", {"rewind": {"back": 4}}]
    run = Trained(store, actions, bad=(20,), steps=12)
    assert len(run.read.attempts) == 1
    name = f"bad-{run.run.id[:4]}-8"
    assert run.said[0] == f"bad at 10: checkpoint 8 tagged {name}"
    assert f"checkpoint 8 of {run.run.id[:4]} tiny is kept for tag {name}" in run.said[1]
    actions = [{"tag": {"back": 4}}, {"rewind": {"back": 4}}]
    other = Trained(store, actions, bad=(20,), steps=12, keep={"last": 1, "best": 0})
    assert other.read.attempts[1].resumed_from == 4
    assert other.said[1] == "bad at 10: went back from step 11 to 4, try 1 of 2"
    tags = {ref.name: ref.step for ref in read_refs(other.run.store.layout).values()}
    assert tags == {name: 8, f"bad-{other.run.id[:4]}-4": 4}
    assert [one.step for one in other.read.checkpoints] == [4, 8, 12]


def test_a_rewind_keeps_a_checkpoint_that_is_old_enough(store: Path) -> None:
    """With the last one alone there would be none; two more stay, whatever the distance."""
    there = []

    def look(loop: Any, run: Any) -> None:
        run.settle(wait=True)
        there.append([one.step for one in read_run(run.dir, store_root=run.store.root).checkpoints])

    rewind = {"rewind": {"back": 10}}
    Trained(store, rewind, steps=40, save_every=2, at_step=look, keep={"last": 1, "best": 0})
    assert max(map(len, there)) <= 3
    for step, found in enumerate(there, 1):
        newest = step // 2 * 2 if step % 2 else step - 2  # that of this border is saved after it
        assert newest < 12 or any(one <= newest - 10 for one in found), (step, found)


def test_lower_lr_is_the_scale_of_a_resume_to_the_bit(store: Path, tmp_path: Path) -> None:
    auto = Trained(store, "lower_lr", bad=(15,))
    assert auto.said == ["bad at 7: learning rate times 0.5 from step 8 on"]
    hand = Trained(tmp_path / "hand")
    again = Trained(tmp_path / "hand", resume=f"{hand.run.id}@8", lr_scale=0.5)
    assert same(auto.weights, again.weights)
    assert not same(auto.weights, hand.weights)
    for key in ("train/loss", "train/lr"):
        assert auto.series(key) == again.series(key)
    assert auto.state.loop.lr_scale == 0.5
    # It is in the checkpoint: a resume goes on with it, and does it no second time.
    Trained(store, "lower_lr", bad=(15,), resume=f"{auto.run.id}@12")
    assert dict(auto.series("train/lr"))[15] == dict(again.series("train/lr"))[15]


def test_a_decay_falls_in_a_line_and_ends_training_where_it_ends_at_0(store: Path) -> None:
    plain = {k: float.fromhex(v) for k, v in Trained(store).series("train/lr")}
    half = Trained(store, {"decay": {"to": 0.5, "steps": 4}}, bad=(15,))
    rates = {k: float.fromhex(v) for k, v in half.series("train/lr")}
    factors = [1.0] * 8 + [1.0, 0.875, 0.75, 0.625] + [0.5] * 4
    assert [rates[k] for k in range(16)] == [plain[k] * factors[k] for k in range(16)]
    again = Trained(store, resume=f"{half.run.id}@12")
    assert half.series("train/lr") == again.series("train/lr")
    whole = Trained(store, {"decay": {"steps": 6}}, bad=(15,))
    assert (whole.code, whole.loop.step, whole.read.state) == (0, 14, RunState.FINISHED)
    assert whole.read.usable[-1].step == 14
    assert whole.said == [
        "bad at 7: learning rate falls to 0, where training ends, over 6 steps from 8 on"
    ]


def test_an_update_that_fires_is_not_taken(store: Path) -> None:
    """The rule is about the loss, so that it is known before the optimizer steps."""
    rule = {**RULE, "signal": "train/loss", "actions": "skip_step"}
    losses = {k: float.fromhex(v) for k, v in Trained(store).series("train/loss")}
    worst = max(losses, key=losses.__getitem__)
    above = sorted(losses.values())[-2:]
    seen: dict[int, Any] = {}

    def look(loop: Any, run: Any) -> None:
        seen[loop.step] = [one.clone() for one in loop.state.models[""].parameters()]

    rule["above"] = sum(above) / 2
    run = Trained(store, monitor={"bad": rule}, at_step=look)
    assert run.state.loop.num_skipped == 1
    before = seen.get(worst, [one.clone() for one in tiny.build().models[""].parameters()])
    if worst:
        assert same(before, seen[worst + 1])
    assert not same(seen[worst + 1], seen[worst + 2])
    counted = {k: float.fromhex(v) for k, v in run.series("train/num_skipped_steps")}
    assert (counted[worst], counted[15]) == (1.0, 1.0)
    assert dict(run.series("train/loss"))[worst] == losses[worst].hex()
    assert run.said == [
        f"bad at {worst}: update {worst} not taken; train/num_skipped_steps counts on"
    ]
    assert len(run.series("train/loss")) == 16


def test_a_loss_that_is_no_number_is_survived(store: Path) -> None:
    """One batch gives NaN; without the action all weights are lost, with it none is."""
    run = Trained(store, monitor={"non_finite": {"actions": "skip_step"}}, nan_at=5)
    assert all(bool(torch.isfinite(one).all()) for one in run.weights)
    assert run.said == ["non_finite at 5: update 5 not taken; train/num_skipped_steps counts on"]
    lost = Trained(store, monitor={"non_finite": {"actions": "stop"}}, nan_at=5)
    assert lost.code == 143
    assert lost.read.reason == "rule non_finite at step 6, nothing saved: the loss is not finite"
    assert lost.read.usable[-1].step == 4


def test_note_save_stop_and_pause_are_what_a_person_asks_for(store: Path) -> None:
    noted = Trained(store, ["note", "save"], bad=(13,))
    assert noted.read.notes == ("bad at 6",)
    assert [one.step for one in noted.read.checkpoints] == [4, 7, 8, 12, 16]
    assert noted.said == ["bad at 6: noted", "bad at 6: checkpoint asked for at step 7"]
    stopped = Trained(store, "stop", bad=(13,))
    assert (stopped.code, stopped.read.state) == (143, RunState.PREEMPTED)
    assert stopped.read.reason == "rule bad at step 7, checkpoint saved"
    rest = Trained(store, "stop", bad=(13,), resume=stopped.run.id)
    assert rest.state.digest() == noted.state.digest()


def test_a_pause_waits_for_a_go_and_is_seen_from_outside(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RunState] = []

    def let_go(_: float) -> None:
        [folder] = store.glob("exp=*/run=*")
        seen.append(read_run(folder, store_root=store).state)
        control.request(RunLayout(folder), 1, "go")

    monkeypatch.setattr("expdb.track.control.wait_for_go.__kwdefaults__", {"sleep": let_go})
    monkeypatch.setattr("expdb.track.control.LOOK_S", 0.0)
    run = Trained(store, "pause", bad=(13,))
    assert (run.code, run.loop.step) == (0, 16)
    assert set(seen) == {RunState.PAUSED}
    assert run.said == ["bad at 6: pauses at step 7"]
    [plain] = [one for one in run.read.events if one.message == "goes on"]
    assert plain.step == 7


VALUES = dict(enumerate([3.0, 2.9, 2.8, 1.9, 2.6, 2.5, 2.4, 2.3, 2.2, 2.1, *[2.05] * 11]))
NO_GAIN = {"no_gain": {"window": 3, "min_rel_delta": 0.01, "patience": 3}}


def test_early_stop_ends_at_the_known_step_with_the_weights_of_the_best_mean(store: Path) -> None:
    """The lucky dip at 3 stops nothing; the means stop at 14, and the best of them is at 12."""
    seen: dict[int, Any] = {}

    def look(loop: Any, run: Any) -> None:
        seen[loop.step] = [one.clone() for one in loop.state.models[""].state_dict().values()]

    monitor = {"no_gain": {**NO_GAIN["no_gain"], "actions": "early_stop"}}
    keep = {"last": 1, "best": 0}
    run = Trained(
        store, monitor=monitor, values=VALUES, save_every=None, at_step=look, steps=20, keep=keep
    )
    assert (run.code, run.loop.step, run.read.state) == (0, 14, RunState.FINISHED)
    assert same(run.weights, seen[12])
    assert not same(run.weights, seen[14])
    assert [one.step for one in run.read.usable] == [12, 14]
    best = f"best-{run.run.id[:4]}-12"
    assert {ref.name: ref.step for ref in read_refs(run.run.store.layout).values()} == {best: 12}
    assert run.said == [
        "no_gain at 14: training ends at step 14; the weights will be those of step 12",
        f"weights are those of step 12, tagged {best}",
    ]
    assert sorted(dict(run.series("val/loss"))) == list(range(15))
    plain = Trained(store, monitor=NO_GAIN, values=VALUES, save_every=None, steps=20, keep=keep)
    assert plain.loop.step == 20
    assert [one.step for one in plain.read.usable] == [20]


def test_early_stop_goes_on_over_a_resume(store: Path) -> None:
    monitor = {"no_gain": {**NO_GAIN["no_gain"], "actions": "early_stop"}}

    def stop(loop: Any, run: Any) -> None:
        if loop.step == 13:
            loop.stop_for("a test")

    given = {"monitor": monitor, "values": VALUES, "steps": 20, "save_every": None}
    first = Trained(store, at_step=stop, **given)
    assert first.code == 143
    second = Trained(store, resume=first.run.id, **given)
    assert second.loop.step == 14
    whole = Trained(store, **given)
    assert same(second.weights, whole.weights)


def test_a_request_that_comes_during_an_evaluation_is_not_lost(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expdb.track.control.LOOK_S", 0.0)
    asked = []

    def ask(step: int, run: Any) -> None:
        if step == 4:
            asked.append(control.request(run.layout, 1, "save"))

    run = Trained(store, ["note"], save_every=None, at_eval=ask, steps=8)
    answer = control.answer(run.run.layout, asked[0])
    assert answer is not None
    assert (answer.step, answer.ok, answer.outcome) == (5, True, "checkpoint saved")
    assert [one.step for one in run.read.checkpoints] == [5, 8]
