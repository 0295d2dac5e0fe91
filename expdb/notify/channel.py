"""Channels as data: `expdb.notify`, who is told what, and where the address of each is found.

    expdb:
      notify:
        team:                           # the name that everything goes by
          kind: wecom                   # wecom apprise email webhook file command
          url_env: EXPDB_WECOM_URL      # or url_file; the address itself is a secret
          min_severity: warn            # info, warn, critical
          rules: [loss_*, run_*]        # names or patterns; `!name` leaves one out; all without it
          resolve: true                 # also that an alert is over
          per_minute: 20                # posts at most

Invariant: no secret is in a channel, so it may be stored and shown; a text in the config that looks
like one is refused, and not repeated in what is said about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import urlsplit

from expdb.errors import BadInput
from expdb.notify.item import Item, Severity
from expdb.store.records import OVER, SEVERITIES
from expdb.text import plain

COMMON: Final = ("kind", "min_severity", "rules", "resolve", "per_minute")
KINDS: Final[dict[str, tuple[str, ...]]] = {
    "wecom": ("url_env", "url_file", "format", "mention"),
    "apprise": ("url_env", "url_file"),
    "email": ("url_env", "url_file"),
    "webhook": ("url_env", "url_file", "url"),
    "file": ("path",),
    "command": ("command",),
}
"""Kind -> what it has beside what all have."""
PER_MINUTE: Final = 20
MOST_PER_MINUTE: Final = 600
FORMATS: Final = ("text", "markdown")
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
MADE_UP: Final = 16
"""Letters and digits in a row from which on a part of an address may be a key."""
HINT: Final = "name where it is: url_env: EXPDB_TEAM_URL, or url_file: ~/.config/team-url"


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One way to people, checked."""

    name: str
    kind: str
    min_severity: Severity = "warn"
    rules: tuple[str, ...] = ()
    resolve: bool = True
    per_minute: int = PER_MINUTE
    url_env: str = ""
    url_file: str = ""
    url: str = ""
    format: str = "text"
    mention: tuple[str, ...] = ()
    """User ids of WeCom, or @all."""
    path: str = ""
    command: tuple[str, ...] = ()

    def takes(self, item: Item) -> bool:
        """Tell whether this is told here."""
        if item.state == OVER and not self.resolve:
            return False
        if SEVERITIES.index(item.severity) < SEVERITIES.index(self.min_severity):
            return False
        left_out = [one[1:] for one in self.rules if one.startswith("!")]
        wanted = [one for one in self.rules if not one.startswith("!")]
        if any(fnmatchcase(item.rule, one) for one in left_out):
            return False
        return not wanted or any(fnmatchcase(item.rule, one) for one in wanted)


def channels_of(section: Any, where: str = "expdb.notify") -> tuple[Channel, ...]:
    """Return the channels that a section of a config declares, in its order.

    Raises:
        BadInput: a field is unknown, missing or of another type, or a secret stands in it.
    """
    if section is None or section is False:
        return ()
    if not isinstance(section, Mapping):
        raise BadInput(f"{where} is {type(section).__name__}, not a mapping of channels")
    return tuple(_channel(str(name), body, f"{where}.{name}") for name, body in section.items())


