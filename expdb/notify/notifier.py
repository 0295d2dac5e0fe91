"""The thread of a training process that tells people what the rules of its run found.

Invariant: the training thread only sets a flag, whatever the other side does; it waits for nothing
but the end of the run, and there for FLUSH_S at most. A channel that takes nothing is said on the
console at once, as an event after OUTAGE_S, and goes on being tried.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from expdb.errors import ExpdbError
from expdb.notify import sending
from expdb.notify.address import Reach
from expdb.notify.channel import Channel
from expdb.notify.delivery import Delivery, Round
from expdb.notify.fate import notice_of_end
from expdb.notify.source import Source
from expdb.store.files import reason
from expdb.store.layout import RunLayout, StoreLayout
from expdb.text import duration, plain

FLUSH_S: Final = 5.0
LOOK_S: Final = 30.0
"""How often it looks without being asked: another process may have added an event."""
GATHER_S: Final = 0.2
"""What many rules find at one step is told at once."""
OUTAGE_S: Final = 600.0
RULE: Final = "notify"


class Alerting(Protocol):
    """Records an event of the run: step, severity, rule, message."""

    def __call__(self, step: int, severity: str, rule: str, message: str) -> None:
        """Record it."""


class Notifier:
    """Tells what one run's events say, through all channels."""

    def __init__(
        self,
        channels: Sequence[Channel],
        layout: RunLayout,
        name: str,
        *,
        env: Mapping[str, str],
        say: Callable[[str], None],
        alert: Alerting,
        step: Callable[[], int | None],
        clock: Callable[[], float] = time.time,
        send: sending.Send = sending.send,
    ) -> None:
        root = layout.root.parents[1]
        reach = Reach(env=env, base=root.parent)
        store = StoreLayout(root)
        self._deliveries = [
            Delivery(channel, store, reach, clock=clock, send=send) for channel in channels
        ]
        self._source = Source(layout, name)
        self._say, self._alert, self._step = say, alert, step
        self._failing: set[str] = set()
        self._is_out: set[str] = set()
        """Channels whose outage is an event by now."""
        self._flag, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="expdb-notify", daemon=True)

    def start(self) -> None:
        """Begin, with what an earlier attempt left untold; say what a channel lacks."""
        if not self._deliveries:
            return
        self._source.read()
        for delivery in self._deliveries:
            problem = sending.problem_of(delivery.channel, delivery.reach)
            if problem:
                self._failing.add(delivery.channel.name)
                self._say(f"notify: {problem}")
            try:
                delivery.begin()
                delivery.adopt(self._source)
            except OSError as error:
                self._say(f"store: {reason(error)}; what is told is not kept")
        self._flag.set()
        self._thread.start()

    def poke(self) -> None:
        """Have it look: there is an event."""
        self._flag.set()

    def close(self, state: str, why: str, attempt: int) -> None:
        """Tell how the run ended and what is left, for FLUSH_S at most; say what is not told."""
        if not self._thread.is_alive():
            return
        self._source.notice(
            notice_of_end(
                self._source.run, self._source.name, state, why, attempt=attempt, step=self._step()
            )
        )
        self._closing.set()
        self._flag.set()
        self._thread.join(FLUSH_S)
        left = [
            f"{num} through {plain(one.channel.name)}"
            for one in self._deliveries
            if (num := len(one.waiting([self._source])))
        ]
        if left:
            self._say(
                f"notify: not told yet: {', '.join(left)};"
                " the next attempt does, or: expdb events --watch --notify"
            )

    def _run(self) -> None:
        wait_s, is_first = LOOK_S, True
        while True:
            self._flag.wait(wait_s)
            is_last = self._closing.is_set() or self._closing.wait(GATHER_S)
            self._flag.clear()
            self._source.read()
            # Since the last failure of another process somebody may have mended it.
            rounds = [(one, self._round(one, is_first, is_last)) for one in self._deliveries]
            is_first = False
            for delivery, found in rounds:
                self._tell_trouble(delivery.channel.name, found, is_last=is_last)
            if is_last:
                return
            waits = [found.wait_s for _, found in rounds if found.wait_s is not None]
            wait_s = min([LOOK_S, *waits])

    def _round(self, delivery: Delivery, is_first: bool, is_last: bool) -> Round:
        if is_last:  # so that one slow channel does not take the time of the others
            delivery.reach = replace(delivery.reach, timeout_s=FLUSH_S / 2)
        return delivery.round([self._source], force=is_first or is_last)

    def _tell_trouble(self, channel: str, found: Round, *, is_last: bool) -> None:
        if not found.trouble:
            if found.num_posts and channel in self._failing:
                self._say(f"notify: {plain(channel)} works again")
                self._failing.discard(channel)
                self._is_out.discard(channel)
            return
        words = f"{plain(channel)} took nothing ({found.trouble}); {found.num_waiting} to be told"
        if channel not in self._failing:
            self._failing.add(channel)
            self._say(f"notify: {words}; it is tried again")
        # At its end a run takes no further event, and says itself what is not told.
        if found.failing_s >= OUTAGE_S and channel not in self._is_out and not is_last:
            self._is_out.add(channel)
            since = duration(found.failing_s)
            try:
                self._alert(self._step() or 0, "warn", RULE, f"channel {words}, for {since}")
            except ExpdbError:
                pass  # the run ends at this moment, and says itself what is not told
