"""Sends what is to be told through one channel: in order, within its limit, until it is taken.

    runs -> what the channel takes and has not told -> one post each, or one about many -> told

Few things go singly; more than SINGLY at once, or more than there is room for, go as lines of one
post, and what does not fit into it goes in the next. A post that is not taken is sent again later,
for ever.

Invariant: what is told is kept after each post, so that a kill costs at most one post twice, and
nothing. `round` is called by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from expdb.notify import sending
from expdb.notify.address import Reach
from expdb.notify.channel import Channel
from expdb.notify.item import Item
from expdb.notify.ledger import SKEW_MS, Ledger, Posts, Told
from expdb.notify.post import Post, merged, post_of
from expdb.notify.source import Source
from expdb.store.files import reason
from expdb.store.layout import StoreLayout

SINGLY: Final = 5
BUSY_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one look at a channel came to."""

    num_posts: int = 0
    num_told: int = 0
    num_waiting: int = 0
    wait_s: float | None = None
    """When to look again; None where nothing waits."""
    trouble: str = ""
    """Why a post was not taken; empty where all were."""
    failing_s: float = 0.0
    """For how long none was taken."""


class Delivery:
    """One channel as one process uses it."""

    def __init__(
        self,
        channel: Channel,
        layout: StoreLayout,
        reach: Reach,
        *,
        clock: Callable[[], float] = time.time,
        send: sending.Send = sending.send,
    ) -> None:
        self.channel, self.reach = channel, reach
        self._ledger = Ledger(layout, channel.name)
        self._clock, self._send = clock, send
        self._trouble = ""

    def begin(self) -> int:
        """Return since when there is news for this channel, in epoch ms: its first use.

        Raises:
            OSError: that cannot be kept.
        """
        with self._ledger.held() as is_ours:
            posts = self._ledger.posts()
            if not posts.since_ms and is_ours:
                posts.since_ms = self._now_ms()
                self._ledger.save_posts(posts)
        return posts.since_ms or self._now_ms()

    def adopt(self, source: Source) -> None:
        """Take on a run from here on, whatever clocks say; one that is known stays as it is."""
        told = self._ledger.told(source.run)
        if not told.is_kept:
            told.at = source.num_bytes
            self._ledger.save_told(source.run, told)

    def waiting(self, sources: Sequence[Source]) -> list[Item]:
        """Return what is to be told and is not, by run in the order in which it came about."""
        since_ms = self._ledger.posts().since_ms - SKEW_MS
        found: list[Item] = []
        for source in sources:
            wanted = [one for one in list(source.items) if self.channel.takes(one)]
            # Most is known to be told; the file is read for what is not.
            seen = self._ledger.seen(source.run)
            if wanted and (seen is None or _left(wanted, seen, since_ms)):
                found += _left(wanted, self._ledger.told(source.run), since_ms)
        return found

    def round(self, sources: Sequence[Source], *, force: bool = False) -> Round:
        """Tell what there is to tell; with `force` also where it was to wait after a failure."""
        if not (num := len(self.waiting(sources))):
            return Round()
        try:
            with self._ledger.held() as is_ours:
                if not is_ours:
                    return Round(num_waiting=num, wait_s=BUSY_S)
                return self._round(sources, force)
        except OSError as error:
            return Round(num_waiting=num, wait_s=BUSY_S, trouble=f"store: {reason(error)}")

    def _round(self, sources: Sequence[Source], force: bool) -> Round:
        waiting = self.waiting(sources)  # another process may have told some meanwhile
        posts, now_ms = self._ledger.posts(), self._now_ms()
        num_posts = num_told = 0
        wait_ms = posts.hold_ms(now_ms, is_forced=force)
        if waiting and wait_ms > 0:
            return self._stopped(posts, now_ms, 0, 0, len(waiting), wait_ms)
        while waiting:
            room = posts.room(now_ms, self.channel.per_minute)
            if not room:
                wait_ms = posts.until_room_ms(now_ms)
                return self._stopped(posts, now_ms, num_posts, num_told, len(waiting), wait_ms)
            post = self._next(waiting, room)
            answer = self._send(self.channel, post, self.reach)
            now_ms = self._now_ms()
            posts.sent_ms.append(now_ms)
            num_posts += 1
            if not answer.is_taken:
                self._trouble = answer.said
                posts.failed(now_ms, round(answer.wait_s * 1000))
                self._ledger.save_posts(posts)
                wait_ms = posts.not_before_ms - now_ms
                return self._stopped(posts, now_ms, num_posts, num_told, len(waiting), wait_ms)
            posts.worked()
            self._tell(post.items)
            self._ledger.save_posts(posts)
            num_told += len(post.items)
            waiting = waiting[len(post.items) :]
        return Round(num_posts=num_posts, num_told=num_told)

    def _next(self, waiting: Sequence[Item], room: int) -> Post:
        if len(waiting) == 1 or (len(waiting) <= SINGLY and len(waiting) <= room):
            return post_of(waiting[0])
        return merged(waiting, sending.max_bytes(self.channel))

    def _stopped(
        self, posts: Posts, now_ms: int, num_posts: int, num_told: int, left: int, wait_ms: int
    ) -> Round:
        since = posts.failing_since_ms
        return Round(
            num_posts=num_posts,
            num_told=num_told,
            num_waiting=left,
            wait_s=wait_ms / 1000,
            trouble=(self._trouble or "it took nothing from another process") if since else "",
            failing_s=(now_ms - since) / 1000 if since else 0.0,
        )

    def _tell(self, items: Sequence[Item]) -> None:
        for run in dict.fromkeys(item.run for item in items):
            told = self._ledger.told(run)
            for item in items:
                if item.run == run and item.notice:
                    told.notices.append(item.notice)
                elif item.run == run:
                    told.at = max(told.at, item.at)
            self._ledger.save_told(run, told)

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _left(items: Sequence[Item], told: Told, since_ms: int) -> list[Item]:
    """Return what of one run is news and not told."""
    return [one for one in items if _is_left(one, told, since_ms)]


def _is_left(item: Item, told: Told, since_ms: int) -> bool:
    is_new = item.created_at_ms >= since_ms
    if item.notice:
        return is_new and item.notice not in told.notices
    return item.at > told.at and (is_new or told.is_kept)