def _channel(name: str, body: Any, where: str) -> Channel:
    where = plain(where)
    if not name or not isinstance(body, Mapping):
        raise BadInput(f"{where} is {type(body).__name__}, not a mapping", hint="kind: wecom")
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise _unknown(f"{where}.kind is {_shown(kind)}", str(kind), list(KINDS))
    known = (*COMMON, *KINDS[kind])
    for key in body:
        if key not in known:
            raise _unknown(f"no part of a {kind} channel is called {where}.{key}", key, known)
    severity = body.get("min_severity", "warn")
    if severity not in SEVERITIES:
        raise _unknown(f"{where}.min_severity is {_shown(severity)}", str(severity), SEVERITIES)
    made = Channel(
        name=name,
        kind=kind,
        min_severity=severity,
        rules=_texts(body, "rules", where),
        resolve=_flag(body, "resolve", where),
        per_minute=_per_minute(body, where),
        url_env=_variable(body, where),
        url_file=_text(body, "url_file", where),
        url=_url(body, where),
        format=_format(body, where),
        mention=_texts(body, "mention", where),
        path=_text(body, "path", where),
        command=_texts(body, "command", where),
    )
    if sum(map(bool, (made.url_env, made.url_file, made.url))) > 1:
        raise BadInput(f"{where} has several addresses", hint="one of url_env, url_file, url")
    if not (made.url_env or made.url_file or made.url or made.path or made.command):
        missing = KINDS[kind][0]
        raise BadInput(f"{where} has no {missing}", hint=HINT if missing == "url_env" else "")
    return made


def looks_secret(url: str) -> bool:
    """Tell whether an address may hold a secret: user info, a query, or a part that looks made
    up.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or parts.query:
        return True
    words = re.findall(rf"[A-Za-z0-9_\-]{{{MADE_UP},}}", f"{parts.path}#{parts.fragment}")
    return any(re.search(r"\d", word) for word in words)


def _variable(body: Mapping[str, Any], where: str) -> str:
    found = body.get("url_env")
    if found is None:
        return ""
    if not isinstance(found, str) or not VARIABLE.fullmatch(found):
        raise BadInput(f"{where}.url_env is not the name of a variable", hint=HINT)
    return found


def _url(body: Mapping[str, Any], where: str) -> str:
    found = body.get("url")
    if found is None:
        return ""
    if not isinstance(found, str) or looks_secret(found):
        raise BadInput(f"{where}.url may hold a secret, which no config may have", hint=HINT)
    return found


def _text(body: Mapping[str, Any], name: str, where: str) -> str:
    found = body.get(name)
    if found is None:
        return ""
    if not isinstance(found, str) or not found or "\n" in found or "://" in found:
        hint = HINT if name == "url_file" else ""
        raise BadInput(f"{where}.{name} is not the path of a file", hint=hint)
    return found


def _texts(body: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    found = body.get(name)
    if found is None:
        return ()
    words: Any = (found,) if isinstance(found, str) else found
    if not isinstance(words, Sequence) or not words:
        raise BadInput(f"{where}.{name} is {type(found).__name__}, not a list of texts")
    if not all(isinstance(word, str) and word for word in words):
        raise BadInput(f"{where}.{name} has something that is no text")
    return tuple(words)


def _flag(body: Mapping[str, Any], name: str, where: str) -> bool:
    found = body.get(name, True)
    if not isinstance(found, bool):
        raise BadInput(f"{where}.{name} is {_shown(found)}, not true or false")
    return found


def _per_minute(body: Mapping[str, Any], where: str) -> int:
    most = PER_MINUTE if body.get("kind") == "wecom" else MOST_PER_MINUTE
    found = body.get("per_minute", PER_MINUTE)
    if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= most:
        said = f"{where}.per_minute is {_shown(found)}, not a whole number from 1 to {most}"
        raise BadInput(said)
    return found


def _format(body: Mapping[str, Any], where: str) -> str:
    found = body.get("format", "text")
    if found not in FORMATS:
        raise _unknown(f"{where}.format is {_shown(found)}", str(found), FORMATS)
    return str(found)


def _shown(value: Any) -> str:
    """Return a short value for a message; a longer one may be an address in the wrong place."""
    said = repr(value)
    return said if len(said) <= 20 and "/" not in said else f"a {type(value).__name__}"


def _unknown(message: str, name: Any, known: Sequence[str]) -> BadInput:
    near = get_close_matches(str(name), list(known), n=1)
    hint = f"nearest: {near[0]}" if near else f"known: {' '.join(known)}"
    return BadInput(plain(message), hint=hint)
