"""`expdb fsck`: check a store, and with `--repair` mend what can be mended.

Invariant: a check writes nothing, not even the index. A repair writes no op: refs go where their
own ops say they are, and nothing is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from expdb.actions.reindex import reindex
from expdb.actions.unfinished import require_finished
from expdb.actions.writing import writing
from expdb.errors import Ambiguous, Corrupt, ExpdbError, NotFound
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import RunAt
from expdb.query.lookup import lookup_all
from expdb.store.fsck.check import check_store, no_tick, repair_store
from expdb.store.fsck.report import Counts, Finding, Tick
from expdb.store.fsck.trash import Trash
from expdb.store.resolve import MIN_PREFIX, Resolved
from expdb.store.runs import run_dirs
from expdb.store.store import Store
from expdb.text import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckResult:
    """What a check found, and what a repair made of it."""

    store: str
    """The store as people are told of it."""
    counts: Counts
    findings: tuple[Finding, ...]
    left: tuple[Finding, ...]
    """The problems that are there now: all that were found, or those that a repair left."""
    live: tuple[str, ...] = ()
    """Runs that are being written; their open files were not looked at."""
    is_repair: bool = False
    sealed: tuple[str, ...] = ()
    """Killed runs whose journals the repair sealed."""
    trash: str | None = None
    """Where things were set aside, relative to the store."""
    seconds: float = 0.0

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that are wrong."""
        return tuple(item for item in self.findings if item.is_problem)


def folders_of(
    reader: Reader, words: Sequence[str], *, head: RunAt | None = None
) -> list[tuple[Path, Resolved | None]]:
    """Return the run folders that words name, each once, with what the word became.

    A run that no word can name any more, since its run.json is damaged, is found by its id.

    Raises:
        NotFound, Ambiguous, BadInput: nothing, several things, no RUN.
    """
    out: dict[Path, Resolved | None] = {}
    for word in words:
        try:
            for found in lookup_all(reader, word, head=head):
                out.setdefault(reader.run_dir(found.run), found)
        except (NotFound, Ambiguous) as error:
            folder = _by_id(reader.store, word, error)
            out.setdefault(folder, None)
    return list(out.items())


def fsck(
    store: Store,
    folders: Sequence[Path] | None = None,
    *,
    repair: bool = False,
    worktree: WorkTree | None = None,
    tick: Tick = no_tick,
) -> FsckResult:
    """Check all of the store, or the named run folders; with `repair` mend what can be mended.

    Raises:
        Refused: a repair while an op of this work tree is cut off.
        Corrupt: the store cannot be written; what was mended stands.
    """
    began = time.monotonic()
    if repair and not store.writable:
        why = f"cannot write to the store {store.name}: {store.why_not}"
        raise Corrupt(why, hint="expdb fsck")
    if repair and worktree is not None:
        require_finished(worktree, store)
    found = check_store(store.layout, folders, tick=tick)
    if not repair:
        return FsckResult(
            store=store.name,
            counts=found.counts,
            findings=tuple(found.findings),
            left=tuple(found.problems),
            live=tuple(found.live),
            seconds=time.monotonic() - began,
        )
    trash = Trash(store.layout)
    with writing(store):
        rows, again, sealed = repair_store(store.layout, found, folders, trash=trash, tick=tick)
        if found.problems or sealed:
            reindex(store)
    folder = trash.folder
    return FsckResult(
        store=store.name,
        counts=found.counts,
        findings=tuple(rows),
        left=tuple(again.problems),
        live=tuple(found.live),
        is_repair=True,
        sealed=tuple(sealed),
        trash=None if folder is None else folder.relative_to(store.root).as_posix(),
        seconds=time.monotonic() - began,
    )


def _by_id(store: Store, word: str, error: ExpdbError) -> Path:
    """Return the folder of the one run whose id begins with a word; else the error stands."""
    found = [path for run, path, _ in run_dirs(store.root) if run.startswith(word)]
    if len(word) < MIN_PREFIX or len(found) != 1:
        raise error
    return found[0]


def ids_of(store: Store) -> list[str]:
    """Return the ids of all run folders, readable or not."""
    return [plain(run) for run, _, _ in run_dirs(store.root)]
