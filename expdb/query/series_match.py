"""Two recordings of the same training, point by point.

    bit-equal      the same 64 bits; NaN equals NaN whatever its payload
    within         |a - b| <= rtol * max(|a|, |b|)

Values of time and of the machine cannot repeat, and are left out by their names.

Invariant: a point that one side lacks is a difference that no tolerance covers, unless its signal
is sampled: which updates have a sample depends on what it costs, so those of both are compared.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from expdb.monitor.signals import signal_of

Points = Mapping[tuple[int, str], float]
"""(step, key) -> value."""

WORDS: Final = frozenset(
    {
        "time", "wait", "elapsed", "duration", "eta", "latency", "overhead", "throughput", "speed",
        "fps", "mfu", "hfu", "util", "utilization", "memory", "mem", "gpu", "cpu", "cuda", "sec",
        "secs", "second", "seconds", "timestamp", "clock",
    }
)  # fmt: skip
"""A last name with one of these words in it is of time or of the machine."""
UNITS: Final = ("_s", "_ms", "_us", "_ns", "_per_sec", "_per_second")
FIRST: Final = ("train/loss", "loss")
"""Of several metrics that differ at one step these are named first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointPair:
    """One point in both recordings; None where it is missing."""

    step: int
    key: str
    first: float | None
    again: float | None

    @property
    def relative(self) -> float:
        """|a - b| / max(|a|, |b|); infinite where that is no number."""
        if self.first is None or self.again is None:
            return math.inf
        if self.first == self.again or (math.isnan(self.first) and math.isnan(self.again)):
            return 0.0
        found = abs(self.first - self.again) / max(abs(self.first), abs(self.again))
        return found if math.isfinite(found) else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesMatch:
    """How two recordings agree."""

    outcome: Literal["bit_equal", "equal_within", "differs"]
    num_points: int
    num_equal: int
    """Points whose bits are the same."""
    num_keys: int
    steps: tuple[int, int] | None
    """The first and the last step compared."""
    rtol: float
    first: PointPair | None = None
    """The first point beyond the tolerance."""
    beside: tuple[str, ...] = ()
    """Other metrics beyond it at the same step."""
    first_bits: PointPair | None = None
    """The first point whose bits differ."""
    largest: PointPair | None = None
    """The largest relative difference; None where every bit is the same."""
    left_out: tuple[str, ...] = ()


def is_of_machine(key: str) -> bool:
    """Tell whether a metric is of time, of memory or of the machine: no training repeats it."""
    group, _, _ = key.partition("/")
    last = key.rsplit("/", 1)[-1].lower()
    words = set(re.split(r"[^a-z0-9]+", last))
    return group == "sys" or last.endswith(UNITS) or not WORDS.isdisjoint(words)


def _is_sampled(key: str) -> bool:
    signal = signal_of(key)
    return signal is not None and signal.is_sampled


def _is_carried(key: str) -> bool:
    signal = signal_of(key)
    return signal is not None and signal.is_carried


def match(first: Points, again: Points, *, rtol: float) -> SeriesMatch:
    """Compare two recordings; `rtol` 0 allows equal bits alone."""
    everything = set(first) | set(again)
    left_out = sorted({key for _, key in everything if is_of_machine(key) or _is_carried(key)})
    both = set(first) & set(again)
    places = sorted(
        (
            at
            for at in everything
            if at[1] not in left_out and (at in both or not _is_sampled(at[1]))
        ),
        key=_order,
    )
    pairs = [
        PointPair(step=step, key=key, first=first.get((step, key)), again=again.get((step, key)))
        for step, key in places
    ]
    unequal = [pair for pair in pairs if not same_bits(pair.first, pair.again)]
    beyond = [pair for pair in unequal if not pair.relative <= rtol or rtol == 0]
    at = beyond[0].step if beyond else None
    return SeriesMatch(
        outcome="differs" if beyond else "equal_within" if unequal else "bit_equal",
        num_points=len(pairs),
        num_equal=len(pairs) - len(unequal),
        num_keys=len({pair.key for pair in pairs}),
        steps=(pairs[0].step, pairs[-1].step) if pairs else None,
        rtol=rtol,
        first=beyond[0] if beyond else None,
        beside=tuple(pair.key for pair in beyond[1:] if pair.step == at),
        first_bits=unequal[0] if unequal else None,
        largest=max(unequal, key=lambda pair: pair.relative, default=None),
        left_out=tuple(left_out),
    )


def same_bits(first: float | None, again: float | None) -> bool:
    """Tell whether two values are the same 64 bits, or both no number."""
    if first is None or again is None:
        return False
    if math.isnan(first) or math.isnan(again):
        return math.isnan(first) and math.isnan(again)
    return struct.pack("<d", first) == struct.pack("<d", again)


def _order(place: tuple[int, str]) -> tuple[int, int, str]:
    step, key = place
    return step, FIRST.index(key) if key in FIRST else len(FIRST), key


def points_of(
    run_dir: Path, *, attempt: int, below: int, keys: Sequence[str] | None = None
) -> dict[tuple[int, str], float]:
    """Return the points that rank 0 of one attempt logged at steps below `below`, hidden ones too.

    Raises:
        Corrupt: a file of them is damaged.
    """
    import pyarrow.compute as pc

    from expdb.store.points import read_series

    table = read_series(run_dir, keys, attempts=True)
    mine = pc.and_(pc.equal(table["attempt"], attempt), pc.equal(table["rank"], 0))
    table = table.filter(pc.and_(mine, pc.less(table["step"], below))).sort_by("seq")
    columns = (table[name].to_pylist() for name in ("step", "key", "value"))
    return {(step, key): value for step, key, value in zip(*columns, strict=True)}
