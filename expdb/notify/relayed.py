"""Channels through apprise: Slack, Feishu, Lark, DingTalk, e-mail and a hundred more by their URL.

Invariant: what apprise and what it stands on log while it sends is heard here and nowhere else,
since they write addresses there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from expdb.errors import BadInput
from expdb.notify.address import Reach, address_of, hidden
from expdb.notify.answer import Answer
from expdb.notify.channel import Channel
from expdb.notify.post import Post, body_text, harmless

LOGGERS: Final = ("apprise", "urllib3", "urllib3.connectionpool", "requests")
MAX_BYTES: Final = 8_000
INSTALL: Final = "pip install 'expdb-ml[notify]'"


_heard: ContextVar[list[str] | None] = ContextVar("expdb_heard", default=None)
"""The warnings of a send that is under way; the threads that apprise starts for it share it."""


class _Silent(logging.Filter):
    """Keeps what is logged for a send of ours, and lets it go no further."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record goes on: all that is not of a send of ours."""
        heard = _heard.get()
        if heard is None:
            return True
        if record.levelno >= logging.WARNING:
            heard.append(record.getMessage())
        return False


def is_installed() -> bool:
    """Tell whether apprise is there, without loading it."""
    from importlib.util import find_spec

    return find_spec("apprise") is not None


def send(channel: Channel, post: Post, reach: Reach) -> Answer:
    """Send a post."""
    try:
        address = address_of(channel, reach)
    except BadInput as error:
        return Answer(is_taken=False, said=error.message)
    if not is_installed():
        said = f"a channel of kind {channel.kind} needs apprise: {INSTALL}"
        return Answer(is_taken=False, said=said)
    scheme = address.partition(":")[0].lower()
    if channel.kind == "email" and scheme not in ("mailto", "mailtos"):
        return Answer(is_taken=False, said="its address does not begin with mailtos://")
    with _listening() as heard:
        is_taken = _relay(address, post, heard)
    if is_taken:
        return Answer(is_taken=True, said=f"{scheme} took it")
    said = "; ".join(heard) or "it was not taken"
    return Answer(is_taken=False, said=hidden(said, address)[:300])


def _relay(address: str, post: Post, heard: list[str]) -> bool:
    import apprise

    kinds = {"info": "info", "warn": "warning", "critical": "failure"}
    relay: Any = apprise.Apprise()
    try:
        if not relay.add(address):
            heard.append("apprise does not know such an address")
            return False
        return bool(
            relay.notify(
                title=harmless(post.title),
                body=body_text(post, MAX_BYTES),
                notify_type=kinds[post.severity],
                body_format=apprise.NotifyFormat.TEXT,
            )
        )
    except Exception as error:  # noqa: BLE001 - a hundred plugins, and training goes on
        heard.append(f"{type(error).__name__}: {error}")
        return False


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Hear what is logged in this context for the length of the block."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if _SILENT not in logger.filters:
            logger.addFilter(_SILENT)
    heard: list[str] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


_SILENT: Final = _Silent()
"""It stays: what apprise gives up waiting for may still log later."""
