"""The group robot of WeCom: text or markdown by one POST.

    {"msgtype": "text", "text": {"content": ..., "mentioned_list": [...]}}
    {"msgtype": "markdown", "markdown": {"content": ...}}

Invariant: a content is at most 2,048 (text) or 4,096 (markdown) bytes of UTF-8. HTTP 200 with an
`errcode` that is not 0 is no success; 45009 is asked again a minute later.

Source: developer.work.weixin.qq.com, document 91770.
"""

from __future__ import annotations

import json
from typing import Any, Final

from expdb.errors import BadInput
from expdb.notify.address import Reach, address_of, hidden
from expdb.notify.answer import Answer
from expdb.notify.channel import Channel
from expdb.notify.post import Post, as_markdown, as_text
from expdb.notify.web import WAIT_S, post_json

MAX_BYTES: Final = {"text": 2048, "markdown": 4096}
TOO_OFTEN: Final = 45009


def body_of(channel: Channel, post: Post) -> dict[str, Any]:
    """Return what is sent."""
    max_bytes = MAX_BYTES[channel.format]
    if channel.format == "markdown":
        called = "".join(f"<@{user}>" for user in channel.mention)
        room = max_bytes - len(called.encode()) - 1
        content = as_markdown(post, room) + (f"\n{called}" if called else "")
        return {"msgtype": "markdown", "markdown": {"content": content}}
    text: dict[str, Any] = {"content": as_text(post, max_bytes)}
    if channel.mention:
        text["mentioned_list"] = list(channel.mention)
    return {"msgtype": "text", "text": text}


def send(channel: Channel, post: Post, reach: Reach) -> Answer:
    """Send a post."""
    try:
        address = address_of(channel, reach)
    except BadInput as error:
        return Answer(is_taken=False, said=error.message)
    heard = post_json(address, body_of(channel, post), timeout_s=reach.timeout_s)
    if isinstance(heard, Answer):
        return heard
    try:
        said = json.loads(heard.body)
        code, words = int(said["errcode"]), str(said.get("errmsg", ""))
    except (ValueError, KeyError, TypeError):
        return Answer(is_taken=False, said=f"HTTP {heard.status} without an errcode")
    shown = f"errcode {code}: {hidden(words, address)[:200]}".rstrip(": ")
    wait_s = WAIT_S if code == TOO_OFTEN else 0.0
    return Answer(is_taken=code == 0, said=shown, wait_s=wait_s)
