"""How the store lives, on every screen: the header, the window's title, the bell.

Invariant: the bell rings once for a critical event, and not for those from before the app began.
"""

from __future__ import annotations

import time
from typing import Any

from expdb.index.reader import Reader
from expdb.query.pulse import Alarm, Pulse, pulse_of
from expdb_tui.life import Life
from expdb_tui.screens.page import Page
from expdb_tui.session import DAY_MS, now_ms
from expdb_tui.shared import Shared

TICK_S = 1.0
SHARE = 10
"""Looks at the store take at most one tenth of the time."""


class Living(Shared):
    """The app as it follows what lives."""

    def __init__(self, *args: Any, **look: Any) -> None:
        super().__init__(*args, **look)
        self._alarms: set[Alarm] = set()
        self._seen_alarms: set[Alarm] = set()
        self._pulse: Pulse | None = None
        self._next_pulse = 0.0

    def alarm(self, said: str) -> None:
        """Say something bad at the foot."""

    def has_read(self, run: str) -> None:
        """Take notice that somebody opens a run: its failure and its events are no news then."""
        pulse = self._pulse
        if pulse is not None:
            self.read_runs |= pulse.failed & {run}
            self._seen_alarms |= {one for one in pulse.alarms if one.run == run}
            self.say_life()

    def take_pulse(self, pulse: Pulse) -> None:
        """Take how the store lives, for the header of all screens; ring once for what is new."""
        new = [alarm for alarm in pulse.alarms if alarm not in self._alarms]
        self._alarms.update(new)
        self._pulse = pulse
        self.say_life()
        if new:
            self.bell()
            said = ", ".join(f"{alarm.name} {alarm.rule} at {alarm.step}" for alarm in new[:3])
            self.alarm(said)

    def say_life(self) -> None:
        """Say how the store lives, but for what somebody has opened."""
        pulse = self._pulse
        if pulse is None:
            return
        self.life = Life(
            num_live=len(pulse.is_live),
            num_failed=len(pulse.failed - self.read_runs),
            last_point_ms=pulse.last_point_ms,
            alarms=tuple(one for one in pulse.alarms if one not in self._seen_alarms),
            live_sign=self.life.live_sign,
            failed_sign=self.life.failed_sign,
        )
        self.window.say(self.life.title(self.store_name))
        self.renew_header()

    def feel(self, page: Page) -> None:
        """Look how the store lives, on a screen that does not look at all runs itself."""
        now = time.monotonic()
        if page.HAS_PULSE or now < self._next_pulse:
            return
        self._next_pulse = now + 60.0
        since, day_ago = self.started_ms, now_ms() - DAY_MS
        is_old = now - self.session.looked_s >= TICK_S

        def ask(reader: Reader) -> Pulse:
            return pulse_of(reader, failed_since_ms=day_ago, alarms_since_ms=since)

        def take(pulse: Pulse) -> None:
            took = time.monotonic() - now
            self._next_pulse = time.monotonic() + max(0.9 * TICK_S, SHARE * took)
            self.take_pulse(pulse)

        page.read(ask, take, group="pulse", is_new=is_old)

    def renew_header(self) -> None:
        """Draw the header of the screen again."""
        # A dialog has none, and a screen that is only just being made has none yet.
        for header in self.screen.query("#header"):
            header.refresh()
