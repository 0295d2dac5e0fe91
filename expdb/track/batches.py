"""Micro-batches of a loader that begins again at its end.

Invariant: making the first iterator of a resumed process draws nothing from the restored
generators; the time spent waiting for data is counted, and nothing is fetched ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from expdb.errors import BadInput
from expdb.track import rng

if TYPE_CHECKING:
    from expdb.track.loop_state import LoopState


class Batches:
    """Micro-batches of a loader that begins again at its end; measures the time spent waiting."""

    def __init__(self, loader: Any, loop: LoopState, clock: Callable[[], float]) -> None:
        self._loader = loader
        self._loop = loop
        self._clock = clock
        self._iterator: Iterator[Any] | None = None
        self.wait_s = 0.0

    def open(self, *, restored: bool) -> None:
        """Make the iterator; after a restore this must not draw from the restored generators."""
        if restored:
            # The first process drew a seed here, and the saved generators have that behind them.
            with rng.preserved():
                self._iterator = iter(self._loader)
        else:
            self._iterator = iter(self._loader)

    @property
    def number(self) -> int:
        """The number of the micro-batch taken last, from 0."""
        return (self._loop.num_batches or 0) - 1

    def skip(self, count: int) -> tuple[int, int]:
        """Leave micro-batches out, and return the first and the last of them, counted from 0.

        Raises:
            BadInput: the loader gives none even from its beginning.
        """
        first = self._loop.num_batches or 0
        for _ in range(count):
            self.take()
        return first, first + count - 1

    def take(self) -> Any:
        """Return the next micro-batch.

        Raises:
            BadInput: the loader gives none even from its beginning.
        """
        began = self._clock()
        try:
            found = self._next()
            self._loop.num_batches = (self._loop.num_batches or 0) + 1
            return found
        finally:
            self.wait_s += self._clock() - began

    def _next(self) -> Any:
        if self._iterator is None:
            self.open(restored=False)
        assert self._iterator is not None
        try:
            return next(self._iterator)
        except StopIteration:
            self._loop.epoch += 1
        for owner in (self._loader, getattr(self._loader, "sampler", None)):
            set_epoch = getattr(owner, "set_epoch", None)
            if callable(set_epoch):
                set_epoch(self._loop.epoch)
        self._iterator = iter(self._loader)
        try:
            return next(self._iterator)
        except StopIteration:
            raise BadInput(
                "the loader gives no batch", hint="an iterator that ends cannot begin again"
            ) from None
