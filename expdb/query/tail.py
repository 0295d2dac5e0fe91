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
from expdb.store.files import open_regular, reason
from expdb.store.layout import RunLayout
from expdb.store.runs import read_run, state_now

POLL_S: Final = 0.5
GRACE_S: Final = 2.0
"""How long after its end a run may still be writing its closing line."""
BLOCK: Final = 1 << 16
LIVE: Final = frozenset([*(state for state in RunState if state.is_live), RunState.LOST])
MAX_LINE: Final = 10_000
"""So many bytes of a line are shown: progress bars fill megabytes without an end of line."""
MAX_BYTES: Final = 1 << 26
"""So far from its end a log is looked through for line ends, and further for each line asked for.
"""
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
        self._pending, self._cut = b"", 0
        """The beginning of a line that is not whole yet, and how many bytes of it are passed over.
        """
        self.problems: list[str] = []
        """Logs that are no files, and are not read."""

    def last(self, num: int) -> list[str]:
        """Return the last `num` lines over all attempts; `more` goes on behind them."""
        found: list[str] = []
        for number in reversed(attempt_files.numbers(self._layout)):
            is_newest = self.attempt == 0
            if len(found) >= num and not is_newest:
                break
            data, inode, size = self._end_of(number, max(num - len(found), len(ENDS)))
            *lines, rest = data.split(b"\n")
            if is_newest:
                self.attempt, self._inode, self._offset = number, inode, size
                self._add(rest)
                self._note_closing(lines)
            elif rest:
                lines.append(rest)
            found = [*map(_shown, lines), *found]
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
        return [self._ended()] if self._pending else []

    def _begin(self, attempt: int) -> list[str]:
        cut_off = self.rest()
        self.attempt, self._offset, self._inode, self.is_closed = attempt, 0, None, False
        return cut_off

    def _grown(self) -> list[str]:
        found: list[str] = []
        try:
            with open_regular(self._path(self.attempt)) as file:
                stat = os.fstat(file.fileno())
                if stat.st_size < self._offset or self._inode not in (None, stat.st_ino):
                    self._offset, self._pending, self._cut = 0, b"", 0  # another file of that name
                self._inode = stat.st_ino
                file.seek(self._offset)
                while data := file.read(BLOCK):
                    self._offset += len(data)
                    *ends, rest = data.split(b"\n")
                    for part in ends:
                        self._add(part)
                        found.append(self._ended())
                    self._add(rest)
        except OSError:
            pass  # not there yet, or gone; nothing to say either way
        self.is_closed |= any(self._closing.match(line) for line in found)
        return found

    def _add(self, part: bytes) -> None:
        room = MAX_LINE - len(self._pending)
        self._pending += part[:room]
        self._cut += max(0, len(part) - room)

    def _ended(self) -> str:
        line = _decoded(self._pending, self._cut)
        self._pending, self._cut = b"", 0
        return line

    def _note_closing(self, lines: list[bytes]) -> None:
        self.is_closed |= any(self._closing.match(_shown(line)) for line in lines)

    def _end_of(self, attempt: int, num: int) -> tuple[bytes, int | None, int]:
        """Return the end of a log with at least `num` lines if it has them, its inode and size."""
        path = self._path(attempt)
        try:
            with open_regular(path) as file:
                stat = os.fstat(file.fileno())
                blocks, newlines = list[bytes](), 0
                at = size = stat.st_size
                least = size - MAX_BYTES - num * MAX_LINE
                while at > max(0, least) and newlines <= num:
                    at, start = max(0, at - BLOCK), at
                    file.seek(at)
                    blocks.append(file.read(start - at))
                    newlines += blocks[-1].count(b"\n")
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                self.problems.append(f"{path.name} of attempt {attempt}: {reason(error)}")
            return b"", None, 0
        data = b"".join(reversed(blocks))
        if at > 0 and newlines > num:
            data = data.partition(b"\n")[2]  # the first line is cut
        return data, stat.st_ino, size

    def _path(self, attempt: int) -> Path:
        return self._layout.attempt(attempt) / "log.txt"


def _shown(line: bytes) -> str:
    return _decoded(line[:MAX_LINE], max(0, len(line) - MAX_LINE))


def _decoded(line: bytes, cut: int) -> str:
    text = line.decode("utf-8", "backslashreplace")
    return f"{text} ... {cut:,} bytes more" if cut else text


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
