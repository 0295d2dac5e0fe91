"""A file that is one JSON object."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from expdb.errors import BadInput
from expdb.importers.json_ import parsed
from expdb.importers.lines import opened
from expdb.text import plain

MAX_BYTES: Final = 512_000_000


def load(path: Path) -> dict[str, Any]:
    """Return the object in a file.

    Raises:
        BadInput: it holds something else, or more than 512 MB.
    """
    name = plain(path.name)
    with opened(path) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise BadInput(f"{name} has over 512 MB of JSON", hint="JSON lines have no such bound")
    try:
        found = parsed(data.decode("utf-8-sig"), name)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadInput(f"{name} holds no JSON object")
    return found
