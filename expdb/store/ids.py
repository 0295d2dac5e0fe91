"""Ids: 10 characters of lower-case Crockford base32, a letter first; text, never numbers."""

from __future__ import annotations

import os
import re

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LETTERS = ALPHABET[10:]
LENGTH = 10
PATTERN = re.compile(rf"[{LETTERS}][{ALPHABET}]{{{LENGTH - 1}}}")


def new_id() -> str:
    """Return a new random id for a run or an op (49 bits)."""
    # Every start of a command imports this; `secrets` would bring in OpenSSL.
    while True:
        made = "".join(ALPHABET[byte % len(ALPHABET)] for byte in os.urandom(LENGTH))
        if made[0] in LETTERS:
            return made


def is_id(text: str) -> bool:
    """Tell whether `text` has the form of a full id."""
    return PATTERN.fullmatch(text) is not None
