"""What counts as a secret, and its removal from text, before the first byte is written.

Invariant: only text values are redacted; the caller's own objects are never changed.
Source of the key rule: docs/format.md, section Secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

MARK = "<redacted>"
EXACT = frozenset(["key", "token", "secret", "password", "passwd", "pwd", "credentials"])
COMMON = frozenset(["key", "token"])
"""Names that ordinary values have too: what stands under them is searched elsewhere only if it
looks made up.
"""
ENDINGS = (
    "api_key", "access_key", "secret_key", "private_key", "auth_token", "access_token", "api_token",
    "hub_token", "hf_token", "bot_token", "_password", "_secret",
)  # fmt: skip
FOLDERS = frozenset(["PWD", "OLDPWD"])
"""Variables of the shell that look like secrets by their name."""
WORDS = frozenset(["true", "false", "none", "null"])
MIN_LENGTH = 4
"""Shorter values are not searched for in other text: they would match everywhere."""
WHOLE_BELOW = 8
"""Shorter values are replaced only where they are a word of their own."""
LINE_LENGTH = 16
"""Lines of a secret of several lines are searched for by themselves from this length on."""

USER_INFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://)(?P<user>[^\s/?#'\"]+)@")
ASSIGNED = re.compile(
    r"(?P<key>[A-Za-z_][\w.\-]*)(?P<sep>=)(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S+)"
)


def is_secret_key(name: str) -> bool:
    """Tell whether a dotted config key holds a secret by its last name."""
    last = _last(name)
    return last in EXACT or last.endswith(ENDINGS)


def hides_below(name: str) -> bool:
    """Tell whether all text below a mapping of this name is secret: not so below `token`."""
    return is_secret_key(name) and _last(name) not in COMMON


def is_secret_variable(name: str) -> bool:
    """Tell whether an environment variable holds a secret: any word of its name says so."""
    if name in FOLDERS:
        return False
    return is_secret_key(name) or not EXACT.isdisjoint(name.lower().split("_"))


def is_telling(name: str, value: str) -> bool:
    """Tell whether a secret found under `name` may be searched for in other text.

    `key: val/loss` must not blot out the metric everywhere; `key: A1b2` must not be seen anywhere.
    """
    return _last(name) not in COMMON or _looks_made_up(value)


def secrets_of_urls(text: str) -> Iterator[str]:
    """Yield the passwords, and the user names that look like tokens, of every URL in `text`."""
    for match in USER_INFO.finditer(text):
        user, colon, password = match["user"].partition(":")
        if colon:
            yield from (match["user"], password, unquote(password))
        if _looks_made_up(user):
            yield user


def without_user_info(text: str) -> str:
    """Return `text` with the user part of every URL replaced."""
    return USER_INFO.sub(rf"\g<scheme>{MARK}@", text)


class Redactor:
    """Replaces known secret values, and what looks like one, in captured text."""

    def __init__(
        self, values: Iterable[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        found = {value for value in values if len(value) >= MIN_LENGTH}
        for name, value in (environment or {}).items():
            # Nobody said that these are in use here, so a short one must not change a config's
            # text.
            if is_secret_variable(name) and len(value) >= WHOLE_BELOW:
                found.add(value)
        for value in tuple(found):
            found.update(line for line in value.split("\n") if len(line) >= LINE_LENGTH)
        found -= WORDS
        # Longest first, so that a value which contains another one goes as a whole.
        patterns = [_pattern(value) for value in sorted(found, key=len, reverse=True)]
        self._known = re.compile("|".join(patterns)) if patterns else None

    def known(self, text: str) -> str:
        """Return `text` without any known secret, and without user info in URLs."""
        if self._known is not None:
            text = self._known.sub(MARK, text)
        return without_user_info(text) if "://" in text else text

    def text(self, text: str) -> str:
        """Return captured text without known secrets, user info and `secret_key=` values."""
        text = self.known(text)
        return ASSIGNED.sub(_assigned, text) if "=" in text else text

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the words of a command without secrets, `--api-key VALUE` included."""
        out: list[str] = []
        for word in words:
            option = out[-1] if out else ""
            name, assigned, _ = word.partition("=")
            if option.startswith("--") and "=" not in option and is_secret_key(option):
                out.append(MARK)
            elif assigned and is_secret_key(name.lstrip("+~")):
                out.append(f"{name}={MARK}")
            else:
                out.append(self.text(word))
        return out


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1].lower().lstrip("-").replace("-", "_")


def _looks_made_up(value: str) -> bool:
    return len(value) >= 20 or any(char.isdigit() or char.isupper() for char in value)


def _pattern(value: str) -> str:
    escaped = re.escape(value)
    return rf"(?<!\w){escaped}(?!\w)" if len(value) < WHOLE_BELOW else escaped


def _assigned(match: re.Match[str]) -> str:
    if not is_secret_key(match["key"]):
        return match[0]
    return f"{match['key']}={MARK}"
