"""Host-side readings of a loop: delayed device values, pace, and the time that is left.

Invariant: nothing here waits for the device while training runs; a value that lives there is copied
aside and read when its copy has arrived. Evaluation and saving are not part of a step's time.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

WINDOW = 50
WARM_UP = 5
"""First updates left out once others are known: they compile, allocate and fill caches."""
STEPS_FOR_ETA = 10


class Delayed:
    """Values in order of steps, read on the host when they are there.

    Host values come back at once. A CUDA value is copied to pinned memory without waiting; `ready`
    gives those whose copy has finished, `drain` waits for all.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[int, tuple[Any, ...], Any]] = deque()

    def push(self, step: int, *values: float | Tensor) -> None:
        """Add the values of one step; tensors are copied here and may change afterwards."""
        import torch

        on_device = [v for v in values if isinstance(v, torch.Tensor) and v.is_cuda]
        copies = tuple(
            v.detach().to("cpu", non_blocking=True, copy=True) if isinstance(v, torch.Tensor) else v
            for v in values
        )
        event = None
        if on_device:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(torch.cuda.current_stream(on_device[0].device))
        self._queue.append((step, copies, event))

    def ready(self) -> Iterator[tuple[int, tuple[float, ...]]]:
        """Yield (step, values) of those that have arrived, without waiting."""
        while self._queue and (self._queue[0][2] is None or self._queue[0][2].query()):
            step, copies, _ = self._queue.popleft()
            yield step, tuple(float(one) for one in copies)

    def drain(self) -> Iterator[tuple[int, tuple[float, ...]]]:
        """Wait for all that is under way, and yield it."""
        if self._queue and self._queue[-1][2] is not None:
            self._queue[-1][2].synchronize()
        yield from self.ready()

    def __len__(self) -> int:
        return len(self._queue)


@dataclass(slots=True)
class _Mean:
    count: int = 0
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total_s += seconds

    @property
    def value_s(self) -> float:
        return self.total_s / self.count if self.count else 0.0


class Pace:
    """How fast the loop goes, from measured seconds."""

    def __init__(self) -> None:
        self._steps: deque[float] = deque(maxlen=WINDOW)
        self._tokens: deque[float] = deque(maxlen=WINDOW)
        self._num_steps = 0
        self._evaluation = _Mean()
        self._save = _Mean()

    def stepped(self, seconds: float) -> None:
        """Add one update's wall time."""
        self._num_steps += 1
        self._steps.append(seconds)

    def counted(self, tokens: float) -> None:
        """Add one update's tokens; they may arrive later than its time."""
        self._tokens.append(tokens)

    def evaluated(self, seconds: float) -> None:
        """Add one evaluation's wall time."""
        self._evaluation.add(seconds)

    def saved(self, seconds: float) -> None:
        """Add the time that one save kept the loop waiting."""
        self._save.add(seconds)

    def tokens_per_s(self) -> float | None:
        """Return tokens a second over the last updates; None until one is known."""
        seconds, tokens = self._after_warm_up(self._steps), list(self._tokens)[-WINDOW:]
        tokens = tokens[-len(seconds) :]
        total_s = sum(seconds[: len(tokens)])
        return sum(tokens) / total_s if tokens and total_s > 0 else None

    def eta_s(self, *, steps: int, evaluations: int, saves: int) -> float | None:
        """Return the seconds that the given work will take; None until 10 updates are known."""
        if self._num_steps < STEPS_FOR_ETA:
            return None
        return (
            steps * statistics.median(self._after_warm_up(self._steps))
            + evaluations * self._evaluation.value_s
            + saves * self._save.value_s
        )

    def _after_warm_up(self, values: deque[float]) -> list[float]:
        """Return the window without the first updates of all, unless there are no others."""
        dropped = max(0, WARM_UP - (self._num_steps - len(values)))
        return list(values)[dropped:] or list(values)


def due_between(every: int | None, after: int, upto: int) -> int:
    """Return how many multiples of `every` lie in (after, upto]; the end itself always counts."""
    if upto <= after:
        return 0
    if not every:
        return 1
    return upto // every - after // every + (1 if upto % every else 0)
