"""Types of DuckDB that Arrow does not have: their values become the texts that DuckDB itself shows.

Without it a time zone is dropped, bits are bytes, and the largest numbers come out negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

LOST: Final = frozenset([
    "time with time zone", "bit", "uhugeint", "bignum", "variant", "interval", "geometry",
])  # fmt: skip


def projection(columns: Sequence[str], types: Sequence[Any]) -> str:
    """Return the columns of a SELECT over an answer that keeps all of it; empty if it is so."""
    wanted = [_kept(kind) for kind in types]
    if not any(wanted):
        return ""
    return ", ".join(
        (f"CAST(#{at} AS {kind})" if kind else f"#{at}") + f" AS {_quoted(name)}"
        for at, (name, kind) in enumerate(zip(columns, wanted, strict=True), start=1)
    )


def _kept(kind: Any) -> str:
    """Return the SQL of a type without what is lost; empty where nothing is."""
    if kind.id in LOST:
        return "VARCHAR"
    if kind.id not in ("list", "array", "struct", "map", "union"):
        return ""
    children = dict(kind.children)
    size = children.pop("size", None)
    inner = {name: _kept(child) for name, child in children.items()}
    if not any(inner.values()):
        return ""
    if kind.id == "union":
        return "VARCHAR"
    parts = {name: inner[name] or _sql(child) for name, child in children.items()}
    if kind.id == "struct":
        return f"STRUCT({', '.join(f'{_quoted(name)} {part}' for name, part in parts.items())})"
    if kind.id == "map":
        return f"MAP({parts['key']}, {parts['value']})"
    return f"{parts['child']}[{'' if size is None else size}]"


def _sql(kind: Any) -> str:
    return "VARCHAR" if kind.id == "null" else str(kind)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
