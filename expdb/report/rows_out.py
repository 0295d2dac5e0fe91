"""Rows for other programs and for documents: CSV, Markdown, JSON lines.

Invariant: a value is written whole, never rounded; a number that is not finite is NaN, Infinity or
-Infinity, as in JSON; control characters of names stand as text, so no cell opens a line.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from expdb.report.json import dumps, finite
from expdb.text import plain

_MARKUP: Final = str.maketrans({char: f"\\{char}" for char in "\\`*[]<>|"})


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV with a head; absent values are empty, lists and mappings JSON."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([plain(column) for column in columns])
    for row in rows:
        writer.writerow([csv_text(value) for value in row])
    return out.getvalue()


def csv_text(value: Any) -> str:
    """Return a value as a CSV cell: `1.848`, `NaN`, `true`, empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(finite(value))
    if isinstance(value, list | tuple | Mapping):
        return plain(json.dumps(finite(value), ensure_ascii=False))
    return plain(str(value))


def markdown(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[int] = ()
) -> list[str]:
    """Return a table as Markdown; markup in cells is escaped, and `right` columns stand right."""
    rules = ["---:" if at in right else "---" for at in range(len(columns))]
    cells = [[in_markdown(text) for text in row] for row in (columns, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], f"| {' | '.join(rules)} |", *lines[1:]]


def in_markdown(text: str) -> str:
    """Return text that Markdown shows as it stands."""
    return plain(text).translate(_MARKUP)


def jsonl(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return one JSON document a line."""
    return "".join(dumps(dict(document), indent=None) + "\n" for document in documents)
