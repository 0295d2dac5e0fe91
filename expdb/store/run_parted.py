"""A run that was taken up in two places: what is said of it, and how to go on.

Invariant: nothing is written here. Two processes have owners of their own, so that an attempt whose
owner is not the same in both places is two attempts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from expdb.errors import Corrupt, Refused
from expdb.store import attempts
from expdb.store.layout import RunLayout
from expdb.store.run_files import Files, are_same
from expdb.store.status import read_status
from expdb.text import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Which of the two places of a copy is this store."""

    remote: str
    is_push: bool

    @property
    def names(self) -> tuple[str, str]:
        """What the source and the target are called."""
        there = f"in {self.remote}"
        return ("here", there) if self.is_push else (there, "here")


def require_one_life(
    src: RunLayout,
    dst: RunLayout,
    ours: Files,
    theirs: Files,
    shared: Collection[int],
    sides: Sides,
) -> None:
    """Refuse a run of which an attempt that both places have, `shared`, is of two processes.

    The first one is of the place where the run was made: where that differs, no resume did it.

    Raises:
        Refused: so; OSError: it cannot be read.
    """
    for number in sorted(set(shared) - {1}):
        path = f"attempts/{number}/owner.json"
        if path not in ours or path not in theirs:
            continue
        if not are_same(src.root / path, dst.root / path, ours[path], theirs[path]):
            raise parted(src, dst, number, number, sides)


def parted(src: RunLayout, dst: RunLayout, mine: int, other: int, sides: Sides) -> Refused:
    """Return the error of a run that went on in both places, with attempt `mine` and `other`."""
    lives = [
        f"{place} on {_host(layout, number)}{_to_step(layout)}"
        for place, layout, number in zip(sides.names, (src, dst), (mine, other), strict=True)
    ]
    if not sides.is_push:
        lives.reverse()  # this store first, either way
    return Refused(
        f"it went on in both places: {', '.join(lives)}",
        hint=f"take that of {sides.remote}: expdb rm {dst.id}, then"
        f" expdb pull {sides.remote} {dst.id}; the one here stays in the trash",
    )


def _host(layout: RunLayout, number: int) -> str:
    return plain(attempts.host(layout, number)) or "an unknown host"


def _to_step(layout: RunLayout) -> str:
    try:
        step = read_status(layout).last_step
    except (Corrupt, OSError):
        return ""
    return "" if step is None else f" to step {step}"
