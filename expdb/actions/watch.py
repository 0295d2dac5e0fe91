"""`events --watch`: what happens in all runs of a store, look after look, and people told of it.

Invariant: of the store only what is told is written (`.expdb/notify`), so that any number of
processes may watch, and each thing is told once; what cannot be told now is told later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from expdb.errors import Corrupt
from expdb.notify import sending
from expdb.notify.address import Reach
from expdb.notify.answer import Answer
from expdb.notify.channel import Channel
from expdb.notify.delivery import Delivery
from expdb.notify.item import Item
from expdb.query.watch import STALLED_S, StoreWatch
from expdb.store.files import reason
from expdb.store.store import Store

POLL_S: Final = 2.0
SHARE: Final = 20
"""So many times as long as a look takes it waits for the next, in a store of very many runs."""
TEST_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one channel was told in a look, or why it was not."""

    channel: str
    num_told: int = 0
    num_waiting: int = 0
    trouble: str = ""
    """Only in the first look at which it takes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look found."""

    items: tuple[Item, ...]
    told: tuple[Told, ...]
    num_runs: int
    num_live: int


class Watch:
    """One process that watches a store; with channels it tells people."""

    def __init__(
        self,
        store: Store,
        channels: Sequence[Channel] = (),
        reach: Reach | None = None,
        *,
        shortest_s: float = STALLED_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Begin to watch.

        Raises:
            Corrupt: what is told cannot be kept.
        """
        reach = reach or Reach(env={}, base=store.root.parent)
        self._deliveries = [Delivery(one, store.layout, reach, clock=clock) for one in channels]
        since_ms = int(clock() * 1000)
        try:
            since_ms = min([since_ms, *(one.begin() for one in self._deliveries)])
        except OSError as error:
            raise Corrupt(
                f"what is told cannot be kept in the store {store.name}: {reason(error)}",
                hint="watch without --notify, or as a user who may write there",
            ) from error
        self._watch = StoreWatch(store.root, since_ms=since_ms, shortest_s=shortest_s)
        self._failing: set[str] = set()
        self._is_first = True

    def look(self) -> Look:
        """Look once, and tell what there is to tell."""
        items = sorted(self._watch.look(), key=lambda one: one.created_at_ms)
        sources = [one.source for one in self._watch.followed]
        told = []
        for delivery in self._deliveries:
            # Since the last failure of another process somebody may have mended it.
            found = delivery.round(sources, force=self._is_first)
            name = delivery.channel.name
            is_new = bool(found.trouble) and name not in self._failing
            (self._failing.add if found.trouble else self._failing.discard)(name)
            if found.num_told or is_new:
                trouble = found.trouble if is_new else ""
                made = Told(
                    channel=name, num_told=found.num_told, num_waiting=found.num_waiting,
                    trouble=trouble,
                )  # fmt: skip
                told.append(made)
        self._is_first = False
        return Look(
            items=tuple(items),
            told=tuple(told),
            num_runs=self._watch.num_runs,
            num_live=self._watch.num_live,
        )

    @property
    def waiting(self) -> dict[str, int]:
        """Channel -> how much is to be told through it and is not."""
        sources = [one.source for one in self._watch.followed]
        return {one.channel.name: len(one.waiting(sources)) for one in self._deliveries}

    def follow(self, *, sleep: Callable[[float], None] = time.sleep) -> Iterator[Look]:
        """Look for ever."""
        while True:
            began = time.monotonic()
            yield self.look()
            sleep(max(POLL_S, SHARE * (time.monotonic() - began)))


def tested(
    channels: Sequence[Channel], reach: Reach, store: str
) -> Iterator[tuple[Channel, Answer]]:
    """Send one message that says it is a test through each channel; yield what it answers."""
    post = sending.trial(store)
    for channel in channels:
        yield channel, sending.send(channel, post, replace(reach, timeout_s=TEST_S))
