"""What `gc` would do and did: frozen values, ready to be printed or written as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["checkpoint", "trash", "parts", "packages", "pin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GcItem:
    """One thing that a collection looked at."""

    kind: Kind
    what: str
    """`k3f9x2m7qd@300`, the id of a run or of a thing in the trash, a digest, a commit."""
    name: str
    """The run's experiment with its variant; empty where there is none."""
    path: str
    """Relative to the store, with forward slashes; a pin's ref."""
    bytes: int
    """Of parts: what the files take that were folded long enough ago to go."""
    goes: bool
    why: str
    """Why it stays or goes: `best`, `tag v1`, `beyond keep: last 2, best 1`."""
    run: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GcPlan:
    """What a collection would do; nothing is written yet."""

    items: tuple[GcItem, ...]
    problems: tuple[str, ...] = ()
    """What could not be looked at, so that all of it stays."""
    trash_bytes: int = 0
    """What the trash holds and this collection leaves there."""

    def going(self, kind: Kind | None = None) -> tuple[GcItem, ...]:
        """Return what goes, of one kind or of all."""
        return tuple(item for item in self.items if item.goes and kind in (None, item.kind))

    @property
    def staying(self) -> tuple[GcItem, ...]:
        """What stays."""
        return tuple(item for item in self.items if not item.goes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GcResult:
    """What a collection did."""

    op: str | None
    """None where there was nothing to do."""
    done: tuple[GcItem, ...]
    left: tuple[str, ...] = ()
    """What was to go and stayed, with the reason: a run came alive meanwhile."""

    def of(self, kind: Kind) -> tuple[GcItem, ...]:
        """Return what went, of one kind."""
        return tuple(item for item in self.done if item.kind == kind)
