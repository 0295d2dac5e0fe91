"""Which rules could judge a run: those whose metric it logs, with as many values as they need.

Invariant: a rule that fired has judged, whatever is counted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from expdb.model import Event, Run
from expdb.monitor.detectors import parameters
from expdb.monitor.rule import Rule
from expdb.query.health_results import Looked

NEEDS: Final[Mapping[str, Callable[[Mapping[str, Any]], int]]] = {
    "spike": lambda p: max(int(p["start"]), int(p["least"])) + 1,
    "log_spike": lambda p: int(p["least"]) + int(p["need"]),
    "divergence": lambda p: 2 * int(p["block"]),
    "level_shift": lambda p: int(p["skip"]) + int(p["reference"]) + int(p["recent"]),
    "plateau": lambda p: int(p["steps"]),
    "overfit": lambda p: int(p["window"]) + int(p["in_a_row"]),
    "flat": lambda p: int(p["evals"]),
    "threshold": lambda p: max(int(p["for_samples"]), 1),
    "jump": lambda p: 2,
    "mean_ratio": lambda p: 2,
}
"""Detector -> the values that it needs before it can say something."""
BESIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "threshold": ("per", "beside"),
    "overfit": ("train",),
    "flat": ("train",),
    "leak": ("budget", "labels"),
    "misaligned": ("val",),
}
"""Detector -> the parameters that name a metric without which it says nothing."""


def judged(
    run: Run, rules: Sequence[Rule], found: Iterable[Event], *, was_live: bool
) -> tuple[Looked, ...]:
    """Return what came of each rule, in their order; only while it trains there is a clock."""
    levels: dict[str, list[str]] = {}
    for one in found:
        levels.setdefault(one.rule, []).append(one.severity)
    return tuple(
        Looked(rule=rule.name, outcome="not judged", why="no clock to go by")
        if rule.detector == "stall" and not was_live
        else _looked(rule, run, levels.get(rule.name, []))
        for rule in rules
    )


def _looked(rule: Rule, run: Run, levels: Sequence[str]) -> Looked:
    # A remark of a rule that warns is no alert: it looked, and was content.
    if any(level != "info" or rule.severity == "info" for level in levels):
        return Looked(rule=rule.name, outcome="fired")
    values = {**parameters(rule.detector), **rule.params}
    counts = Counter({key: one.count for key, one in run.series.items() if rule.takes(key)})
    if not counts:
        return Looked(rule=rule.name, outcome="not judged", why=f"no metric {rule.signal[0]}")
    if not any(key.startswith("init/") for key in counts):  # one look at the start is enough
        for name in BESIDE.get(rule.detector, ()):
            if values[name] and values[name] not in run.series:
                return Looked(rule=rule.name, outcome="not judged", why=f"no metric {values[name]}")
    need = NEEDS[rule.detector](values) if rule.detector in NEEDS else 1
    key, most = counts.most_common(1)[0]
    if most >= need:
        return Looked(rule=rule.name, outcome="fine")
    why = f"{most:,} of {need:,} values of {key}"
    return Looked(rule=rule.name, outcome="not judged", why=why)
