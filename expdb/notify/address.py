"""The address of a channel: read where it is named, at the moment it is needed, and hidden in all
that is said.

Invariant: an address is in memory only; an error names the variable or the file, never what is in
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from expdb.errors import BadInput
from expdb.notify.channel import Channel
from expdb.redact import Redactor
from expdb.store.files import reason
from expdb.text import plain

MAX_BYTES: Final = 64_000
TELLING: Final = 6
"""Shorter parts of an address are words that stand in other texts too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What sending takes from around it."""

    env: Mapping[str, str]
    base: Path
    """The folder that relative paths are below: the one that the store is in."""
    timeout_s: float = 15.0

    def path(self, said: str) -> Path:
        """Return the path that a config means."""
        return self.base / Path(said).expanduser()


def needs_of(channel: Channel) -> tuple[str, str]:
    """Return what a channel needs from outside, as (env, file or empty, its name)."""
    if channel.url_env:
        return "env", channel.url_env
    return ("file", channel.url_file) if channel.url_file else ("", "")


def address_of(channel: Channel, reach: Reach) -> str:
    """Return the address of a channel.

    Raises:
        BadInput: the variable is not set, the file cannot be read, or is empty.
    """
    kind, name = needs_of(channel)
    if kind == "env":
        found = reach.env.get(name, "").strip()
        if not found:
            raise BadInput(
                f"channel {plain(channel.name)} needs {name}, which is not set",
                hint=f"export {name}=...",
            )
        return found
    if kind == "file":
        try:
            text = reach.path(name).read_bytes()[:MAX_BYTES].decode("utf-8", "replace")
        except OSError as error:
            raise BadInput(
                f"channel {plain(channel.name)} needs {plain(name)}: {reason(error)}",
                hint="one line, the address; readable by you alone: chmod 600",
            ) from None
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if not lines:
            raise BadInput(f"channel {plain(channel.name)} needs {plain(name)}: it is empty")
        return lines[0]
    return channel.url


def hidden(said: str, address: str) -> str:
    """Return what another side said in one line, without the address or a telling part of it."""
    return plain(" ".join(Redactor(_parts(address)).text(said).split()))


def named_secrets(section: Any, env: Mapping[str, str]) -> set[str]:
    """Return what no text of a run may have: the addresses that its channels name, as far as they
    can be read; a section that makes no sense is refused elsewhere.
    """
    found: set[str] = set()
    for body in section.values() if isinstance(section, Mapping) else ():
        if not isinstance(body, Mapping):
            continue
        named, path = body.get("url_env"), body.get("url_file")
        said = env.get(named, "").strip() if isinstance(named, str) else ""
        if isinstance(path, str) and path:
            try:
                said = Path(path).expanduser().read_bytes()[:MAX_BYTES].decode("utf-8", "replace")
            except (OSError, ValueError, RuntimeError):
                continue
        for address in said.split("\n"):
            found |= _parts(address.strip()) if "://" in address else set()
    return found


def _parts(address: str) -> set[str]:
    """Return an address and what of it no message may have."""
    found = {address}
    try:
        parts = urlsplit(address)
    except ValueError:
        return found
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    words = [value for _, value in parse_qsl(parts.query, keep_blank_values=True)]
    words += re.split(r"[:@]", parts.netloc) if "@" in parts.netloc else []
    segments = parts.path.split("/")
    # Other schemes have a token in the place of a host.
    segments += [] if parts.scheme in ("http", "https") else [parts.netloc]
    words += [word for word in segments if re.search(r"[\dA-Z]", word)]
    found |= {unquote(word) for word in words} | set(words)
    found |= {path} if len(path) > TELLING and path != parts.path else set()
    return {word for word in found if len(word) >= TELLING}
