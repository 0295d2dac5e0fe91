"""What one post says: one thing whole, or several in a line each.

    critical: loss_spike at step 151 of e7s5 exp03_lr_jump
    train/loss 9.213, z 31.2 > 6
    value 31.20, threshold 6.000
    do: wait for it to come back; else go back and skip its batches
    cause: a bad batch, or too high a rate
    expdb resume e7s5@100 --lr-scale 0.5

Invariant: pure. Text of runs is one line and no markup: what a chat would obey is taken apart. A
text that has to be shorter loses the ends of its longest lines, on a character; the command goes
last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from expdb.notify.item import Item
from expdb.store.records import OVER, WORSE
from expdb.text import plain

ELLIPSIS: Final = "…"
LINE_BYTES: Final = 240
"""A line of a post about several things is as long at most."""
TAG: Final = re.compile(r"<(?=[!@#/A-Za-z])")
MENTION: Final = re.compile(r"@(?=(?:all|here|channel|everyone|room)\b)", re.IGNORECASE)
MARKED: Final = str.maketrans({"`": "'", "*": "∗", "<": "‹", ">": "›"})
"""WeCom says of no escape in its markdown that there is one: what it would obey looks alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What is sent at once."""

    title: str
    lines: tuple[str, ...]
    items: tuple[Item, ...]
    command: str = ""
    """What to type, as its last line; empty of several things."""

    @property
    def severity(self) -> str:
        """The worst in it."""
        order = ("info", "warn", "critical")
        return max((item.severity for item in self.items), key=order.index, default="info")

    @property
    def body(self) -> tuple[str, ...]:
        """Its lines below the title."""
        return (*self.lines, self.command) if self.command else self.lines


def post_of(item: Item) -> Post:
    """Return the post about one thing."""
    lines = [item.message, item.measured]
    lines += [f"do: {item.action}"] if item.action else []
    lines += [f"cause: {item.cause}"] if item.cause else []
    shown = tuple(plain(line) for line in lines if line)
    return Post(title=title_of(item), lines=shown, items=(item,), command=plain(item.command))


def title_of(item: Item) -> str:
    """Return what happened where: `critical: loss_spike at step 151 of e7s5 exp03_lr_jump`."""
    word = "over" if item.state == OVER else item.severity
    rule = f"{item.rule} worse" if item.state == WORSE else item.rule
    at = "" if item.step is None else f" at step {item.step}"
    return plain(f"{word}: {rule}{at} of {item.label}")


def merged(items: Sequence[Item], max_bytes: int) -> Post:
    """Return one post about as many of these as it can hold, one at least; a line each."""
    lines: list[str] = []
    room = max_bytes - 80  # for the title
    for item in items:
        line = cut(f"{title_of(item)}: {plain(item.message)}", LINE_BYTES)
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0 and lines:
            break
        lines.append(line)
    taken = tuple(items[: len(lines)])
    runs = {item.run for item in taken}
    where = taken[0].label if len(runs) == 1 else f"{len(runs)} runs"
    last = f"expdb events {taken[0].run[:4]}" if len(runs) == 1 else "expdb events --since 1h"
    return Post(
        title=f"{len(taken)} alerts of {plain(where)}",
        lines=tuple(lines),
        items=taken,
        command=last,
    )


def as_text(post: Post, max_bytes: int) -> str:
    """Return a post as plain text of at most so many bytes of UTF-8."""
    return "\n".join(fitted([harmless(line) for line in (post.title, *post.body)], max_bytes))


def body_text(post: Post, max_bytes: int) -> str:
    """Return a post as `as_text`, without its title."""
    return "\n".join(fitted([harmless(line) for line in post.body], max_bytes))


def as_markdown(post: Post, max_bytes: int) -> str:
    """Return a post in WeCom's markdown, in which text of runs is text."""
    title, *lines = map(_unmarked, (post.title, *post.lines))
    colour = {"info": "info", "warn": "comment", "critical": "warning"}[post.severity]
    begin, end = f'**<font color="{colour}">', "</font>**"
    command = f"`{_unmarked(post.command)}`" if post.command else ""
    around = len(begin) + len(end) + len(lines) * len("\n> ")
    shown = fitted([title, *lines, *([command] if command else [])], max_bytes - around)
    rest = [f"> {line}" for line in shown[1 : len(lines) + 1]]
    return "\n".join([f"{begin}{shown[0]}{end}", *rest, *shown[len(lines) + 1 :]])


def harmless(line: str) -> str:
    """Return a line in which a chat finds no tag and nobody to call."""
    return MENTION.sub("@ ", TAG.sub("< ", line))


def _unmarked(line: str) -> str:
    """Return a line in which WeCom's markdown finds no mark and no link."""
    return harmless(line).translate(MARKED).replace("](", "] (")


def fitted(lines: Sequence[str], max_bytes: int) -> list[str]:
    """Return lines that have together at most so many bytes, their ends counted: the longest are
    cut to one length.
    """
    sizes = [len(line.encode("utf-8", "replace")) for line in lines]
    room = max_bytes - max(0, len(lines) - 1)
    if sum(sizes) <= room:
        return list(lines)
    longest, left, num = room, room, len(sizes)
    for size in sorted(sizes):
        longest = left // num
        if size > longest:
            break
        left -= size
        num -= 1
    return [cut(line, longest) for line in lines]


def cut(line: str, max_bytes: int) -> str:
    """Return a line of at most so many bytes of UTF-8, cut on a character."""
    data = line.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return data.decode()
    room = max_bytes - len(ELLIPSIS.encode())
    if room < 0:
        return data[:max_bytes].decode("utf-8", "ignore")
    return data[:room].decode("utf-8", "ignore").rstrip() + ELLIPSIS
