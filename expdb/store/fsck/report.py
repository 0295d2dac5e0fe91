"""What a check of a store finds: values that the checks fill and the report prints.

Invariant: a finding names one exact file, relative to the store; only `damaged` and `missing` are
problems, the other kinds are said and left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

Kind = Literal["damaged", "missing", "stray", "leftover", "unfinished", "newer"]
Result = Literal["", "mended", "set aside in trash", "kept"]
PROBLEMS = frozenset({"damaged", "missing"})

Tick = Callable[[int, int], None]
"""Told after each run: how many are done, and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be."""

    kind: Kind
    what: str
    """`rank-0.1.wal: torn at its end; all 174 whole frames kept`."""
    path: str
    """The file or folder, relative to the store, with forward slashes."""
    run: str = ""
    """The id of the run that it belongs to, if any."""
    experiment: str = ""
    ref: str = ""
    """The ref or tag that it is about, if any."""
    can_mend: bool = False
    points_lost: int = 0
    """Points of which no readable copy is left."""
    is_least: bool = False
    """Whether more points may be lost than can be counted."""
    result: Result = ""
    """What a repair did about it; empty before."""
    trash: str = ""
    """Where it was set aside, relative to the store."""

    @property
    def is_problem(self) -> bool:
        """Whether something is wrong, rather than only worth a word."""
        return self.kind in PROBLEMS

    @property
    def key(self) -> tuple[str, str]:
        """What a later check knows the same thing by."""
        return self.path, self.ref


@dataclass(slots=True, kw_only=True)
class Counts:
    """How much was looked at."""

    runs: int = 0
    checkpoints: int = 0
    refs: int = 0
    ops: int = 0
    files: int = 0

    def add(self, other: Counts) -> None:
        """Add what another check looked at."""
        for name in ("runs", "checkpoints", "refs", "ops", "files"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True, kw_only=True)
class Checked:
    """One check, of a run or of a whole store."""

    counts: Counts = field(default_factory=Counts)
    findings: list[Finding] = field(default_factory=list)
    live: list[str] = field(default_factory=list)
    """Runs that are being written, or may be: their open files were not looked at."""

    @property
    def problems(self) -> list[Finding]:
        """The findings that are wrong."""
        return [item for item in self.findings if item.is_problem]

    def add(self, other: Checked) -> None:
        """Take in another check."""
        self.counts.add(other.counts)
        self.findings.extend(other.findings)
        self.live.extend(other.live)


@dataclass(slots=True, kw_only=True)
class Notes:
    """Collects the findings of one run; paths are given within its folder."""

    folder: str
    """The run's folder relative to the store."""
    run: str
    experiment: str = ""
    found: list[Finding] = field(default_factory=list)

    def say(
        self,
        kind: Kind,
        path: str,
        what: str,
        *,
        can_mend: bool = False,
        points_lost: int = 0,
        is_least: bool = False,
    ) -> None:
        """Note one finding about a path within the run's folder."""
        self.found.append(
            Finding(
                kind=kind,
                what=what,
                path=f"{self.folder}/{path}" if path else self.folder,
                run=self.run,
                experiment=self.experiment,
                can_mend=can_mend,
                points_lost=points_lost,
                is_least=is_least,
            )
        )


def settled(before: list[Finding], after: list[Finding], aside: Mapping[str, str]) -> list[Finding]:
    """Return the problems of a check with what a repair made of each.

    `after` is what the check says behind the repair, `aside` maps each path that was moved into the
    trash to its place there; both relative to the store.
    """
    left = {item.key for item in after if item.is_problem}
    out = []
    for item in before:
        if not item.is_problem:
            out.append(item)
        elif (trash := _place_in(aside, item.path)) is not None:
            out.append(replace(item, result="set aside in trash", trash=trash))
        else:
            out.append(replace(item, result="kept" if item.key in left else "mended"))
    return out


def _place_in(aside: Mapping[str, str], path: str) -> str | None:
    """Return where a path is now that was moved, or lies in a folder that was."""
    parts = path.split("/")
    for count in range(len(parts), 0, -1):
        moved = aside.get("/".join(parts[:count]))
        if moved is not None:
            return "/".join([moved, *parts[count:]])
    return None


def relative(path: Path, root: Path) -> str:
    """Return a path within the store as findings name it."""
    return path.relative_to(root).as_posix()
