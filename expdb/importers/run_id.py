"""The id of an imported run: of what the file holds and how it is read, so that it is the same
again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from expdb.importers.found import Reading
from expdb.store.ids import ALPHABET, LENGTH, LETTERS


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run_id(sha256: str, format: str, reading: Reading, pattern: str, name: str) -> str:
    """Return the id of a run of a file, by its name in the file."""
    parts = (sha256, format, pattern, reading.regex, reading.step, name)
    text = "\0".join(parts)
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    number, first = divmod(number, len(LETTERS))
    out = LETTERS[first]
    for _ in range(LENGTH - 1):
        number, at = divmod(number, len(ALPHABET))
        out += ALPHABET[at]
    return out
