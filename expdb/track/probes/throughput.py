"""How fast training goes: updates timed after others that warm up.

Tokens are those that were given to `update.backward`, so padding does not count. No evaluation, no
checkpoint, no monitor runs meanwhile. An update in which torch compiles something ends the window:
it begins again after it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from expdb.errors import BadInput
from expdb.track.probes.seen import Marks, Probed, num_compiled, on_host

if TYPE_CHECKING:
    from expdb.track.update import Update

MOST = 4
"""So many times the updates asked for, at most, until there is a window without compiling."""


def measure(probed: Probed, task: Mapping[str, Any]) -> Generator[Update, None, dict[str, Any]]:
    """Yield updates, and return tokens a second, the times of the steps, and the share of waiting.

    Raises:
        BadInput: torch compiles something in every window.
    """
    warm_up, wanted = int(task["warm_up"]), int(task["updates"])
    for _ in range(warm_up):
        yield from probed.update()
    tokens: list[Any] = []
    wait_s, recompiled = 0.0, 0
    compiled, marks = num_compiled(), Marks(probed)
    for _ in range(MOST * wanted):
        result = yield from probed.update()
        if num_compiled() != compiled:
            compiled, recompiled = num_compiled(), recompiled + 1
            tokens, wait_s, marks = [], 0.0, Marks(probed)
            continue
        marks.mark()
        tokens.append(result.num_tokens)
        wait_s += result.wait_s
        if len(marks) == wanted:
            break
    else:
        raise BadInput(
            f"torch compiles something again and again: no {wanted} updates in a row without",
            hint="look for shapes that change: TORCH_LOGS=recompiles python train.py ...",
        )
    total_s, steps_s = marks.gaps_s()
    return summary(sum(map(on_host, tokens)), total_s, steps_s, wait_s) | {
        "warm_up": warm_up,
        "updates_that_compiled": recompiled,
    }


def summary(
    num_tokens: float, total_s: float, steps_s: Sequence[float], wait_s: float
) -> dict[str, Any]:
    """Return the figures of a window."""
    if not total_s > 0:
        raise BadInput("the clock did not move over the timed updates")
    return {
        "updates": len(steps_s),
        "tokens": round(num_tokens),
        "seconds": total_s,
        "tokens_per_s": num_tokens / total_s,
        "median_s": statistics.median(steps_s),
        "p95_s": percentile(steps_s, 0.95),
        "wait_share": wait_s / total_s,
        "steps_s": list(steps_s),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that so large a share of all does not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
