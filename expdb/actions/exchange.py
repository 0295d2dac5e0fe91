"""What `push` and `pull` share: what became of each run, and the two passes over them.

Invariant: the first pass writes nothing and finds what there is to bring; a run that cannot be
brought is named and the others are; only a place that cannot be written at all ends it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from expdb.errors import Conflict, ExpdbError
from expdb.git.packs import COMMIT
from expdb.model import Pin
from expdb.store import attempts as attempt_files
from expdb.store.copy_run import Brought, Way, bring, clear_leftovers, is_same
from expdb.store.files import reason
from expdb.store.layout import RunLayout
from expdb.store.remotes import Remote
from expdb.store.run_files import Files, list_files
from expdb.text import plain

Outcome = Literal["new", "updated", "same", "behind", "skipped", "refused"]
Tick = Callable[[int, int], None]
HOPELESS: Final = frozenset(
    [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.ENOTCONN]
)
"""Errors that the next run would meet too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What became of one run."""

    run: str
    name: str
    """The experiment with its variant."""
    outcome: Outcome
    bytes: int = 0
    why: str = ""
    """Why it was skipped or refused."""
    hint: str = ""
    kept: tuple[str, ...] = ()
    """Files beside expdb's own that differ, and stay as they are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """What a push or a pull did, or with `dry_run` would do."""

    verb: Literal["push", "pull"]
    remote: Remote
    runs: tuple[Moved, ...]
    dry_run: bool
    commits: int = 0
    """Commits whose code was brought, or pinned."""
    refs: int = 0
    ops: int = 0
    no_code: tuple[str, ...] = ()
    """Runs whose code could not be brought."""
    notes: tuple[str, ...] = ()
    """What else is to be known, in plain words."""
    op: str | None = None

    def of(self, *outcomes: Outcome) -> tuple[Moved, ...]:
        """Return the runs that ended so."""
        return tuple(one for one in self.runs if one.outcome in outcomes)

    @property
    def bytes(self) -> int:
        """The bytes of the runs that were brought."""
        return sum(one.bytes for one in self.runs)


@dataclass(slots=True, kw_only=True)
class Item:
    """One run on its way."""

    run: str
    name: str
    experiment: str = ""
    src: RunLayout
    home: Path
    files: Files = field(default_factory=dict)
    commits: set[str] = field(default_factory=set)
    """Those that its pins name, where they have the form of ids."""
    brought: Brought | None = None
    wants_old: bool = True
    why: str = ""
    hint: str = ""
    is_refused: bool = False

    @property
    def is_due(self) -> bool:
        """Whether there is something to bring."""
        return self.brought is not None and self.brought.outcome in ("new", "updated")

    @property
    def is_there(self) -> bool:
        """Whether the other place has it, or will."""
        return self.brought is not None

    def skip(self, why: str, *, hint: str = "") -> None:
        """Leave it, for now."""
        self.brought, self.why, self.hint = None, why, hint

    def refuse(self, error: ExpdbError | OSError) -> None:
        """Leave it, since it cannot be taken; one that only changed meanwhile is skipped."""
        said = error.message if isinstance(error, ExpdbError) else _said(error)
        self.skip(
            said, hint=error.hints[0] if isinstance(error, ExpdbError) and error.hints else ""
        )
        self.is_refused = not isinstance(error, Conflict)

    def moved(self) -> Moved:
        """Return what became of it."""
        found = self.brought
        if found is None:
            outcome: Outcome = "refused" if self.is_refused else "skipped"
            return Moved(
                run=self.run, name=self.name, outcome=outcome, why=self.why, hint=self.hint
            )
        return Moved(
            run=self.run, name=self.name, outcome=found.outcome, bytes=found.bytes, kept=found.kept
        )


def _said(error: OSError) -> str:
    where = f"{plain(Path(str(error.filename)).name)}: " if error.filename else ""
    return f"{where}{reason(error)}"


def trying(item: Item, work: Callable[[], None]) -> None:
    """Do something about one run; what is wrong with it alone is noted.

    Raises:
        OSError: nothing can be written there any more.
    """
    try:
        work()
    except ExpdbError as error:
        item.refuse(error)
    except OSError as error:
        if error.errno in HOPELESS:
            raise
        item.refuse(error)


def carry(
    items: Collection[Item],
    way: Way,
    each: Callable[[Item, Way], None],
    tick: Tick,
    *,
    into: Path,
    is_all: bool,
) -> None:
    """Bring the runs that are due below `into`, one after the other; where they are all that there
    are, what is left there of others that were cut off before goes.

    Raises:
        OSError: as `trying`.
    """
    due = [item for item in items if item.is_due]
    total = sum(item.brought.bytes for item in due if item.brought is not None)
    done = 0

    def told(num_bytes: int) -> None:
        nonlocal done
        done = min(done + num_bytes, total)
        tick(done, total)

    counted = replace(way, tick=told)
    for item in due:
        trying(item, lambda item=item: each(item, counted))  # type: ignore[misc]
    for experiment in into.glob("exp=*") if is_all else ():
        clear_leftovers(experiment, way.tag, but={item.run for item in items})


def ended(
    verb: Literal["push", "pull"],
    remote: Remote,
    items: Iterable[Item],
    code: tuple[int, tuple[str, ...]],
    names: tuple[int, int] | None,
    notes: Iterable[str],
    *,
    op: str | None = None,
) -> Exchanged:
    """Return what came of it.

    Args:
        verb: which way.
        remote: the other side.
        items: the runs.
        code: how many commits were brought, and the runs whose code was not.
        names: how many refs and ops were written; None for a dry run.
        notes: what else is to be known.
        op: the op, where one was written.
    """
    return Exchanged(
        verb=verb,
        remote=remote,
        runs=tuple(item.moved() for item in items),
        dry_run=names is None,
        commits=code[0],
        refs=names[0] if names else 0,
        ops=names[1] if names else 0,
        no_code=code[1],
        notes=tuple(notes),
        op=op,
    )


def is_same_item(item: Item, way: Way) -> bool:
    """Tell whether there is nothing to bring of a run, by sizes and times; note its files."""
    try:
        item.files = list_files(item.src.root)
    except FileNotFoundError:
        return False  # it is being written
    if not is_same(item.home, item.files, way.tag):
        return False
    item.brought = Brought(outcome="same")
    return True


def bring_item(item: Item, way: Way, *, dry_run: bool = False) -> None:
    """Bring one run, or find out what there is to bring."""
    item.brought = bring(
        item.src, item.home, item.files, way, wants_old=item.wants_old, dry_run=dry_run
    )


def commits_of(layout: RunLayout) -> set[str]:
    """Return the commits that the attempts of a run are pinned to, as far as they can be read."""
    found = (pin.pinned for pin, _ in _attempts(layout))
    return {one for one in found if one is not None and COMMIT.fullmatch(one)}


def packages_of(layout: RunLayout) -> list[str]:
    """Return the digests of the sets of packages that a run names."""
    return [text for _, text in _attempts(layout) if text]


def _attempts(layout: RunLayout) -> Iterable[tuple[Pin, str]]:
    for number in attempt_files.numbers(layout):
        try:
            found = attempt_files.read_pin(layout, number)
        except (ExpdbError, OSError):
            continue
        yield found.pin, found.environment.get("packages", "")
