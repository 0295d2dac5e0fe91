"""The updates of a probe and their clock.

Invariant: between two marks nothing waits for a CUDA device; on one, the gaps are those of its own
clock, and `total_s` is wall time with the device idle at both ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from expdb.errors import BadInput
from expdb.track.update import Engine, Result, Update

if TYPE_CHECKING:
    from torch import Tensor


TELL_S = 0.5


class Probed:
    """The engine of a loop, as a probe drives it."""

    def __init__(self, engine: Engine, *, tell: Callable[[int], None] | None = None) -> None:
        """`tell` is given the number of updates done, twice a second at most."""
        self._tell = tell
        self._told_s = 0.0
        self._num = 0
        self.engine = engine
        self.clock = engine.clock
        self.step = engine.state.loop.step

    def update(self, kind: type[Update] = Update) -> Generator[Update, None, Result]:
        """Yield one update, and return what it measured.

        Raises:
            BadInput: the script did not finish it.
        """
        results: list[Result] = []
        update = kind(self.engine, self.step, results.append)
        yield update
        if not update.is_done:
            raise BadInput(f"step {self.step} was not finished by update.step()")
        self.step += 1
        self.engine.state.loop.step = self.step
        self._num += 1
        if self._tell is not None and time.monotonic() - self._told_s > TELL_S:
            self._told_s = time.monotonic()
            self._tell(self._num)
        return results[0]

    def sync(self) -> None:
        """Wait until the device has done all it was given."""
        if self.engine.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.engine.device)


class Marks:
    """Moments between updates."""

    def __init__(self, probed: Probed) -> None:
        self._probed = probed
        self._is_cuda = probed.engine.device.type == "cuda"
        self._marks: list[Any] = []
        self._first_s = 0.0
        self.mark()

    def mark(self) -> None:
        """Note this moment; the first one waits for the device."""
        if not self._marks:
            self._probed.sync()
            self._first_s = self._probed.clock()
        if not self._is_cuda:
            self._marks.append(self._first_s if not self._marks else self._probed.clock())
            return
        import torch

        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._probed.engine.device))
        self._marks.append(event)

    def __len__(self) -> int:
        """How many gaps there are."""
        return len(self._marks) - 1

    def gaps_s(self) -> tuple[float, list[float]]:
        """Return the time from the first mark on, all work of the device done, and each gap."""
        if not self._is_cuda:
            total_s = self._marks[-1] - self._marks[0]
            return total_s, [b - a for a, b in zip(self._marks, self._marks[1:], strict=False)]
        self._probed.sync()
        total_s = self._probed.clock() - self._first_s
        pairs = zip(self._marks, self._marks[1:], strict=False)
        return total_s, [a.elapsed_time(b) / 1000.0 for a, b in pairs]


def num_compiled() -> int:
    """Return how much torch has compiled in this process so far; it only ever grows."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters: Any = getattr(dynamo, "counters", None) or {}
    groups = ("frames", "stats", "aot_autograd")
    return sum(sum(counters[name].values()) for name in groups if name in counters)


def on_host(value: float | Tensor) -> float:
    """Return a value that may live on a device."""
    return float(value)
