"""Curves of training with known faults, made from a seed.

A power law with warm-up and two drops of the rate, AR(1) noise with heavy tails, and a gradient
norm beside it. Seeds 0-9 are for tuning, 100 and up for reports: never look at one with the other.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

STEPS: Final = 3000
TUNING: Final = range(10)
FIRST_REPORTED: Final = 100
BENIGN: Final = ("clean", "outliers", "mixture", "rounded", "quiet", "noisy")
FAULTS: Final = ("spike", "small spike", "slow divergence", "nan")
CLASSES: Final = (*BENIGN, *FAULTS)
DEGREES: Final = 5
"""Of freedom of the noise: Student's t."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One run: a loss and a gradient norm a step, and where its fault begins."""

    kind: str
    loss: list[float]
    norm: list[float]
    fault: int | None
    """The first step of the fault; None in a benign curve."""


def make(kind: str, seed: int, steps: int = STEPS) -> Curve:
    """Return the curve of a class and a seed."""
    draw = random.Random(f"{kind}:{seed}")
    sd = {"quiet": 0.005, "noisy": 0.1}.get(kind, 0.03)
    loss, norm = _base(draw, steps, sd)
    fault: int | None = None
    if kind == "outliers":
        for at in draw.sample(range(150, steps), 10):
            loss[at] += draw.uniform(0.3, 2.0)
    elif kind == "mixture":
        for at in range(draw.randrange(500, steps - 500), steps):
            loss[at] += 0.05
    elif kind in ("spike", "small spike"):
        fault = draw.randrange(400, steps - 300)
        _spike(draw, loss, norm, fault, is_small=kind == "small spike")
    elif kind == "slow divergence":
        fault = draw.randrange(400, steps - 300)
        slope = draw.uniform(0.005, 0.02)
        for at in range(fault, steps):
            loss[at] += slope * min(at - fault, 200)
            norm[at] *= 1 + 0.01 * min(at - fault, 200)
    elif kind == "nan":
        fault = draw.randrange(400, steps - 300)
        for at in range(fault, fault + draw.choice([1, 3, steps - fault])):
            loss[at] = draw.choice([math.nan, math.inf])
            norm[at] = math.nan
    if kind == "rounded":
        loss = [round(value, 2) for value in loss]
        norm = [round(value, 2) for value in norm]
    return Curve(kind=kind, loss=loss, norm=norm, fault=fault)


def _base(draw: random.Random, steps: int, sd: float) -> tuple[list[float], list[float]]:
    floor, memory = draw.uniform(1.6, 2.2), draw.choice([0.0, 0.3, 0.5])
    loss: list[float] = []
    norm: list[float] = []
    noise = 0.0
    for step in range(steps):
        noise = memory * noise + math.sqrt(1 - memory * memory) * _heavy(draw)
        value = floor + 6 * ((step + 20) / 20) ** -0.5
        for share, size in ((0.8, 0.08), (0.9, 0.04)):
            if step > share * steps:
                value -= size * (1 - math.exp(-(step - share * steps) / 30))
        loss.append(value + sd * noise)
        warm = 1 + 3 * math.exp(-step / 50)
        norm.append(0.25 * warm * math.exp(0.1 * _heavy(draw)))
    return loss, norm


def _heavy(draw: random.Random) -> float:
    """Return a draw of Student's t with variance 1."""
    chi = draw.gammavariate(DEGREES / 2, 2.0)
    scale = math.sqrt((DEGREES - 2) / DEGREES)
    return scale * draw.gauss(0, 1) / math.sqrt(chi / DEGREES)


def _spike(
    draw: random.Random, loss: list[float], norm: list[float], at: int, *, is_small: bool
) -> None:
    size = draw.uniform(0.15, 0.3) if is_small else draw.uniform(0.3, 3.0)
    kind = draw.choice(["fast", "slow", "stays"])
    width = {"fast": 5.0, "slow": 40.0, "stays": math.inf}[kind]
    rise = draw.choice([1, 2, 4])
    lead = draw.choice([0, 1, 2])
    for step in range(at, len(loss)):
        done = min(1.0, (step - at + 1) / rise)
        loss[step] += size * done * math.exp(-(step - at) / width)
    for step in range(at - lead, min(len(norm), at + 10)):
        norm[step] *= 1 + draw.uniform(2, 20) * math.exp(-(step - at + lead) / 4)


ROWS: Final = (
    (2.199, 0.242), (2.220, 0.947), (2.595, 2.39), (2.242, 15.9), (2.345, 145.0), (5.098, 960.0),
)  # fmt: skip
"""Loss and gradient norm of BLOOM-176B's first spike, steps 31214-31219, as its chronicle prints
them (bigscience-workshop, Apache-2.0).
"""
FIRST_ROW: Final = 31214


def bloom(seed: int = 0, history: int = 128) -> tuple[int, list[tuple[float, float]]]:
    """Return the first step and the (loss, norm) rows: drawn history, then the six real ones."""
    draw = random.Random(seed)
    made = [(draw.gauss(2.20, 0.02), draw.gauss(0.24, 0.02)) for _ in range(history)]
    return FIRST_ROW - history, [*made, *ROWS]
