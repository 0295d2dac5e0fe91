"""The health of runs with known trouble: the right cause first, with its reasons and a command."""

from __future__ import annotations

import math
from typing import Any

import pytest

from expdb.model import RunState
from expdb.monitor.rules import BUILT_IN
from expdb.query.health_results import AREAS
from expdb.query.health_signs import SIGNS
from expdb.query.health_table import CAUSES
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.monitored import Monitored, write_monitored
from expdb.store.store import Store
from tests.query.health_runs import Rows, health, healthy, hit, jumped, write

RUN, GOOD = "e7s5g2p0va", "k3f9x2m7qd"
START = {"init/loss_excess": 0.05, "init/unshifted": 0.03, "init/leak": 0.0}


def first(store: Store, rows: Rows, **more: Any) -> Any:
    write(store, RUN, rows, **more)
    return health(store, RUN)


def test_a_run_without_trouble_is_healthy_and_says_what_looked(store: Store) -> None:
    found = first(store, healthy())
    assert (found.causes, found.warned, found.around, found.commands) == ((), (), None, ())
    outcomes = {one.rule: one.outcome for one in found.looked}
    assert set(outcomes) == set(BUILT_IN) - {
        "loss_jump", "grad_range", "gpu_idle", "loss_off_mean", "no_gain",
    }  # fmt: skip
    assert outcomes["loss_spike"] == outcomes["divergence"] == outcomes["data_bound"] == "fine"
    why = {one.rule: one.why for one in found.looked if one.outcome == "not judged"}
    assert why["plateau"] == "300 of 1,000 values of train/loss"
    assert why["moe_imbalance"] == "no metric layer/*/moe_max_vio"
    assert why["overfit"] == "no metric val/loss"
    assert why["leak"] == "no metric init/max_steps"


def test_a_rate_that_jumped_comes_before_a_bad_batch(store: Store) -> None:
    write(store, GOOD, healthy(), config={"schedule": {"jump_factor": 1}})
    config = {"schedule": {"jump_factor": 30}}
    found = first(store, jumped(), checkpoints=(100,), config=config, minutes=9)
    rate, *rest = found.causes
    assert rate.name == "too high a rate"
    # divergence 3 and loss_spike 2, twice as both are critical; grad_spike 1; the signs 5 and 1
    assert rate.score == 6 + 4 + 1 + 5 + 1
    assert rate.reasons[0] == "divergence, loss_spike, grad_spike point to it"
    assert rate.reasons[1] == "train/lr 0.003 to 0.09 at 150, 1 step before"
    assert "it did not come back (loss_spike is critical)" in rate.reasons
    batch = next(one for one in rest if one.name == "a bad batch")
    assert batch.against == ("train/lr 0.003 to 0.09 at 150, 1 step before",)
    assert found.good == 100
    assert found.healthy is not None
    assert (found.healthy.run, found.healthy.keys) == (GOOD, ("schedule.jump_factor",))
    labels = [label for label, _ in found.commands]
    assert labels == ["repeat", "data", "rate"]
    commands = dict(found.commands)
    assert commands["repeat"] == "expdb probe repro e7s5"
    assert commands["rate"] == "expdb resume e7s5@100 --lr-scale 0.5"
    assert commands["data"].startswith("expdb resume e7s5@100 --skip-batches ")


def test_a_spike_that_comes_back_under_a_steady_rate_is_a_bad_batch(store: Store) -> None:
    found = first(store, hit(), checkpoints=(100, 200))
    cause = found.causes[0]
    assert cause.name == "a bad batch"
    assert "the loss was back at 203" in cause.reasons
    assert "train/lr was steady at 0.003" in cause.reasons
    assert cause.command == "expdb resume e7s5@100 --skip-batches 103"  # up to 202, its last
    assert found.around is not None
    assert found.around.batches == (200, 200)
    assert found.around.steps[:3] == (198, 199, 200)
    assert found.around.values["train/lr"][2] == 0.003
    assert found.around.values["train/loss"][2] > 7.0  # type: ignore[operator]


def test_without_a_checkpoint_before_it_the_event_is_shown(store: Store) -> None:
    found = first(store, hit(), checkpoints=(250,))
    assert found.good is None
    assert found.causes[0].command == "expdb events e7s5@200"
    assert found.causes[0].label == "look"


def test_other_seeds_at_the_same_step_speak_against_a_bad_batch(store: Store) -> None:
    write(store, "m8c2v5tq1n", hit(), seed=1)
    found = first(store, hit(), minutes=5)
    batch = next(one for one in found.causes if one.name == "a bad batch")
    assert batch.against == ("seed 1, with other batches, has loss_spike there too",)


@pytest.mark.parametrize("same", [True, False])
def test_a_repeat_says_whether_it_has_the_same_trouble(store: Store, same: bool) -> None:
    write(store, GOOD, hit() if same else healthy())
    found = first(store, hit(), minutes=5)
    assert [(one.run, one.same) for one in found.repeats] == [(GOOD, same)]
    assert "repeat" not in dict(found.commands)


