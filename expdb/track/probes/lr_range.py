"""The learning-rate range test: one short training in which the rate rises by a factor each update.

    lr(i) = low * (high / low) ** (i / (n - 1))

The loss of update i was computed before the weights took the step of lr(i), and stands beside that
rate. It is smoothed by a mean with bias correction; the test ends where the smoothed loss is four
times its least value, or is no number. What it finds is where the smoothed loss falls steepest over
log lr: at its least value the training is about to break.

Invariant: weights, optimizer, schedule, generators and, where it can, loader are as before, to the
bit.

Source: L. N. Smith, arXiv 1506.01186; smoothing as in common range tests.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from expdb.track.probes.seen import Probed, on_host

if TYPE_CHECKING:
    from expdb.track.state import State
    from expdb.track.update import Update

BETA = 0.9
STOP_FACTOR = 4.0
SPAN = 10
"""The slope at a point is that of a line through so many points to either side."""
NOISE_FACTOR = 6.0
LEAST_FALL = 0.01
"""A fall of a smaller share of the loss is none."""


@dataclass(slots=True)
class Smooth:
    """A running mean with bias correction, and when the test is over."""

    total: float = 0.0
    weight: float = 0.0
    least: float = math.inf

    def add(self, loss: float) -> float:
        """Add a loss and return the smoothed one."""
        self.total = BETA * self.total + (1 - BETA) * loss
        self.weight = BETA * self.weight + (1 - BETA)
        value = self.total / self.weight
        self.least = min(self.least, value)
        return value

    def is_over(self, value: float) -> bool:
        """Tell whether a smoothed loss ends the test."""
        return not math.isfinite(value) or value > STOP_FACTOR * self.least


def rates(low: float, high: float, num: int) -> list[float]:
    """Return the rates of the test, the first and the last exactly as given."""
    ratio = high / low
    inner = [low * ratio ** (i / (num - 1)) for i in range(1, num - 1)]
    return [low, *inner, high]


def measure(probed: Probed, task: Mapping[str, Any]) -> Generator[Update, None, dict[str, Any]]:
    """Yield updates with rising rates, and return rates, losses and what they say."""
    state = probed.engine.state
    low, high, num = float(task["low"]), float(task["high"]), int(task["updates"])
    saved = saved_copy(state)
    given = probed.engine.lr()
    shares = _shares(state)
    smooth = Smooth()
    series: list[tuple[float, float, float]] = []
    stopped = ""
    for lr in rates(low, high, num):
        _set_rates(shares, lr)
        result = yield from probed.update()
        loss = on_host(result.loss)
        if not math.isfinite(loss):
            stopped = "the loss is no number"
            break
        value = smooth.add(loss)
        series.append((lr, loss, value))
        if smooth.is_over(value):
            stopped = f"the smoothed loss is {STOP_FACTOR:g} times its least value"
            break
    notes = state.load(saved)
    return {
        "low": low,
        "high": high,
        "updates": len(series),
        "asked": num,
        "stopped": stopped,
        "own_lr": own_rate(state) or given,
        "is_first": own_rate(state) is None,
        "series": [{"lr": lr, "loss": loss, "smoothed": value} for lr, loss, value in series],
        "notes": list(notes),
        **steepest([one[0] for one in series], [one[1] for one in series],
                   [one[2] for one in series]),
    }  # fmt: skip


def steepest(
    lrs: Sequence[float], losses: Sequence[float], smoothed: Sequence[float]
) -> dict[str, Any]:
    """Return {"outcome", "lr", "lowest_lr", "fall", "noise", "why"} of a test.

    Inconclusive: the smoothed loss falls by no more than its noise, or steepest at once.
    """
    logs = [math.log(lr) for lr in lrs]
    if len(lrs) < 2 * SPAN:
        return _nothing("it ended after too few updates")
    at = min(range(len(smoothed)), key=smoothed.__getitem__)
    if at <= SPAN:
        return {**_nothing("the loss only rises"), "lowest_lr": lrs[at]}
    # The first means are of few losses, and as loose as those.
    considered = range(SPAN, at + 1)
    high = max(considered, key=smoothed.__getitem__)
    fall, noise = smoothed[high] - smoothed[at], noise_of(losses)
    found = {"lowest_lr": lrs[at], "fall": fall, "noise": noise}
    if fall <= max(NOISE_FACTOR * noise_after(noise), LEAST_FALL * abs(smoothed[high])):
        return {**_nothing("the loss falls nowhere beyond its noise"), **found}
    best = min(considered, key=lambda i: _slope(logs, smoothed, i))
    if best <= 2 * SPAN:  # a mean is that late
        return {**_nothing("the loss falls steepest at the very first rates"), **found}
    return {"outcome": "found", "lr": lrs[best], "why": "", **found}


def noise_of(losses: Sequence[float]) -> float:
    """Return the spread of one loss: the median of neighbours' differences, as a deviation."""
    apart = [abs(b - a) for a, b in pairwise(losses)]
    return 1.4826 * statistics.median(apart) / math.sqrt(2) if apart else 0.0


def noise_after(noise: float) -> float:
    """Return the spread of the smoothed loss."""
    return noise * math.sqrt((1 - BETA) / (1 + BETA))


def _nothing(why: str) -> dict[str, Any]:
    return {
        "outcome": "inconclusive", "lr": None, "why": why,
        "lowest_lr": None, "fall": None, "noise": None,
    }  # fmt: skip


def _slope(xs: Sequence[float], ys: Sequence[float], at: int) -> float:
    """Return the slope of the line through the points around one, by least squares."""
    span = slice(max(0, at - SPAN), at + SPAN + 1)
    near_x, near_y = xs[span], ys[span]
    return statistics.linear_regression(near_x, near_y).slope


def saved_copy(state: State) -> dict[str, Any]:
    """Return a copy of all that a state holds, in host memory."""
    from expdb.track.state import Part

    return {
        name: Part(tree=_copied(part.tree), names=part.names)
        for name, part in state.collect(state.loop.step).items()
    }


def _copied(tree: Any) -> Any:
    import torch

    if isinstance(tree, torch.Tensor):
        return tree.detach().to("cpu", copy=True)
    if isinstance(tree, Mapping):
        return {key: _copied(item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_copied(item) for item in tree)
    return tree


def _shares(state: State) -> list[tuple[dict[str, Any], float]]:
    """Return each group of the optimizers with its rate as a share of the first group's."""
    groups = [group for optim in state.optims.values() for group in optim.param_groups]
    base = float(groups[0].get("initial_lr", groups[0]["lr"]))
    return [
        (group, float(group.get("initial_lr", group["lr"])) / base if base > 0 else 1.0)
        for group in groups
    ]


def own_rate(state: State) -> float | None:
    """Return the rate that the script's schedule takes its part of; None where it does not say."""
    group = next(iter(state.optims.values())).param_groups[0]
    if "initial_lr" in group:
        return float(group["initial_lr"])
    return None if state.scheds else float(group["lr"])


def _set_rates(shares: Sequence[tuple[dict[str, Any], float]], lr: float) -> None:
    """Set every rate; a tensor is filled in place, as a compiled step holds on to it."""
    import torch

    for group, share in shares:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(lr * share)
        else:
            group["lr"] = lr * share
