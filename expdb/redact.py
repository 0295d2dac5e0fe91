"""What counts as a secret, and its removal from text, before the first byte is written.

Invariant: only text values are redacted; the caller's own objects are never changed.
Source of the key rule: docs/format.md, section Secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MARK = "<redacted>"
EXACT = frozenset(["key", "token", "secret", "password", "passwd", "pwd", "credentials"])
ENDINGS = (
    "api_key", "access_key", "secret_key", "private_key", "auth_token", "access_token", "api_token",
    "hub_token", "hf_token", "bot_token", "_password", "_secret",
)  # fmt: skip
MIN_LENGTH = 4
"""Shorter values are not searched for in other text: they would match everywhere."""

USER_INFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://)(?P<user>[^\s/?#@'\"]+)@")
ASSIGNED = re.compile(r"(?P<key>[A-Za-z_][\w.\-]*)(?P<sep>=|: ?)(?P<value>\S+)")


def is_secret_key(name: str) -> bool:
    """Tell whether a dotted config key holds a secret by its last name."""
    last = name.rsplit(".", 1)[-1].lower().lstrip("-").replace("-", "_")
    return last in EXACT or last.endswith(ENDINGS)


def is_secret_variable(name: str) -> bool:
    """Tell whether an environment variable holds a secret: any word of its name says so."""
    return is_secret_key(name) or not EXACT.isdisjoint(name.lower().split("_"))


def without_user_info(text: str) -> str:
    """Return `text` with the user part of every URL replaced."""
    return USER_INFO.sub(rf"\g<scheme>{MARK}@", text)


class Redactor:
    """Replaces known secret values, and what looks like one, in captured text."""

    def __init__(self, values: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> None:
        found = set(values)
        for name, value in (environment or {}).items():
            if is_secret_variable(name):
                found.add(value)
        # Longest first, so that a value which contains another one goes as a whole.
        self.values = sorted((v for v in found if len(v) >= MIN_LENGTH), key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return `text` without any known secret, user info or `secret_key=value`."""
        for value in self.values:
            text = text.replace(value, MARK)
        return ASSIGNED.sub(self._assigned, without_user_info(text))

    def _assigned(self, match: re.Match[str]) -> str:
        if not is_secret_key(match["key"]):
            return match[0]
        return f"{match['key']}{match['sep']}{MARK}"
