"""The built-in rules over the start of a run: its init, its labels, and what its model may see.

Invariant: as in builtin.py; each is silent in a run that does not log its signal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

START: Final[Mapping[str, Mapping[str, Any]]] = {
    "init": {
        "signal": ["init/loss_excess", "init/act_ratio", "init/grad_ratio", "init/weight_gain"],
        "detector": "init",
        "decision": "mend the init and begin anew",
        "runbook": {
            "cause": "weights that are drawn too large or too small, or by the wrong layer",
            "checks": "the standard deviation of each matrix, scaling by depth, the loss itself",
            "action": "a standard deviation of about 0.02 or 1 / sqrt(inputs), outputs by depth",
        },
        "command": "expdb show {run} --health",
    },
    "leak": {
        "signal": ["train/loss", "init/leak"],
        "detector": "leak",
        "severity": "critical",
        "decision": "do not trust this run: the answer is in the input",
        "runbook": {
            "cause": "a mask that lets later tokens through, or a text that is known already",
            "checks": "the causal mask, packing across texts, the overlap of train and validation",
            "action": "mend the mask or the data and train again",
        },
        "command": "expdb show {run} --health",
    },
    "label_misaligned": {
        "signal": ["train/loss", "init/unshifted"],
        "detector": "misaligned",
        "decision": "do not trust this run: its labels are not what it is to predict",
        "runbook": {
            "cause": "labels that are not shifted by one, or a validation of another task",
            "checks": "the shift of labels and logits, what the loss and what validation compares",
            "action": "shift the labels by one and train again",
        },
        "command": "expdb show {run} --health",
    },
}
