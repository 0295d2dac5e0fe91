"""JSON of others: an object with one key twice is refused, since only one of them is kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from expdb.errors import BadInput
from expdb.text import plain


class _Twice(Exception):
    """A key that stands twice in one object."""


def parsed(text: str | bytes, where: str, *, constant: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a JSON text; `where` begins the sentence of an error.

    `constant` gets the words NaN, Infinity and -Infinity, which are numbers otherwise.

    Raises:
        BadInput: an object has a key twice.
        ValueError, RecursionError: it is no JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=constant)
    except _Twice as error:
        key = plain(str(error)[:80])
        raise BadInput(f"{where} has the key {key} twice in one object") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise _Twice(next(key for key, count in counts.items() if count > 1))
    return made