def test_a_higher_rate_than_that_of_the_healthy_run_is_named(store: Store) -> None:
    write(store, GOOD, healthy(), config={"seed": 0, "optim": {"lr": 0.003}})
    rows = jumped()
    for row in rows:
        row["train/lr"] = 0.01
    found = first(store, rows, config={"seed": 0, "optim": {"lr": 0.01}}, minutes=5)
    assert found.causes[0].name == "too high a rate"
    assert "optim.lr 0.01 against 0.003 in the healthy run" in found.causes[0].reasons


def test_validation_that_rises_over_little_text(store: Store) -> None:
    whole = {"data": {"limit_bytes": None}}
    write(store, GOOD, healthy(), config=whole)
    rows = healthy()
    for step in range(0, 300, 20):
        rows[step]["val/loss"] = 2.6 + abs(step - 80) / 100
    little = {"data": {"limit_bytes": 12000}}
    found = first(store, rows, config=little, minutes=5)
    cause = found.causes[0]
    assert (cause.name, cause.area) == ("too little data", "data")
    assert "data.limit_bytes 12000 against null in the healthy run" in cause.reasons
    assert cause.command == "expdb path e7s5@best"


def test_other_data_than_those_of_the_healthy_run(store: Store) -> None:
    write(store, GOOD, healthy(), data={"train": "sha256:aa"})
    found = first(store, jumped_loss(), data={"train": "sha256:bb"}, minutes=5)
    cause = found.causes[0]
    assert cause.name == "other data"
    assert "the data train differ from those of the healthy run" in cause.reasons
    assert cause.command == f"expdb compare {GOOD[:4]} {RUN[:4]}"


def jumped_loss() -> Rows:
    rows = healthy()
    for step in range(150, 300):
        rows[step]["train/loss"] += 0.6
    return rows


def test_labels_that_are_not_shifted(store: Store) -> None:
    rows = healthy()
    rows[0] |= {**START, "init/unshifted": 1.0}
    found = first(store, rows)
    assert found.causes[0].name == "unshifted labels"
    assert "init/unshifted 1" in found.causes[0].reasons


def test_a_mask_that_lets_later_tokens_through(store: Store) -> None:
    rows = healthy()
    rows[0] |= {**START, "init/leak": 0.3}
    found = first(store, rows)
    assert found.causes[0].name == "the answer in the input"
    assert "init/leak 0.3" in found.causes[0].reasons


def test_weights_that_begin_too_large(store: Store) -> None:
    write(store, GOOD, healthy(), config={"model": {"init_std": 0.02}})
    rows = healthy()
    rows[0] |= {**START, "init/loss_excess": 4.0}
    found = first(store, rows, config={"model": {"init_std": 0.3}}, minutes=5)
    cause = found.causes[0]
    assert (cause.name, cause.area) == ("a bad init", "model")
    assert "model.init_std 0.3 against 0.02 in the healthy run" in cause.reasons


def layered(key: str, value: float) -> Rows:
    rows = healthy()
    for step in range(0, 300, 5):
        rows[step][key] = value
    return rows


def test_experts_without_balancing(store: Store) -> None:
    found = first(
        store, layered("layer/blocks.1.mlp.router/moe_max_vio", 2.6), config={"model": {"gamma": 0}}
    )
    assert found.causes[0].name == "unbalanced experts"
    assert found.causes[0].reasons == ("moe_imbalance points to it", "model.gamma 0")
    assert found.around is not None
    assert found.around.layers == ("blocks.1.mlp.router",)


def test_units_that_died(store: Store) -> None:
    found = first(store, layered("layer/blocks.0.mlp/act_dead", 1.0))
    assert found.causes[0].name == "units that died"


@pytest.mark.parametrize(
    ("wait", "cause", "area", "probe"),
    [(60.0, "a slow loader", "data", "loader"), (0.5, "a slow device", "machine", "throughput")],
)
def test_a_slow_loader_and_a_slow_device_are_told_apart(
    store: Store, wait: float, cause: str, area: str, probe: str
) -> None:
    rows = healthy(400)
    for step, row in enumerate(rows):
        row["train/tokens_per_s"] = (20_000.0 if step < 300 else 12_000.0) + step % 7
        row["train/data_wait_pct"] = wait
    found = first(store, rows)
    assert (found.causes[0].name, found.causes[0].area) == (cause, area)
    assert found.causes[0].command == f"expdb probe {probe} {RUN[:4]}"


def nan_at(at: int = 120) -> Rows:
    rows = healthy(at + 10)
    for row in rows[at:]:
        row["train/loss"] = row["train/grad_norm"] = math.nan
    return rows


def traced(message: str) -> list[dict[str, Any]]:
    line = {"step": 120, "severity": "info", "rule": "forensics", "message": message}
    return [{**line, "created_at_ms": 0}]


