"""The bar of sealing: what a million points cost the training loop beside which they are sealed."""

from __future__ import annotations

import statistics
from typing import Final

from bench.bars.bar import Bar
from bench.environments import Failed, Place
from bench.measure import Load
from bench.pairs import Options

MODULE: Final = "bench.bars.stall_loop"
MOST_MS: Final = 25.0


def measure(place: Place, options: Options) -> list[Bar]:
    """Return the bar, and the longest step beside it."""
    stalls, worst, plain, cpu, load = [], [], [], 0.0, Load()
    for _ in range(options.size(options.reps, options.reps, 1)):
        answer, spent = place.tell(MODULE, {"store": place.store("seal")})
        cpu += spent.cpu_s
        if not answer["sealed"]:
            raise Failed("no part was sealed while the loop ran")
        stalls.append(answer["stall_ms"])
        worst.append(answer["worst_ms"])
        plain.append(answer["without_ms"])
    others = load.others(cpu)
    is_noise = statistics.median(plain) > MOST_MS
    note = "the loop is disturbed by more than the bar without sealing" if is_noise else ""
    return [
        Bar(
            what="sealing a million points beside a loop, stall",
            unit="ms", most=MOST_MS, found=stalls, others=others, note=note, is_noise=is_noise,
        ),
        Bar(what="the same sum without sealing", unit="ms", most=None, found=plain),
        Bar(what="longest step beside sealing", unit="ms", most=None, found=worst),
    ]  # fmt: skip
