"""Which function sends through which kind of channel, and how long a post of it may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from expdb.errors import BadInput
from expdb.notify import local, relayed, wecom
from expdb.notify.address import Reach, address_of
from expdb.notify.answer import Answer
from expdb.notify.channel import Channel
from expdb.notify.item import Item
from expdb.notify.post import Post, post_of

Send = Callable[[Channel, Post, Reach], Answer]
SENDERS: Final[dict[str, Send]] = {
    "wecom": wecom.send,
    "apprise": relayed.send,
    "email": relayed.send,
    "webhook": local.to_webhook,
    "file": local.to_file,
    "command": local.to_command,
}


def send(channel: Channel, post: Post, reach: Reach) -> Answer:
    """Send a post through a channel; whatever goes wrong is in the answer."""
    return SENDERS[channel.kind](channel, post, reach)


def max_bytes(channel: Channel) -> int:
    """Return how long a post may be, so that what does not fit waits for the next one."""
    if channel.kind == "wecom":
        return wecom.MAX_BYTES[channel.format] * 3 // 4  # room for what stands around lines
    return relayed.MAX_BYTES if channel.kind in ("apprise", "email") else local.MAX_TEXT


def problem_of(channel: Channel, reach: Reach) -> str:
    """Return what a channel lacks to be used; empty where nothing is seen, without a connection."""
    if channel.kind in ("apprise", "email") and not relayed.is_installed():
        return f"needs apprise: {relayed.INSTALL}"
    if channel.url_env or channel.url_file:
        try:
            address_of(channel, reach)
        except BadInput as error:
            return error.message
    return ""


def trial(store: str) -> Post:
    """Return the post that says it is none: what `expdb notify test` sends."""
    made = Item(
        run="test", name="(no run)", severity="info", rule="test of a channel",
        message=f"a test of the store {store}: nothing has happened",
        action="nothing; alerts of runs come this way", command="expdb notify",
    )  # fmt: skip
    return post_of(made)
