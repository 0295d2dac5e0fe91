"""What a generation holds: its tables, their columns, and the number that changes with them.

Invariant: `schema.sql` alone says what columns there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

SCHEMA: Final = "7"
"""Raised with any change of `schema.sql` or of what its columns hold."""

SCHEMA_SQL: Final = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")


def _columns(sql: str) -> dict[str, tuple[str, ...]]:
    """Return table -> columns of every table that holds facts about runs."""
    bare = "".join(line.partition("--")[0] for line in sql.split("\n"))
    found = {}
    for made in bare.split("CREATE TABLE gen.")[1:]:
        name, _, body = made.partition("(")
        columns = body.rpartition(")")[0].split(",")
        found[name.strip()] = tuple(column.split()[0].strip('"') for column in columns)
    del found["meta"]
    return found


COLUMNS: Final[Mapping[str, tuple[str, ...]]] = _columns(SCHEMA_SQL)
"""Table -> its columns; the first one names the run."""

Tables = dict[str, list[tuple[Any, ...]]]
"""Table -> rows, in the order of `COLUMNS`."""


def no_tables() -> Tables:
    """Return every table without a row."""
    return {name: [] for name in COLUMNS}


def version_text(version: tuple[int, int, int]) -> str:
    """Return a run's version as the index keeps it."""
    return f"{version[0]}:{version[1]}:{version[2]}"
