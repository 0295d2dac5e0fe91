"""What differs between the configs of many runs and their parents, from the index alone.

Invariant: the keys are those of `query.diffs` under the same rules; no run.json is opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from expdb import digest
from expdb.index.reader import Reader
from expdb.query.history_results import KeyChange
from expdb.query.results import ABSENT

SQL: Final = """
    WITH pairs AS (SELECT unnest(?) AS run, unnest(?) AS parent),
    after AS (
        SELECT p.key, p.kind, p.text, pairs.run FROM pairs JOIN params p ON p.run = pairs.run
    ),
    before AS (
        SELECT p.key, p.kind, p.text, pairs.run FROM pairs JOIN params p ON p.run = pairs.parent
    )
    SELECT run, key, before.kind, before.text, after.kind, after.text
    FROM before FULL JOIN after USING (run, key)
    WHERE before.kind IS DISTINCT FROM after.kind OR before.text IS DISTINCT FROM after.text
    ORDER BY run, before.kind IS NULL OR after.kind IS NULL, key
"""
"""Keys that both runs have come first: one that moved says more than one that came with it."""


def config_changes(
    reader: Reader, pairs: Sequence[tuple[str, str]], *, ignore: Sequence[str], seed_key: str
) -> dict[str, tuple[KeyChange, ...]]:
    """Return run -> the counted keys whose type or value is not the parent's.

    `pairs` are (run, parent); a run stands in one of them. `ignore` and `seed_key` are today's
    rules: those of the newest run looked at.
    """
    if not pairs:
        return {}
    runs, parents = zip(*pairs, strict=True)
    names = [*ignore, seed_key]
    counted: dict[str, bool] = {}
    found: dict[str, list[KeyChange]] = {run: [] for run in runs}
    for run, key, *sides in reader.rows(SQL, [list(runs), list(parents)]):
        if key not in counted:
            counted[key] = not digest.ignored(key, names)
        if counted[key]:
            before, after = decode(*sides[:2]), decode(*sides[2:])
            found[run].append(KeyChange(key=key, before=before, after=after))
    return {run: tuple(changes) for run, changes in found.items()}


def decode(kind: str | None, text: str | None) -> Any:
    """Return a config value from its kind and its text in the index; ABSENT without a kind."""
    match kind:
        case None:
            return ABSENT
        case "null":
            return None
        case "bool":
            return text == "true"
        case "float":
            return float(text or "nan")
        case "int":
            return int(text or "0", 16 if text and "x" in text else 10)
        case "list" | "map":
            return json.loads(text or "null")
    return text


def same(left: Iterable[KeyChange], right: Iterable[KeyChange]) -> bool:
    """Tell whether two runs changed the same keys in the same way."""
    return fingerprint(left) == fingerprint(right)


def fingerprint(changes: Iterable[KeyChange]) -> tuple[str, ...]:
    """Return a text for each change that is equal for equal changes: in Python 1 equals True."""
    return tuple(f"{one.key}={one.before!r}>{one.after!r}" for one in changes)
