"""The built-in rules that need only what every run logs; robust, in the order of their reports.

Invariant: here is data alone, in the form that a config has (see rule.py); `on: False` is a rule
that a config has to name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

RETRY: Final = "expdb resume {run}@{good} --lr-scale 0.5"

CORE: Final[Mapping[str, Mapping[str, Any]]] = {
    "non_finite": {
        "signal": ["train/loss", "train/grad_norm", "val/loss"],
        "detector": "non_finite",
        "severity": "critical",
        "decision": "stop, and go back to a checkpoint",
        "runbook": {
            "cause": "learning rate, overflow, or a bad batch",
            "checks": "the steps before it, the batch of this step, the scale of mixed precision",
            "action": "go back to a checkpoint and lower the rate or skip the batches",
        },
        "command": RETRY,
    },
    "loss_spike": {
        "signal": "train/loss",
        "detector": "spike",
        "confirm": "train/grad_norm",
        "decision": "wait for it to come back; else go back and skip its batches",
        "runbook": {
            "cause": "a bad batch, or a learning rate that is too high here",
            "checks": "the batches of this step, train/grad_norm and train/lr just before it",
            "action": "most come back by themselves; if not, resume at least 100 steps earlier and"
            " skip 200 to 500 updates, or lower the rate",
        },
        "command": RETRY,
    },
    "grad_spike": {
        "signal": "train/grad_norm",
        "detector": "log_spike",
        "need": 2,  # healthy runs have single steps of z 6 to 12 that no loss ever answers
        "sure": 13.0,
        "confirm": "train/loss",
        "decision": "look at the batch; a spike of the loss often follows",
        "runbook": {
            "cause": "a bad batch, or weights near an edge",
            "checks": "train/loss of the next steps, the batches of this step",
            "action": "nothing while the loss holds; else lower the rate or clip lower",
        },
    },
    "divergence": {
        "signal": "train/loss",
        "detector": "divergence",
        "decision": "stop, and go back to the best checkpoint with a lower rate",
        "runbook": {
            "cause": "learning rate too high for where training is, or data that changed",
            "checks": "when it began, train/lr and train/grad_norm there, the order of the data",
            "action": "go back to a checkpoint before it and lower the rate",
        },
        "command": RETRY,
    },
    "clip_saturated": {
        "signal": "train/clip_fraction",
        "detector": "threshold",
        "above": 0.5,
        "for": 100,  # the share is that of 100 steps: all of them have to be after the warm-up
        "phase": ["stable", "decay"],
        "clear": 20,
        "decision": "lower the rate or look at the data",
        "runbook": {
            "cause": "the rate is too high or too low, or gradients are noisy",
            "checks": "train/grad_norm against the clip, the loss beside another rate",
            "action": "change the rate or the batch; a higher clip hides it",
        },
    },
    "grad_vanish": {
        "signal": "train/grad_norm",
        "detector": "threshold",
        "below": 1e-5,
        "grave_below": 1e-6,
        "for": 20,
        "clear": 5,
        "decision": "check init, rate and which parameters are frozen",
        "runbook": {
            "cause": "frozen or unused parameters, a saturated layer, or a loss that is constant",
            "checks": "which layers have a gradient at all, the init, the mask of the loss",
            "action": "mend the init or the mask, or raise the rate",
        },
    },
    "plateau": {
        "signal": "train/loss",
        "detector": "plateau",
        "severity": "info",
        "clear": 4,
        "cooldown": 1000,
        "decision": "let the rate decay, or review the data",
        "runbook": {
            "cause": "the rate is too high to go lower, or the data have no more to give",
            "checks": "the parent at the same tokens, train/lr, the share of repeated data",
            "action": "let the rate decay now, or end here",
        },
    },
    "overfit": {
        "signal": "val/loss",
        "detector": "overfit",
        "decision": "stop early and keep the best checkpoint, or regularise",
        "runbook": {
            "cause": "too little data for the model, or too many epochs",
            "checks": "train/loss against val/loss, how often the data was seen",
            "action": "stop and keep the best checkpoint, or more data, weight decay or dropout",
        },
    },
    "metric_flat": {
        "signal": "eval/*/acc",
        "detector": "flat",
        "severity": "info",
        "cooldown": 1000,
        "decision": "look at the data of the task, and for a leak",
        "runbook": {
            "cause": "the training text says little about the task, or the loss falls by a leak",
            "checks": "the task's share of the data, items that are in the training text",
            "action": "change the mixture, or take a task that this size can learn",
        },
    },
    "throughput_drop": {
        "signal": "train/tokens_per_s",
        "detector": "level_shift",
        "direction": "down",
        "share": 0.04,
        "decision": "look for a slow device, heat, or a neighbour",
        "runbook": {
            "cause": "a straggler, heat, another process, or a slower loader",
            "checks": "train/data_wait_pct, clocks and heat of every device, who else runs there",
            "action": "take the slow device out, or move the run",
        },
    },
    "data_bound": {
        "signal": "train/data_wait_pct",
        "detector": "threshold",
        "above": 10.0,
        "for": 50,
        "for_samples": 5,
        "clear": 20,
        "decision": "more loader workers, or prepare the data ahead",
        "runbook": {
            "cause": "the loader is slower than the model",
            "checks": "workers against cores, decoding and tokenizing on the way, the disk",
            "action": "more workers, larger prefetch, or data prepared ahead",
        },
    },
    "stall": {
        "signal": "train/loss",
        "detector": "stall",
        "severity": "critical",
        "decision": "look where the process waits",
        "runbook": {
            "cause": "a rank that waits for another, a dead loader worker, or a lost device",
            "checks": "a stack dump of the process, the log of the machine, the other ranks",
            "action": "end it and resume from the last checkpoint",
        },
        "command": "expdb tail {run}",
    },
}

DOCUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "loss_jump": {
        "on": False,
        "signal": "train/loss",
        "detector": "jump",
        "share": 0.5,
        "decision": "look at the batch and the rate",
        "runbook": {
            "cause": "a bad batch or too high a rate",
            "checks": "the batches of this step, train/lr and train/grad_norm",
            "action": "skip the batches or lower the rate",
        },
        "command": RETRY,
    },
    "grad_range": {
        "on": False,
        "signal": "train/grad_norm",
        "detector": "threshold",
        "above": 10.0,
        "grave_above": 100.0,
        "for": 3,
        "note_first": True,
        "confirm": "train/loss",
        "decision": "clip, and lower the rate",
        "runbook": {
            "cause": "exploding gradients: rate, init or a bad batch",
            "checks": "which layer it comes from, the loss at the same steps",
            "action": "clip and lower the rate",
        },
    },
    "gpu_idle": {
        "on": False,
        "signal": "sys/*/util_pct",
        "detector": "threshold",
        "below": 50.0,
        "for_s": 300.0,
        "beside": "train/data_wait_pct",
        "beside_above": 10.0,
        "clear": 3,
        "decision": "fix data loading",
        "runbook": {
            "cause": "the device waits for the loader",
            "checks": "train/data_wait_pct; use alone says only that some kernel ran",
            "action": "more loader workers, or prepare the data ahead",
        },
    },
    "loss_off_mean": {
        "on": False,
        "signal": "train/loss",
        "detector": "mean_ratio",
        "share": 0.1,
        "decision": "none by itself: it is in alarm most of the time on healthy runs",
        "runbook": {
            "cause": "any change of the loss, falling as it should included",
            "checks": "what loss_spike and divergence say",
            "action": "use loss_spike instead",
        },
    },
    "no_gain": {
        "on": False,
        "signal": "val/loss",
        "detector": "no_gain",
        "decision": "stop early and keep the best checkpoint, or let the rate decay",
        "runbook": {
            "cause": "the model has learned what it can from these data at this rate",
            "checks": "train/loss beside it, train/lr, the size of the validation set",
            "action": "stop and keep the best checkpoint, or let the rate decay",
        },
    },
}
