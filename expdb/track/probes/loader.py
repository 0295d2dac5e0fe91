"""Is it the data or the compute that a step waits for: both alone, and both together.

    together   updates as training does them
    data       the same iterator, its batches thrown away
    compute    updates on one batch that is kept

Training is data-bound where the data alone take as long as a step does, so that compute for nothing
would hardly help; compute-bound where the updates on a kept batch do.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from expdb.track.loading import (
    MOST_WORKERS,
    PREFETCH,
    loader_options,
    num_cores,
    possible_workers,
)
from expdb.track.probes.seen import Marks, Probed
from expdb.track.probes.throughput import percentile

if TYPE_CHECKING:
    from expdb.track.batches import Batches
    from expdb.track.update import Update

Verdict = Literal["data-bound", "compute-bound", "balanced"]
FACTOR = 1.25
"""By so much one side has to be the slower one."""
SPARE = 1.2
"""Workers for so much more than the mean: batches are not all alike."""
JITTER = 2.0
"""From a 95th percentile of so many medians on, more batches are held ready."""


class Cached:
    """Stands in for the batches of a loader: always the same one."""

    def __init__(self, batch: Any, number: int) -> None:
        self._batch = batch
        self.number = number
        self.wait_s = 0.0

    def take(self) -> Any:
        """Return the batch."""
        return self._batch


def measure(probed: Probed, task: Mapping[str, Any]) -> Generator[Update, None, dict[str, Any]]:
    """Yield updates, take batches between them, and return how long each takes alone.

    Updates on the loader's batches and on a kept one take turns, as a machine has slow minutes.
    """
    warm_up, num = int(task["warm_up"]), int(task["updates"])
    engine = probed.engine
    loader, batches = engine.state.loader, engine.batches
    together, compute = _Timed(), _Timed()
    took_s: list[float] = []
    for part in filter(None, (num - num // 2, num // 2)):
        _drain(batches, loader)
        for _ in range(warm_up):
            yield from probed.update()
        yield from together.add(probed, part)
        _drain(batches, loader)
        for _ in range(part * engine.accum):
            began = probed.clock()
            batch = batches.take()
            took_s.append(probed.clock() - began)
        kept: Any = Cached(batch, batches.number)
        engine.batches = kept
        yield from probed.update()
        yield from compute.add(probed, part)
        engine.batches = batches
    data_s, compute_s = sum(took_s) / num, compute.total_s / num
    workers = int(getattr(loader, "num_workers", 0) or 0)
    cores = num_cores()
    return {
        "updates": num,
        "step_s": together.total_s / num,
        "data_s": data_s,
        "batch_s": statistics.median(took_s),
        "batch_p95_s": percentile(took_s, 0.95),
        "compute_s": compute_s,
        "wait_share": together.wait_s / together.total_s if together.total_s > 0 else 0.0,
        "verdict": verdict(data_s, compute_s),
        "loader": type(loader).__name__,
        "is_torch": is_torch_loader(loader),
        "workers": workers,
        "prefetch": getattr(loader, "prefetch_factor", None),
        "cores": cores,
        "suggested": suggested(
            data_s, compute_s, took_s, workers=workers, cores=cores,
            is_cuda=engine.device.type == "cuda",
        ),
    }  # fmt: skip


@dataclass(slots=True)
class _Timed:
    """Wall time of updates, and how much of it they waited for data."""

    total_s: float = 0.0
    wait_s: float = 0.0

    def add(self, probed: Probed, num: int) -> Generator[Update, None, None]:
        marks = Marks(probed)
        for _ in range(num):
            result = yield from probed.update()
            marks.mark()
            self.wait_s += result.wait_s
        self.total_s += marks.gaps_s()[0]


def _drain(batches: Batches, loader: Any) -> None:
    """Take what workers have ready: it says nothing of their pace."""
    workers = int(getattr(loader, "num_workers", 0) or 0)
    for _ in range(workers * int(getattr(loader, "prefetch_factor", 0) or 0)):
        batches.take()


def verdict(data_s: float, compute_s: float) -> Verdict:
    """Return what a step waits for, by what each takes alone."""
    if data_s > FACTOR * compute_s:
        return "data-bound"
    return "compute-bound" if compute_s > FACTOR * data_s else "balanced"


def suggested(
    data_s: float,
    compute_s: float,
    batches_s: Sequence[float],
    *,
    workers: int,
    cores: int,
    is_cuda: bool,
) -> dict[str, Any]:
    """Return how many workers keep up, and the arguments of a DataLoader with as many as there can
    be: `needed` may be more than the machine or the usual bound allows (`enough` is False then).

    One worker makes a batch in the time that the loader alone takes, times its workers.
    """
    alone_s = data_s * max(workers, 1)
    needed = math.ceil(SPARE * alone_s / compute_s) if compute_s > 0 else MOST_WORKERS
    possible = possible_workers(cores)
    has_jitter = percentile(batches_s, 0.95) > JITTER * statistics.median(batches_s)
    options = loader_options(
        min(needed, possible), prefetch=PREFETCH if has_jitter else 2, is_cuda=is_cuda
    )
    return {"needed": needed, "possible": possible, "enough": needed <= possible, **options}


def is_torch_loader(loader: Any) -> bool:
    """Tell whether a loader is one of torch's, which takes workers."""
    from torch.utils.data import DataLoader

    return isinstance(getattr(loader, "torch_loader", loader), DataLoader)