def test_a_loss_that_is_no_number_by_what_forensics_found(store: Store) -> None:
    note = "train/loss is NaN at step 120; batch 120; first module that is not finite: blocks.1.mlp"
    bad = {"more": traced(note), "state": RunState.FAILED, "reason": "train/loss is NaN since 120"}
    found = first(store, nan_at(), **bad)
    assert found.causes[0].name == "a bad batch"
    said = "the weights were finite, the forward pass of its batch was not"
    assert said in found.causes[0].reasons
    assert found.around is not None
    assert found.around.notes == (note,)
    assert not [one for one in found.found if one.rule == "forensics"]
    broken = "train/loss is NaN at step 120; batch 120; weights not finite already: head.weight"
    write(store, "x5j2v8c0ke", nan_at(), **{**bad, "more": traced(broken)})
    assert health(store, "x5j2v8c0ke").causes[0].name == "too high a rate"
    half = {"config": {"loop": {"precision": "fp16"}}}
    write(store, "c7t3b9q5nv", nan_at(), **bad, **half)
    assert "overflow in half precision" in [one.name for one in health(store, "c7t3b9q5nv").causes]


@pytest.mark.parametrize(
    ("state", "reason", "cause", "command"),
    [
        ("failed", "ValueError: bad", "an error of the script", "expdb path e7s5 log"),
        ("failed", "CUDA out of memory", "too little memory", "expdb probe memory e7s5"),
        ("preempted", "SIGTERM at step 187", "a stop from outside", "expdb resume e7s5"),
        ("crashed", "the process died", "a process that was killed", "expdb resume e7s5"),
    ],
)
def test_an_end_without_a_rule_has_a_cause_too(
    store: Store, state: str, reason: str, cause: str, command: str
) -> None:
    found = first(store, healthy(), state=RunState(state), reason=reason)
    assert [one.name for one in found.causes] == [cause]
    assert [command for _, command in found.commands] == [command]
    assert found.causes[0].reasons[0].endswith(found.run.reason)


def test_a_run_that_no_rule_watched_is_looked_at_now(store: Store) -> None:
    found = first(store, hit(), live=False, command=())
    assert found.looked_by == "today"
    assert found.causes[0].name == "a bad batch"
    assert found.around is not None
    assert found.around.batches is None
    write(store, GOOD, healthy(), live=False, command=())
    calm = health(store, GOOD)
    assert (calm.looked_by, calm.warned) == ("today", ())
    assert {one.rule: one.why for one in calm.looked}["stall"] == "no clock to go by"


def test_a_run_whose_rules_were_off_is_looked_at_now(store: Store) -> None:
    made = write(store, RUN, hit(), live=False)
    layout = RunLayout(StoreLayout(store.root).run_dir(made.experiment, RUN))
    write_monitored(layout, 1, Monitored(section=False))
    assert health(store, RUN).looked_by == "today"
    write_monitored(layout, 1, Monitored(section={"loss_spike": False, "grad_spike": False}))
    own = health(store, RUN)  # what it switched off does not look now either
    assert "loss_spike" not in {one.rule for one in (*own.found, *own.looked)}


def test_a_live_run_is_judged_by_what_there_is(store: Store) -> None:
    found = first(store, hit()[:220], state=RunState.RUNNING)
    assert found.causes[0].name == "a bad batch"
    assert found.run.state.is_live


def test_what_is_damaged_is_left_out_and_named(store: Store) -> None:
    made = write(store, RUN, hit())
    folder = StoreLayout(store.root).run_dir(made.experiment, RUN)
    (part,) = (folder / "points").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-40])
    found = health(store, RUN)
    assert found.causes[0].name == "a bad batch"  # from its events
    assert any("damaged" in one for one in found.problems)
    write_monitored(RunLayout(folder), 1, Monitored())
    RunLayout(folder).monitor_json(1).write_text("{")
    assert any("monitor.json" in one for one in health(store, RUN).problems)
    (folder / "events.jsonl").write_bytes(b"\xff\n")
    assert health(store, RUN).problems


def test_every_cause_names_rules_and_signs_that_there_are_and_a_command() -> None:
    for name, row in CAUSES.items():
        assert set(row["rules"]) <= set(BUILT_IN), name
        assert {*row["signs"], *row.get("needs", ())} <= set(SIGNS), name
        assert set(row.get("needs_rule", ())) <= set(row["rules"]), name
        assert row["area"] in AREAS
        assert row["command"].startswith("expdb "), name
        assert 0 < len(row["label"]) <= 9
    used = {sign for row in CAUSES.values() for sign in row["signs"]}
    assert used == set(SIGNS), "a sign that no cause looks at is dead"


def test_every_rule_points_to_a_cause() -> None:
    pointed = {rule for row in CAUSES.values() for rule in row["rules"]}
    assert set(BUILT_IN) - pointed == {"loss_off_mean"}  # it says nothing by itself
