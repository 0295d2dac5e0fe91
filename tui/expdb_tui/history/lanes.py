"""Where the runs of a lineage stand beside each other: the newest above, a lane for each child that
waits for its parent.

Invariant: a parent stands below all its children; of more lanes than five the last column holds the
rest; damaged parents that go in a circle end it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

MOST: Final = 5
"""Lanes that have a column of their own."""
Sign = Literal["", "line", "node", "first", "join", "end", "across", "cross", "through", "more"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """One row: a node, or edges alone."""

    node: int | None
    signs: tuple[Sign, ...]
    """Of each column."""
    num_folded: int = 0
    """Lanes that are drawn as one, where more than one is."""


def lanes(parents: Sequence[int | None], times: Sequence[int]) -> list[LaneRow]:
    """Return the rows of a lineage.

    Args:
        parents: the place of each node's parent; None for a root.
        times: when each began, to have the newest first.
    """
    order = _order(parents, times)
    waiting: list[int | None] = []
    rows: list[LaneRow] = []
    for place, node in enumerate(order):
        mine = [at for at, wanted in enumerate(waiting) if wanted == node]
        if len(mine) > 1:
            rows.append(_join(waiting, mine))
            for at in mine[1:]:
                waiting[at] = None
        at = mine[0] if mine else _free(waiting)
        if at == len(waiting):
            waiting.append(None)
        waiting[at] = node
        rows.append(_line(waiting, node=node, at=at))
        waiting[at] = parents[node]
        while waiting and waiting[-1] is None:
            waiting.pop()
        is_family = len(mine) > 1 or (bool(mine) and parents[node] is None)
        if is_family and place < len(order) - 1:
            rows.append(_line(waiting, node=None, at=None))
    return rows


def _free(waiting: Sequence[int | None]) -> int:
    return next((at for at, wanted in enumerate(waiting) if wanted is None), len(waiting))


def _order(parents: Sequence[int | None], times: Sequence[int]) -> list[int]:
    """Return the nodes, children before parents; a parent at once when its last child is there."""
    left = [0] * len(parents)
    for parent in parents:
        if parent is not None:
            left[parent] += 1
    ready = sorted((at for at, count in enumerate(left) if not count), key=lambda at: times[at])
    out: list[int] = []
    seen: set[int] = set()
    while len(out) < len(parents):
        if not ready:
            # A circle of parents: its newest is taken as if nothing came from it.
            ready = [
                max((at for at in range(len(parents)) if at not in seen), key=times.__getitem__)
            ]
        node = ready.pop()
        if node in seen:
            continue
        seen.add(node)
        out.append(node)
        parent = parents[node]
        if parent is not None and parent not in seen:
            left[parent] -= 1
            if not left[parent]:
                ready.append(parent)
    return out


def _columns(waiting: Sequence[int | None]) -> int:
    return min(MOST, len(waiting))


def _line(waiting: Sequence[int | None], *, node: int | None, at: int | None) -> LaneRow:
    signs: list[Sign] = ["" if wanted is None else "line" for wanted in waiting[: MOST - 1]]
    rest = [place for place in range(MOST - 1, len(waiting)) if waiting[place] is not None]
    if rest:
        signs.append("line" if len(rest) == 1 else "more")
    if at is not None:
        column = min(at, MOST - 1)
        signs += [""] * (column + 1 - len(signs))
        signs[column] = "node"
    others = len([place for place in rest if place != at])
    is_told = others > 1 and (at is None or at < MOST - 1)
    return LaneRow(node=node, signs=tuple(signs), num_folded=others if is_told else 0)


def _join(waiting: Sequence[int | None], mine: Sequence[int]) -> LaneRow:
    """Return the row in which lanes meet above their parent."""
    columns = {min(at, MOST - 1) for at in mine}
    last = max(columns)
    first = min(mine[0], MOST - 1)
    signs: list[Sign] = []
    for column in range(_columns(waiting)):
        is_rest = column == MOST - 1
        others = waiting[column:] if is_rest else waiting[column : column + 1]
        goes_on = any(
            wanted is not None and at not in mine for at, wanted in enumerate(others, column)
        )
        if column == first:
            signs.append("first" if last > first else "line")
        elif column in columns:
            signs.append("join" if column < last else "through" if goes_on else "end")
        elif first < column < last:
            signs.append("cross" if goes_on else "across")
        else:
            signs.append("line" if goes_on else "")
    return LaneRow(node=None, signs=tuple(signs))
