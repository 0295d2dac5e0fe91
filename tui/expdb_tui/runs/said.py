"""The line above the list: how many runs, which of them, in which order, against what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from expdb.query.paging import RunOrder
from expdb.text import plain
from expdb_tui.ink import Piece
from expdb_tui.marks import Marks

View = Literal["list", "rank", "fold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLook:
    """How the list is looked at."""

    filter: str
    is_live_only: bool
    view: View
    sort: str | None
    error: str = ""
    num_above: int = 0
    """New runs that stand above those on the screen."""


def said_list(
    order: RunOrder, look: ListLook, marks: Marks, short: Callable[[str], str]
) -> list[Piece]:
    """Return what is said of a list; `short` cuts an id."""
    left: list[Piece] = [(f"{len(order.ids):,} of {order.num_all:,}", "text")]
    if len(order.ids) == order.num_all:
        left = [(f"{order.num_all:,} run{'' if order.num_all == 1 else 's'}", "text")]
    if look.filter.strip():
        left += [("   filter ", "dim"), (plain(look.filter), "accent")]
    if look.is_live_only:
        left += [("   live only", "accent")]
    if look.view == "rank":
        left += [("   by ", "dim"), (plain(order.metric or ""), "accent"), (", best first", "dim")]
    elif look.view == "fold":
        left += [("   one row a config, its seeds folded", "dim")]
    elif look.sort is not None:
        left += [("   sort ", "dim"), (look.sort, "text")]
    if look.num_above:
        left += [(f"   {look.num_above:,} new above", "accent")]
    if order.baseline is not None:
        left += [("   baseline ", "dim"), (short(order.baseline.id), "text")]
    if order.warnings:
        left += [(f"   {marks.event} {len(order.warnings)} damaged: expdb fsck", "warn")]
    if look.error:
        left += [(f"   {plain(look.error)}", "warn")]
    return left
