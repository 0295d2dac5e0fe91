"""Lines of a file, each with its number, none of them longer than a bound.

Invariant: memory stays bounded whatever the file holds; a line over the bound is passed over and
counted.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, cast

from expdb.importers.found import Skips

MAX_LINE: Final = 1_000_000
MAX_RECORD: Final = 64_000_000
RECORD: Final = b'{"expdb":'
"""How a line of ours begins that describes a whole run: its config and code make it long."""
TOO_LONG: Final = "a line over 1 MB"


def opened(path: Path) -> IO[bytes]:
    """Open a file for reading, one that gzip packed too."""
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def lines(path: Path, skips: Skips) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text without its end) of each line; bytes that are no UTF-8 become
    U+FFFD.
    """
    with opened(path) as file:
        at = 0
        while True:
            data = file.readline(MAX_LINE + 1)
            if not data:
                return
            at += 1
            if len(data) > MAX_LINE and data.startswith(RECORD):
                data += file.readline(MAX_RECORD)
            elif len(data) > MAX_LINE and not data.endswith(b"\n"):
                skips.add(TOO_LONG, at)
                while data and not data.endswith(b"\n"):
                    data = file.readline(MAX_LINE)
                continue
            text = data.decode("utf-8", "replace").removesuffix("\n")
            yield at, text.removeprefix("\ufeff") if at == 1 else text
