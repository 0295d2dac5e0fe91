"""Channels through apprise: Slack, Feishu, Lark, DingTalk, e-mail and a hundred more by their URL.

Invariant: what apprise and what it stands on log while it sends is heard here and nowhere else,
since they write addresses there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from expdb.errors import BadInput
from expdb.notify.address import Reach, address_of, hidden
from expdb.notify.answer import Answer
from expdb.notify.channel import Channel
from expdb.notify.post import Post, body_text, harmless

LOGGERS: Final = ("apprise", "urllib3", "urllib3.connectionpool", "requests")
MAX_BYTES: Final = 8_000
INSTALL: Final = "pip install 'expdb-ml[notify]'"


class _Heard(logging.Filter):
    """Keeps what one thread logs, and lets it go no further."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record goes on: those of other threads do."""
        if record.thread != self._thread:
            return True
        if record.levelno >= logging.WARNING:
            self.warnings.append(record.getMessage())
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
        return Answer(is_taken=True, said=f"{hidden(scheme, '')} took it")
    said = "; ".join(heard.warnings) or "it was not taken"
    return Answer(is_taken=False, said=hidden(said, address)[:300])


def _relay(address: str, post: Post, heard: _Heard) -> bool:
    import apprise

    kinds = {"info": "info", "warn": "warning", "critical": "failure"}
    relay: Any = apprise.Apprise()
    try:
        if not relay.add(address):
            heard.warnings.append("apprise does not know such an address")
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
        heard.warnings.append(f"{type(error).__name__}: {error}")
        return False


@contextmanager
def _listening() -> Iterator[_Heard]:
    heard = _Heard()
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(heard)
    try:
        yield heard
    finally:
        for logger in loggers:
            logger.removeFilter(heard)
