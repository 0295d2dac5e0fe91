"""Channels that need no service: a webhook of one's own, a file, a command."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Final

from expdb.errors import BadInput
from expdb.notify.address import Reach, address_of, hidden
from expdb.notify.answer import Answer
from expdb.notify.channel import Channel
from expdb.notify.post import Post, as_text
from expdb.notify.web import post_json
from expdb.store.files import reason
from expdb.store.marks import append_lines
from expdb.text import plain

MAX_TEXT: Final = 32_000


def body_of(post: Post) -> dict[str, Any]:
    """Return a post as JSON: title, text, severity, and each event with its fields."""
    return {
        "title": post.title,
        "text": as_text(post, MAX_TEXT),
        "severity": post.severity,
        "events": [item.facts() for item in post.items],
    }


def to_webhook(channel: Channel, post: Post, reach: Reach) -> Answer:
    """Send a post to an address that takes JSON and answers with a status below 300."""
    try:
        address = address_of(channel, reach)
    except BadInput as error:
        return Answer(is_taken=False, said=error.message)
    heard = post_json(address, body_of(post), timeout_s=reach.timeout_s)
    if isinstance(heard, Answer):
        return heard
    return Answer(is_taken=heard.status < 300, said=f"HTTP {heard.status}")


def to_file(channel: Channel, post: Post, reach: Reach) -> Answer:
    """Append a line of JSON for each event to a file."""
    path = reach.path(channel.path)
    lines = [json.dumps(item.facts(), allow_nan=False) + "\n" for item in post.items]
    try:
        append_lines(path, "".join(lines).encode(), durable=False)
    except OSError as error:
        return Answer(is_taken=False, said=f"{plain(channel.path)}: {reason(error)}")
    return Answer(is_taken=True, said=f"added to {plain(channel.path)}")


def to_command(channel: Channel, post: Post, reach: Reach) -> Answer:
    """Start a command without a shell, with the post as JSON on its stdin; 0 is success."""
    data = json.dumps(body_of(post), ensure_ascii=True, allow_nan=False).encode()
    name = plain(channel.command[0])
    try:
        done = subprocess.run(
            list(channel.command),
            input=data,
            capture_output=True,
            cwd=reach.base,
            env=dict(reach.env),
            timeout=reach.timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(is_taken=False, said=f"{name} took over {reach.timeout_s:.0f} s")
    except OSError as error:
        return Answer(is_taken=False, said=f"{name}: {reason(error)}")
    if done.returncode == 0:
        return Answer(is_taken=True, said=f"{name} ended with 0")
    last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    words = f"{name} ended with {done.returncode}: {hidden(last, '')[:200]}"
    return Answer(is_taken=False, said=words.rstrip(": "))
