"""The causes of trouble as data: which rules point to one, and what else speaks for or against it.

    name: {area, said, rules: {rule: weight}, signs: {sign: weight}, needs, label, command}

A rule that fired adds its weight; a sign (health_signs.py) that is seen adds its own, which may be
negative. A cause is likely that has a positive sum and at least one rule, or a sign of `needs`.

Invariant: here is data alone; `{good}` and `{healthy}` in a command that are not known make it the
one to look at the event, and so does `{started}`, the run, where nobody knows how it was started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

REPEAT: Final = "expdb probe repro {run}"
LOOK: Final = "expdb events {run}@{step}"
SKIP: Final = "expdb resume {run}@{good} --skip-batches {skip}"
LOWER: Final = "expdb resume {run}@{good} --lr-scale 0.5"
COMPARE: Final = "expdb compare {healthy} {run}"
BEST: Final = "expdb path {run}@best"
RESUME: Final = "expdb resume {run}"
LOG: Final = "expdb path {run} log"
PROBE_LOADER: Final = "expdb probe loader {started}"
PROBE_SPEED: Final = "expdb probe throughput {started}"
PROBE_RATE: Final = "expdb probe lr {started}"
PROBE_DATA: Final = "expdb probe data {started}"
PROBE_MEMORY: Final = "expdb probe memory {started}"

CAUSES: Final[Mapping[str, Mapping[str, Any]]] = {
    # data
    "unshifted labels": {
        "area": "data",
        "said": "the labels are not shifted by one, or validation asks for something else",
        "rules": {"label_misaligned": 10},
        "signs": {"labels_are_inputs": 5, "val_never_fell": 2},
        "label": "look",
        "command": LOOK,
    },
    "the answer in the input": {
        "area": "data",
        "said": "later tokens are seen, or the text is known already",
        "rules": {"leak": 10, "metric_flat": 1},
        "signs": {"logits_see_ahead": 5},
        "label": "measure",
        "command": PROBE_DATA,
    },
    "a bad batch": {
        "area": "data",
        "said": "a bad batch",
        "rules": {
            "loss_spike": 3,
            "grad_spike": 1,
            "non_finite": 2,
            "loss_jump": 2,
            "grad_range": 1,
        },
        "signs": {
            "came_back": 3,
            "rate_was_steady": 1,
            "rate_jumped": -3,
            "fault_in_batch": 3,
            "weights_were_broken": -2,
            "other_seeds_too": -2,
            "other_data_keys": 2,
        },
        "label": "data",
        "command": SKIP,
    },
    "other data": {
        "area": "data",
        "said": "the data are others than those of the healthy run, or in another order",
        "rules": {"divergence": 2, "loss_spike": 1, "plateau": 1, "overfit": 1},
        "signs": {"other_data": 6, "other_data_keys": 3, "rate_jumped": -2},
        "needs": ["other_data", "other_data_keys"],
        "label": "compare",
        "command": COMPARE,
    },
    "too little data": {
        "area": "data",
        "said": "too little data for the model, or seen too often",
        "rules": {"overfit": 6},
        "signs": {"other_data_keys": 3, "gap_grows": 2},
        "label": "best",
        "command": BEST,
    },
    "data without the task": {
        "area": "data",
        "said": "the text says little about the task",
        "rules": {"metric_flat": 3},
        "signs": {},
        "label": "look",
        "command": LOOK,
    },
    "a slow loader": {
        "area": "data",
        "said": "the loader is slower than the model",
        "rules": {"data_bound": 6, "throughput_drop": 1, "gpu_idle": 3},
        "signs": {"waits_for_data": 3, "waits_little": -3},
        "label": "measure",
        "command": PROBE_LOADER,
    },
    # hyper-parameters
    "too high a rate": {
        "area": "hyper-parameters",
        "said": "the learning rate is too high here",
        "rules": {
            "loss_spike": 2,
            "divergence": 3,
            "grad_spike": 1,
            "non_finite": 2,
            "loss_jump": 1,
            "grad_range": 1,
            "clip_saturated": 1,
            "attn_logit": 1,
            "update_ratio": 1,
            "plateau": 1,
        },
        "signs": {
            "rate_jumped": 5,
            "higher_rate": 4,
            "at_highest_rate": 1,
            "norm_rose_first": 1,
            "stayed_high": 1,
            "came_back": -1,
            "fault_in_batch": -1,
            "other_seeds_too": 1,
            "weights_were_broken": 1,
            "rate_was_steady": -1,
        },
        "label": "rate",
        "command": LOWER,
    },
    "too low a rate": {
        "area": "hyper-parameters",
        "said": "the learning rate is too low",
        "rules": {"plateau": 1, "clip_saturated": 1, "update_ratio": 1},
        "signs": {"lower_rate": 4},
        "needs": ["lower_rate"],
        "label": "compare",
        "command": COMPARE,
    },
    "the end of learning": {
        "area": "hyper-parameters",
        "said": "the rate is too high to go lower, or the data have no more to give",
        "rules": {"plateau": 3, "no_gain": 3},
        "signs": {},
        "label": "measure",
        "command": PROBE_RATE,
    },
    "noisy or large gradients": {
        "area": "hyper-parameters",
        "said": "gradients are clipped all the time: the rate, the batch or the clip",
        "rules": {"clip_saturated": 3},
        "signs": {},
        "label": "look",
        "command": LOOK,
    },
    "a stale optimizer": {
        "area": "hyper-parameters",
        "said": "the second moment follows too slowly (beta2)",
        "rules": {"adam_stale": 3, "loss_spike": 1},
        "signs": {},
        "needs_rule": ["adam_stale"],
        "label": "look",
        "command": LOOK,
    },
    "overflow in half precision": {
        "area": "hyper-parameters",
        "said": "numbers overflow in fp16",
        "rules": {"amp_scale": 5, "non_finite": 1},
        "signs": {"is_fp16": 3},
        "needs": ["is_fp16"],
        "label": "look",
        "command": LOOK,
    },
    # model
    "a bad init": {
        "area": "model",
        "said": "the weights begin too large or too small",
        "rules": {
            "init": 8,
            "dead_units": 2,
            "grad_vanish": 2,
            "activation_growth": 1,
            "attn_logit": 1,
            "non_finite": 1,
        },
        "signs": {"other_init": 4, "from_the_start": 1},
        "needs": ["other_init", "from_the_start"],
        "label": "compare",
        "command": COMPARE,
    },
    "units that died": {
        "area": "model",
        "said": "units that no token switches on: a bias, an init, or a rate that killed them",
        "rules": {"dead_units": 5},
        "signs": {"from_the_start": 1},
        "label": "look",
        "command": LOOK,
    },
    "unbalanced experts": {
        "area": "model",
        "said": "the router gives most tokens to few experts",
        "rules": {"moe_imbalance": 5, "dead_expert": 4},
        "signs": {"no_balancing": 5},
        "label": "look",
        "command": LOOK,
    },
    "attention that saturates": {
        "area": "model",
        "said": "scores of attention grow until it looks at one token",
        "rules": {"attn_logit": 4, "attn_collapse": 4},
        "signs": {},
        "label": "look",
        "command": LOOK,
    },
    "one layer": {
        "area": "model",
        "said": "one layer leaves its own history",
        "rules": {"layer_grad": 4, "activation_growth": 4, "activation_outliers": 2},
        "signs": {},
        "label": "look",
        "command": LOOK,
    },
    "an embedding that collapses": {
        "area": "model",
        "said": "the rows of the embedding point the same way",
        "rules": {"emb_collapse": 4, "emb_rank_drop": 4},
        "signs": {},
        "label": "look",
        "command": LOOK,
    },
    "parameters without gradient": {
        "area": "model",
        "said": "parameters are frozen or unused, or the loss is constant",
        "rules": {"grad_vanish": 4},
        "signs": {},
        "label": "look",
        "command": LOOK,
    },
    # machine
    "a slow device": {
        "area": "machine",
        "said": "a slow device, heat, or another process on it",
        "rules": {"throughput_drop": 4},
        "signs": {"waits_little": 1, "waits_for_data": -2},
        "label": "measure",
        "command": PROBE_SPEED,
    },
    "somebody who waits": {
        "area": "machine",
        "said": "a rank, a loader worker or a device that does not answer",
        "rules": {"stall": 5},
        "signs": {},
        "label": "watch",
        "command": "expdb tail {run}",
    },
    "too little memory": {
        "area": "machine",
        "said": "too little memory, or memory in pieces",
        "rules": {"mem_retries": 4, "mem_full": 4, "mem_fragments": 3},
        "signs": {"ended_by_memory": 8},
        "needs": ["ended_by_memory"],
        "label": "measure",
        "command": PROBE_MEMORY,
    },
    "a process that was killed": {
        "area": "machine",
        "said": "the process was killed from outside, or its machine went away",
        "rules": {},
        "signs": {"died": 6, "memory_was_low": 2},
        "needs": ["died"],
        "label": "resume",
        "command": RESUME,
    },
    "a stop from outside": {
        "area": "machine",
        "said": "somebody or a scheduler stopped it",
        "rules": {},
        "signs": {"was_stopped": 6},
        "needs": ["was_stopped"],
        "label": "resume",
        "command": RESUME,
    },
    # script
    "an error of the script": {
        "area": "script",
        "said": "the script raised an error",
        "rules": {},
        "signs": {"script_failed": 6},
        "needs": ["script_failed"],
        "label": "log",
        "command": LOG,
    },
}
