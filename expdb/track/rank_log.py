"""The points of a writer beside rank 0: another rank of the launch, or an attached process.

Invariant: as for rank 0, a host scalar is on disk when `log` returns, and what cannot be written
waits in memory and is said. `status.json` is not written here; it gets a new time at the end.
"""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from expdb.errors import BadInput, Corrupt
from expdb.store import writers
from expdb.store.files import reason
from expdb.store.layout import RunLayout
from expdb.store.marks import touch_status
from expdb.store.media_recorder import MediaRecorder
from expdb.store.recorder import Recorder
from expdb.track.ending import count_others, where_points_are
from expdb.track.heartbeat import Heartbeat
from expdb.track.outage import Outage
from expdb.track.scalars import DeviceQueue, sorted_out

SYNC_S = 5.0


class RankLog:
    """The journals of one rank that this process has claimed, from the first value to `close`.

    Raises:
        OSError: the store cannot be written.
    """

    def __init__(
        self,
        layout: RunLayout,
        attempt: int,
        rank: int,
        *,
        on_trouble: Callable[[str], None],
        sync_s: float = SYNC_S,
    ) -> None:
        self.layout, self.attempt, self.rank = layout, attempt, rank
        self.outage = Outage(on_trouble)
        self._on_trouble = on_trouble = self.outage.trouble
        self.recorder = Recorder(
            layout, run=layout.id, attempt=attempt, rank=rank, on_trouble=on_trouble
        )
        self.media = MediaRecorder(
            layout, run=layout.id, attempt=attempt, rank=rank, on_trouble=on_trouble
        )
        self.queue = DeviceQueue(self.recorder.write)
        self._heartbeat = Heartbeat(
            layout,
            attempt,
            self.recorder,
            sync_s=sync_s,
            on_trouble=on_trouble,
            live=layout.rank_owner(attempt, rank),
            beside=(self.media.sync,),
            on_good=self.outage.works,
        )
        self._heartbeat.start()
        self.is_open, self.is_forked = True, False
        handle = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _leave(handle()))
        self._at_exit = lambda: _end(handle())
        atexit.register(self._at_exit)

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Record values at a step.

        Raises:
            BadInput: a name is empty or no text, or a value is no number; the good ones are
                recorded.
        """
        now = time.time_ns() // 1_000_000
        keys, values = tuple(metrics), tuple(metrics.values())
        refused: list[str] = []
        if not self.recorder.write(keys, values, step, now, tuple(map(type, values))):
            host, device, refused = sorted_out(metrics, step)
            if host:
                self.recorder.write(tuple(host), tuple(host.values()), step, now)
            if device:
                self.queue.put(device, step, now)
        if self.queue.pending:
            self.queue.drain()
        if refused:
            raise BadInput("; ".join(refused), hint="the other values of this call are recorded")

    def close(self) -> None:
        """Seal what was recorded and say that this rank is done; a second call does nothing.

        Raises:
            Corrupt: something is still unwritten.
        """
        if not self.is_open or self.is_forked:
            return
        self.queue.drain(wait=True)
        self._heartbeat.stop()
        try:
            self.recorder.close()
            self.media.close()
            writers.close(self.layout, self.attempt, self.rank)
            self.is_open = False
            atexit.unregister(self._at_exit)
            count_others(self.layout, self._on_trouble)
            touch_status(self.layout)
        except OSError as error:
            raise Corrupt(
                f"rank {self.rank} of {self.layout.id} could not be finished: {reason(error)};"
                f" {where_points_are(self.recorder, self.media)}",
                hint=f"free some space, then: expdb show {self.layout.id[:4]}",
            ) from error
        lost = self.recorder.num_dropped + self.media.num_dropped
        if lost:
            self._on_trouble(f"rank {self.rank}: {lost:,} values were lost")


def _leave(log: RankLog | None) -> None:
    if log is not None:
        log.is_forked = True
        log.recorder.abandon()
        log.media.abandon()


def _end(log: RankLog | None) -> None:
    if log is not None:
        try:
            log.close()
        except Corrupt as error:
            log._on_trouble(error.message)
