"""What one channel has told, of which run, and when: `.expdb/notify/<channel>/`.

    lock           flock(2): who sends through the channel
    posts.json     {"format", "since_ms", "sent_ms": [...], "not_before_ms", "asked_until_ms",
                    "failing_since_ms", "num_failures"}
    <run>.json     {"format", "at", "notices": [...]}: events.jsonl up to the byte `at` is told

The queue itself is events.jsonl of the run, which is written before anybody is told: what a killed
process has not told, the next one finds.

Invariant: one process of this host at a time sends through a channel, however many watch. Times are
UTC epoch milliseconds. A file that cannot be written is remembered, so that this process tells
nothing twice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from expdb.errors import Corrupt
from expdb.model import FORMAT
from expdb.store import fields
from expdb.store.fields import Wrong
from expdb.store.files import read_json, write_json
from expdb.store.layout import StoreLayout, encode_name

WINDOW_MS: Final = 61_000
"""A minute, and what two clocks and the way to the other side may make of it."""
FIRST_WAIT_MS, LONGEST_WAIT_MS = 2_000, 300_000
MAX_ASKED_MS: Final = 3_600_000
SKEW_MS: Final = 60_000
"""So far two clocks may be apart: what was a minute before the first use is news too."""
MAX_NOTICES: Final = 1_000


@dataclass(slots=True, kw_only=True)
class Posts:
    """How a channel has fared."""

    since_ms: int = 0
    """When it was first used: what is older is nobody's news."""
    sent_ms: list[int] = field(default_factory=list)
    not_before_ms: int = 0
    asked_until_ms: int = 0
    """Until when the other side wants to hear nothing."""
    failing_since_ms: int = 0
    """0 while it works."""
    num_failures: int = 0

    def room(self, now_ms: int, per_minute: int) -> int:
        """Return how many posts may go now."""
        # A clock that was set back must not close a channel for as long.
        self.sent_ms = [at for at in self.sent_ms if now_ms - WINDOW_MS < at <= now_ms]
        return max(0, per_minute - len(self.sent_ms))

    def until_room_ms(self, now_ms: int) -> int:
        """Return when there is room again, from now."""
        return max(1, min(self.sent_ms, default=now_ms) + WINDOW_MS - now_ms)

    def hold_ms(self, now_ms: int, *, is_forced: bool) -> int:
        """Return for how long nothing is to be sent; with `is_forced` only what the other side
        asked for counts. A longer time than there is comes of a clock that was set back.
        """
        left_ms = (self.asked_until_ms if is_forced else self.not_before_ms) - now_ms
        return left_ms if left_ms <= MAX_ASKED_MS else 0

    def failed(self, now_ms: int, wait_ms: int) -> None:
        """Take note of a post that was not taken; wait longer each time, or as long as was said."""
        self.failing_since_ms = self.failing_since_ms or now_ms
        doubled = FIRST_WAIT_MS * 2 ** min(self.num_failures, 10)
        self.num_failures += 1
        self.not_before_ms = now_ms + max(wait_ms, min(doubled, LONGEST_WAIT_MS))
        self.asked_until_ms = now_ms + wait_ms if wait_ms else 0

    def worked(self) -> None:
        """Take note of a post that was taken."""
        self.failing_since_ms = self.num_failures = 0
        self.not_before_ms = self.asked_until_ms = 0


@dataclass(slots=True, kw_only=True)
class Told:
    """What of one run is told."""

    at: int = 0
    notices: list[str] = field(default_factory=list)
    is_kept: bool = False
    """Whether the channel has a file of the run, so that no time decides what is news."""


class Ledger:
    """The files of one channel."""

    def __init__(self, layout: StoreLayout, channel: str) -> None:
        self._folder = layout.notify / encode_name(channel)
        self._told: dict[str, Told] = {}
        self._posts: Posts | None = None
        """What could not be written; None where the file has it."""

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Hold the channel for the length of the block, unless another does: then it is False.

        Raises:
            OSError: the folder cannot be made.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._folder / "lock", flags, 0o666)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            except OSError:
                pass  # a file system without locks: twice is better than never
            try:
                yield True
            finally:
                # A fork of this process has the same lock, and may live on.
                fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)

    def posts(self) -> Posts:
        """Return how the channel has fared."""
        if self._posts is not None:
            return self._posts
        data = self._read(self._folder / "posts.json")
        try:
            return Posts(
                since_ms=fields.whole(data, "since_ms", 0),
                sent_ms=[fields.as_whole(one, "sent_ms") for one in data.get("sent_ms", ())],
                not_before_ms=fields.whole(data, "not_before_ms", 0),
                asked_until_ms=fields.whole(data, "asked_until_ms", 0),
                failing_since_ms=fields.whole(data, "failing_since_ms", 0),
                num_failures=fields.whole(data, "num_failures", 0),
            )
        except (Wrong, TypeError):
            return Posts()

    def save_posts(self, posts: Posts) -> None:
        """Keep how it fares."""
        body = {
            "format": FORMAT, "since_ms": posts.since_ms, "sent_ms": posts.sent_ms,
            "not_before_ms": posts.not_before_ms, "asked_until_ms": posts.asked_until_ms,
            "failing_since_ms": posts.failing_since_ms, "num_failures": posts.num_failures,
        }  # fmt: skip
        self._posts = None if self._write(self._folder / "posts.json", body) else posts

    def told(self, run: str) -> Told:
        """Return what of a run is told."""
        data = self._read(self._folder / f"{encode_name(run)}.json")
        own = self._told.get(run) or Told()
        try:
            at = fields.whole(data, "at", 0)
            notices = fields.texts(data, "notices", ())
        except Wrong:
            return own
        known = [*notices, *(one for one in own.notices if one not in notices)]
        self._told[run] = found = Told(
            at=max(at, own.at), notices=known, is_kept=bool(data) or own.is_kept
        )
        return found

    def seen(self, run: str) -> Told | None:
        """Return what of a run is known to be told, without a look: there may be more; None where
        nobody has looked.
        """
        return self._told.get(run)

    def save_told(self, run: str, told: Told) -> None:
        """Keep what of a run is told."""
        body = {"format": FORMAT, "at": told.at, "notices": told.notices[-MAX_NOTICES:]}
        told.is_kept = True
        self._told[run] = told
        self._write(self._folder / f"{encode_name(run)}.json", body)

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            return read_json(path)
        except (FileNotFoundError, NotADirectoryError, Corrupt):
            return {}

    def _write(self, path: Path, body: Mapping[str, Any]) -> bool:
        try:
            write_json(path, body, durable=False)
        except OSError:
            return False  # the disk is full; memory has it until the process ends
        return True
