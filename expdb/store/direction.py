"""Which way a metric gets better, where only its name can tell."""

from __future__ import annotations

import re
from typing import Final, Literal

LOWER: Final = frozenset(
    [
        "bpb",
        "bpc",
        "cer",
        "divergence",
        "err",
        "error",
        "latency",
        "loss",
        "mae",
        "mse",
        "nll",
        "perplexity",
        "ppl",
        "rmse",
        "wer",
    ]
)
HIGHER: Final = frozenset(
    [
        "acc",
        "accuracy",
        "auc",
        "bleu",
        "em",
        "f1",
        "map",
        "pass",
        "precision",
        "recall",
        "reward",
        "rouge",
        "score",
        "win",
    ]
)


def natural_mode(metric: str) -> Literal["min", "max"] | None:
    """Return the direction that the metric's name speaks of; None when it speaks of none."""
    words = frozenset(re.split(r"[^a-z0-9]+", metric.lower()))
    if words & LOWER:
        return "min"
    if words & HIGHER:
        return "max"
    return None
