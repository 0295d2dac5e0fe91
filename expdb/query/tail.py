"""`tail`: the log of a run, its attempts joined, and followed while it grows.

Invariant: what a run wrote before its end was seen is told before the end. Nothing of the run is
changed, and nothing is held open between two looks.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from expdb.errors import NotFound
from expdb.index.reader import Reader
from expdb.model import RunState
from expdb.query.silence import Silence
from expdb.store import attempts as attempt_files
from expdb.store.layout import RunLayout
from expdb.store.runs import read_run, state_now

POLL_S: Final = 0.5
GRACE_S: Final = 2.0
"""How long after its end a run may still be writing its closing line."""
BLOCK: Final = 1 << 16
LIVE: Final = frozenset([*(state for state in RunState if state.is_live), RunState.LOST])
ENDS: Final = ("finished", "failed", "preempted", "interrupted")


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a run stands that said no last word itself."""

    state: RunState
    reason: str
    last_step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one look at a followed run found."""

    lines: tuple[str, ...] = ()
    """Text that the run wrote, as it is: not safe to print."""
    silent_s: float | None = None
    """Since when no step came, when that is unusual; said again after twice the time."""
    usual_s: float | None = None
    """The usual time between two steps."""
    is_lost: bool = False
    """Its host gives no sign any more; said once."""
    end: End | None = None


class LogTail:
    """The log lines of a run; a position in the newest log that was read."""

    def __init__(self, run_dir: Path) -> None:
        self._layout = RunLayout(run_dir)
        self._closing = re.compile(rf"({'|'.join(ENDS)})  .*\b{re.escape(self._layout.id)}\b")
        self.attempt = 0
        self.is_closed = False
        """Whether the log of this attempt ends with the run's own closing line."""
        self._offset = 0
        self._inode: int | None = None
        self._pending = b""
        """The beginning of a line that is not whole yet."""

    def last(self, num: int) -> list[str]:
        """Return the last `num` lines over all attempts; `more` goes on behind them."""
        found: list[str] = []
        for number in reversed(attempt_files.numbers(self._layout)):
            is_newest = self.attempt == 0
            if len(found) >= num and not is_newest:
                break
            data, inode, size = _end_of(self._path(number), max(num - len(found), len(ENDS)))
            *lines, rest = data.split(b"\n")
            if is_newest:
                self.attempt, self._inode, self._offset, self._pending = number, inode, size, rest
                self._note_closing(lines)
            elif rest:
                lines.append(rest)
            found = [*map(_decoded, lines), *found]
        return found[max(0, len(found) - num) :]

    def more(self) -> list[str]:
        """Return the whole lines written since, those of a newer attempt behind the others."""
        found = self._grown()
        for number in attempt_files.numbers(self._layout):
            if number > self.attempt:
                found += self._begin(number)
                found += self._grown()
        return found

    def rest(self) -> list[str]:
        """Return the last line that was never ended, when no more is to come."""
        pending, self._pending = self._pending, b""
        return [_decoded(pending)] if pending else []

    def _begin(self, attempt: int) -> list[str]:
        cut_off = self.rest()
        self.attempt, self._offset, self._inode, self.is_closed = attempt, 0, None, False
        return cut_off

    def _grown(self) -> list[str]:
        try:
            with self._path(self.attempt).open("rb") as file:
                stat = os.fstat(file.fileno())
                if stat.st_size < self._offset or self._inode not in (None, stat.st_ino):
                    self._offset, self._pending = 0, b""  # another file under the same name
                self._inode = stat.st_ino
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []  # not there yet, or gone; nothing to say either way
        self._offset += len(data)
        *lines, self._pending = (self._pending + data).split(b"\n")
        self._note_closing(lines)
        return [_decoded(line) for line in lines]

    def _note_closing(self, lines: list[bytes]) -> None:
        self.is_closed |= any(self._closing.match(_decoded(line)) for line in lines)

    def _path(self, attempt: int) -> Path:
        return self._layout.attempt(attempt) / "log.txt"


def _end_of(path: Path, num: int) -> tuple[bytes, int | None, int]:
    """Return the end of a file with at least `num` lines if it has them, its inode and its size."""
    try:
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            at = size = stat.st_size
            data = b""
            while at > 0 and data.count(b"\n") <= num:
                at, start = max(0, at - BLOCK), at
                file.seek(at)
                data = file.read(start - at) + data
    except OSError:
        return b"", None, 0
    if at > 0:
        data = data.partition(b"\n")[2]  # the first line is cut
    return data, stat.st_ino, size


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")


def newest_run(reader: Reader) -> str:
    """Return the newest live run, else the newest run.

    Raises:
        NotFound: the store has no run.
    """
    found = reader.rows(
        "SELECT id FROM runs ORDER BY state IN ('running', 'paused', 'pending') DESC,"
        " created_at_ms DESC, id DESC LIMIT 1"
    )
    if not found:
        raise NotFound(
            f"no runs yet in the store {reader.store.name}", hint="python train.py +exp=baseline"
        )
    return str(found[0][0])


def follow(
    log: LogTail,
    run_dir: Path,
    *,
    store_root: Path,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Told]:
    """Yield what a run writes until it ends, and its end if the log does not have it.

    A run of another host that gives no sign is waited for.
    """
    silence, was_lost = Silence(run_dir, store_root), False
    while True:
        state, _ = state_now(run_dir, store_root=store_root)
        lines = log.more()
        if lines:
            yield Told(lines=tuple(lines))
        if state not in LIVE:
            yield from _ending(log, run_dir, state, store_root=store_root, sleep=sleep)
            return
        if state is RunState.LOST and not was_lost:
            yield Told(is_lost=True)
        was_lost = state is RunState.LOST
        is_silent = was_lost or state is RunState.PAUSED
        since = None if is_silent else silence.look(log.attempt)
        if since is not None:
            yield Told(silent_s=since, usual_s=silence.usual_s)
        sleep(POLL_S)


def _ending(
    log: LogTail,
    run_dir: Path,
    state: RunState,
    *,
    store_root: Path,
    sleep: Callable[[float], None],
) -> Iterator[Told]:
    """Yield what stands in the log behind the end of the run: it writes its last lines then."""
    waited_s = 0.0
    while state is not RunState.CRASHED and not log.is_closed and waited_s < GRACE_S:
        sleep(POLL_S / 5)
        waited_s += POLL_S / 5
        if lines := log.more():
            yield Told(lines=tuple(lines))
    if waited_s:
        sleep(POLL_S / 5)  # the command behind the closing line
    if lines := [*log.more(), *log.rest()]:
        yield Told(lines=tuple(lines))
    end = end_of(log, run_dir, store_root=store_root)
    if end is not None:
        yield Told(end=end)


def end_of(log: LogTail, run_dir: Path, *, store_root: Path) -> End | None:
    """Return how a run ended of which the log does not say so; None of one that lives."""
    run = read_run(run_dir, store_root=store_root)
    if log.is_closed or run.state in LIVE:
        return None
    return End(state=run.state, reason=run.reason, last_step=run.last_step)
