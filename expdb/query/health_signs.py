"""The signs of causes: each looks at what is known of a run and says in words what it sees.

Invariant: a sign that is not seen, or cannot be, is None; the text of one is a reason as it is
shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import median
from typing import Any, Final

from expdb.model import RunState
from expdb.monitor.detector import number
from expdb.query.health_facts import Facts, data_of
from expdb.query.results import ABSENT
from expdb.text import config_value

Sign = Callable[[Facts], str | None]
RATE: Final = "train/lr"
RATE_KEY: Final = re.compile(r"(.*\.)?(lr|learning_rate|max_lr|peak_lr)")
BALANCE_KEY: Final = re.compile(r"(.*[._])?(gamma|load_balance_coeff|aux_loss\w*|balance\w*)")
HALF_KEY: Final = re.compile(r"(.*[._])?(precision|dtype|amp_dtype)")
MEMORY: Final = re.compile(r"out of memory|OutOfMemory|MemoryError|Cannot allocate memory", re.I)
LOST: Final = re.compile(r"^\S+ is (NaN|infinite) since")
JUMP: Final = 2.0
"""A rate that is so many times that of the step before has jumped."""
BEFORE: Final = 10
LOW_BYTES: Final = 500e6
EARLY: Final = 10
KEYS_SAID: Final = 3
SUDDEN: Final = ("loss_spike", "grad_spike", "divergence", "non_finite", "loss_jump")


def _rate_jumped(facts: Facts) -> str | None:
    assert facts.first is not None
    at, curve = facts.first.step, facts.curve(RATE)
    pairs = list(zip(curve.steps.tolist(), curve.values.tolist(), strict=True))
    for (_, before), (step, after) in pairwise(pairs):
        if EARLY < step <= at and at - step <= BEFORE and before > 0 and after >= JUMP * before:
            ago = at - step
            when = "at that step" if not ago else f"{ago} step{'' if ago == 1 else 's'} before"
            return f"{RATE} {before:.4g} to {after:.4g} at {step}, {when}"
    return None


def _rates_before(facts: Facts) -> list[float]:
    assert facts.first is not None
    curve, at = facts.curve(RATE), facts.first.step
    upto = curve.num_upto(at)
    near = curve.steps[:upto] >= at - BEFORE
    found: list[float] = curve.values[:upto][near].tolist()
    return found


def _rate_was_steady(facts: Facts) -> str | None:
    # Beside what comes suddenly it says something; what comes slowly has a steady rate anyway.
    if not any(facts.fired(rule) for rule in SUDDEN):
        return None
    found = _rates_before(facts)
    if len(found) < 2 or not min(found) > 0 or max(found) > 1.1 * min(found):
        return None
    return f"{RATE} was steady at {found[-1]:.4g}"


def _at_highest_rate(facts: Facts) -> str | None:
    assert facts.first is not None
    curve = facts.curve(RATE)
    if len(curve.steps) < 2 or curve.values[0] >= 0.9 * curve.values.max():
        return None  # no warm-up
    if _rate_jumped(facts):
        return None
    reached = int(curve.steps[(curve.values >= 0.999 * curve.values.max()).argmax()])
    if not 0 <= facts.first.step - reached <= 50:
        return None
    return f"{RATE} had reached its highest at {reached}"


def _differing_rate(facts: Facts, *, higher: bool) -> str | None:
    for key in facts.healthy.keys if facts.healthy is not None else ():
        own, theirs = facts.config.get(key), facts.healthy_config.get(key)
        if not (RATE_KEY.fullmatch(key) and _is_number(own) and _is_number(theirs)):
            continue
        if own > theirs if higher else own < theirs:  # type: ignore[operator]
            return _key_said(facts, key)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _key_said(facts: Facts, key: str) -> str:
    """Return a key with its value here and in the healthy run."""
    own = facts.config.get(key, ABSENT)
    theirs = facts.healthy_config.get(key, ABSENT)
    said = " against ".join(
        "nothing" if one is ABSENT else config_value(one) for one in (own, theirs)
    )
    return f"{key} {said} in the healthy run"


def _keys(facts: Facts, wanted: Callable[[str], bool]) -> str | None:
    found = [key for key in (facts.healthy.keys if facts.healthy else ()) if wanted(key)]
    if not found:
        return None
    said = "; ".join(_key_said(facts, key) for key in found[:KEYS_SAID])
    more = len(found) - KEYS_SAID
    return f"{said}; {more:,} more" if more > 0 else said


def _came_back(facts: Facts) -> str | None:
    event = facts.fired("loss_spike")
    found = re.fullmatch(r"over at (\d+)", event.now) if event is not None else None
    if event is None or found is None or not 0 <= int(found[1]) - event.step <= 50:
        return None
    return f"the loss was back at {found[1]}"


def _stayed_high(facts: Facts) -> str | None:
    for rule in ("loss_spike", "divergence"):
        event = facts.fired(rule)
        if event is not None and event.severity == "critical":
            return f"it did not come back ({rule} is critical)"
    return None


def _norm_rose_first(facts: Facts) -> str | None:
    norm, loss = facts.fired("grad_spike"), facts.fired("loss_spike")
    if norm is None or loss is None or not 0 < loss.step - norm.step <= 20:
        return None
    return f"the gradient norm rose first, at {norm.step}"


def _fault_in_batch(facts: Facts) -> str | None:
    for note in facts.notes:
        if "first module that is not finite" in note and "weights not finite" not in note:
            return "the weights were finite, the forward pass of its batch was not"
    return None


def _weights_were_broken(facts: Facts) -> str | None:
    is_so = any("weights not finite already" in note for note in facts.notes)
    return "the weights were not finite already, so the update before did it" if is_so else None


def _other_seeds_too(facts: Facts) -> str | None:
    assert facts.first is not None
    found = [one for one in facts.others if not one.is_repeat and one.has(facts.first)]
    if not found:
        return None
    seeds = ", ".join(str(one.seed) for one in found[:KEYS_SAID])
    return f"seed {seeds}, with other batches, has {facts.first.rule} there too"


def _other_data(facts: Facts) -> str | None:
    own, theirs = data_of(facts.run), facts.healthy_data
    found = [name for name in own if name in theirs and own[name] != theirs[name]]
    return f"the data {', '.join(found)} differ from those of the healthy run" if found else None


def _labels_are_inputs(facts: Facts) -> str | None:
    share = facts.value("init/unshifted")
    return f"init/unshifted {number(share)}" if share is not None and share > 0.9 else None


def _logits_see_ahead(facts: Facts) -> str | None:
    moved = facts.value("init/leak")
    return f"init/leak {number(moved)}" if moved is not None and moved > 1e-3 else None


def _val_never_fell(facts: Facts) -> str | None:
    curve = facts.curve("val/loss")
    if len(curve.values) < 2 or not curve.values[1:].min() > 0.9 * curve.values[0]:
        return None
    best, first = float(curve.values[1:].min()), float(curve.values[0])
    return f"val/loss {number(best)} at best, {number(first)} at first"


def _gap_grows(facts: Facts) -> str | None:
    train, val = facts.curve("train/loss"), facts.curve("val/loss")
    if len(train.values) < 20 or len(val.values) < 2:
        return None
    now, late = median(train.values[-20:].tolist()), float(val.values[-1])
    if not late - now > 0.25 * late:
        return None
    return f"train/loss {number(now)} beside val/loss {number(late)}"


def _waits(facts: Facts, *, much: bool) -> str | None:
    curve = facts.curve("train/data_wait_pct")
    if not len(curve.values):
        return None
    usual = median(curve.values.tolist())
    is_so = usual > 10 if much else usual < 5
    return f"train/data_wait_pct {number(usual)} as a rule" if is_so else None


def _is_fp16(facts: Facts) -> str | None:
    for key, value in facts.config.items():
        if HALF_KEY.fullmatch(key) and str(value) in ("fp16", "float16", "16-mixed"):
            return f"{key} {value}"
    return None


def _from_the_start(facts: Facts) -> str | None:
    assert facts.first is not None
    return f"at step {facts.first.step}" if facts.first.step <= EARLY else None


def _no_balancing(facts: Facts) -> str | None:
    for key, value in facts.config.items():
        if BALANCE_KEY.fullmatch(key) and _is_number(value) and value == 0:
            return f"{key} {value}"
    return None


def _ended_by_memory(facts: Facts) -> str | None:
    texts = [facts.run.reason, *facts.last_words[-1:]]
    found = next((one for one in texts if MEMORY.search(one)), None)
    return None if found is None else f"it ended with: {found.strip()}"


def _died(facts: Facts) -> str | None:
    if facts.run.state not in (RunState.CRASHED, RunState.LOST):
        return None
    return facts.run.reason or f"it is {facts.run.state.value}"


def _memory_was_low(facts: Facts) -> str | None:
    left = facts.value("sys/memory_available_bytes")
    return (
        f"{left / 1e6:.0f} MB of memory were left"
        if left is not None and left < LOW_BYTES
        else None
    )


def _was_stopped(facts: Facts) -> str | None:
    return facts.run.reason if facts.run.state is RunState.PREEMPTED and facts.run.reason else None


def _script_failed(facts: Facts) -> str | None:
    run = facts.run
    if run.state is not RunState.FAILED or MEMORY.search(run.reason) or LOST.search(run.reason):
        return None
    return run.reason or "it says no reason"


SIGNS: Final[Mapping[str, Sign]] = {
    "rate_jumped": _rate_jumped,
    "rate_was_steady": _rate_was_steady,
    "at_highest_rate": _at_highest_rate,
    "higher_rate": lambda facts: _differing_rate(facts, higher=True),
    "lower_rate": lambda facts: _differing_rate(facts, higher=False),
    "came_back": _came_back,
    "stayed_high": _stayed_high,
    "norm_rose_first": _norm_rose_first,
    "fault_in_batch": _fault_in_batch,
    "weights_were_broken": _weights_were_broken,
    "other_seeds_too": _other_seeds_too,
    "other_data": _other_data,
    "other_data_keys": lambda facts: _keys(facts, lambda key: key.split(".")[0] == "data"),
    "other_init": lambda facts: _keys(facts, lambda key: "init" in key),
    "labels_are_inputs": _labels_are_inputs,
    "logits_see_ahead": _logits_see_ahead,
    "val_never_fell": _val_never_fell,
    "gap_grows": _gap_grows,
    "waits_for_data": lambda facts: _waits(facts, much=True),
    "waits_little": lambda facts: _waits(facts, much=False),
    "is_fp16": _is_fp16,
    "from_the_start": _from_the_start,
    "no_balancing": _no_balancing,
    "ended_by_memory": _ended_by_memory,
    "died": _died,
    "memory_was_low": _memory_was_low,
    "was_stopped": _was_stopped,
    "script_failed": _script_failed,
}
NEED_NO_EVENT: Final = frozenset(
    ["ended_by_memory", "died", "memory_was_low", "was_stopped", "script_failed"]
)
"""Signs that may be seen where no rule warned."""
