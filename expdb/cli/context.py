"""What every verb needs: the store, a reader of it, the work tree and its HEAD.

Invariant: only the command line reads the environment. A reading verb says first when an op of this
work tree was cut off, and goes on.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from expdb.cli.output import Output
from expdb.errors import ExpdbError, NotFound, Refused

if TYPE_CHECKING:
    from expdb.git.worktree import Unavailable, WorkTree
    from expdb.index.reader import Reader
    from expdb.model import RunAt
    from expdb.query.select import Where
    from expdb.store.resolve import Resolved
    from expdb.store.store import Store

Swapped = tuple[str, tuple[str, ...]]
"""A word that may be the run instead, and the command that was meant then, in its parts."""


@dataclass
class Context:
    """The surroundings of one call of the command line."""

    out: Output
    env: Mapping[str, str]
    directory: Path
    explicit_store: str | None = None

    def open_store(self) -> Store:
        """Open the store: by name, by EXPDB_STORE, else found upward.

        Raises:
            NotFound: there is none.
        """
        from expdb.store.locate import find_store
        from expdb.store.store import open_store

        explicit = self.explicit_store or self.env.get("EXPDB_STORE") or None
        return open_store(find_store(start=self.directory, explicit=explicit))

    @cached_property
    def _found_worktree(self) -> WorkTree | Unavailable:
        from expdb.git.worktree import find_worktree

        return find_worktree(self.directory)

    @cached_property
    def _may_have_moved(self) -> bool:
        """Whether it takes git to tell where this work tree came from; a process is spared else."""
        from expdb.store.locate import may_have_moved

        return may_have_moved(self.directory)

    @property
    def worktree(self) -> WorkTree | None:
        """The git work tree of the current folder; None outside of one."""
        from expdb.git.worktree import WorkTree

        found = self._found_worktree
        return found if isinstance(found, WorkTree) else None

    def require_worktree(self) -> WorkTree:
        """Return the git work tree of the current folder.

        Raises:
            Refused: there is none.
        """
        from expdb.git.worktree import Unavailable

        found = self._found_worktree
        if isinstance(found, Unavailable):
            raise Refused(
                f"{found.reason}: there is no code here to go back with",
                hint="config and weights of a run: expdb path RUN",
            )
        return found

    def head(self) -> RunAt | None:
        """Return where this work tree came from; None while it follows the baseline."""
        if not self._may_have_moved or self.worktree is None:
            return None
        from expdb.store.head import read_head

        head = read_head(self.worktree.git_dir)
        return None if head is None else head.at

    @contextmanager
    def reader(self, *, warn_unfinished: bool = True) -> Iterator[Reader]:
        """Open a reader of the store, and say first what is unfinished or damaged."""
        from expdb.index.reader import open_reader

        store = self.open_store()
        self._clear_places(store)
        if warn_unfinished:
            self._warn_unfinished(store)
        with open_reader(store) as reader:
            for warning in reader.warnings:
                self.out.warning(warning)
            self.out.set_id_cells(reader.id_length)
            yield reader

    def resolve(self, reader: Reader, word: str, *, swapped: Swapped | None = None) -> Resolved:
        """Return the run that a word names, and say what the word became.

        Args:
            reader: the index.
            word: a RUN.
            swapped: another word of the command, and the command that was meant if that one is the
                run; it is the hint when `word` names nothing.

        Raises:
            NotFound, Ambiguous, BadInput: nothing, several things, no RUN.
        """
        from expdb.query.lookup import lookup

        try:
            found = lookup(reader, word, head=self.head())
        except NotFound as error:
            if swapped is not None and self._is_run(reader, swapped[0]):
                command, *words = swapped[1]
                said = " ".join([command, *map(shlex.quote, words)])
                raise NotFound(error.message, hint=f"the other way round: {said}") from None
            raise
        self._say(found)
        return found

    def _is_run(self, reader: Reader, word: str) -> bool:
        from expdb.query.lookup import lookup

        try:
            lookup(reader, word, head=self.head())
        except ExpdbError:
            return False
        return True

    def resolve_many(self, reader: Reader, words: Sequence[str]) -> list[Resolved]:
        """Return the runs that words name, with the seed they share where they have one."""
        from expdb.query.lookup import lookup_many

        found = lookup_many(reader, list(words), head=self.head())
        for resolved in found:
            self._say(resolved)
        return found

    def where(
        self,
        reader: Reader,
        filters: Sequence[str] = (),
        *,
        since: str | None = None,
        study: str | None = None,
    ) -> Where:
        """Return the condition of `-w`, `--since` and `--study`, and say what it passes over.

        Raises:
            BadInput, NotFound: a filter that makes no sense, a name that the store does not have.
        """
        from expdb.query.select import Selection, where_of

        selection = Selection(where=tuple(filters), since=since, study=study)
        found = where_of(reader, selection, now_ms=self.out.style.now_ms)
        for warning in found.warnings:
            self.out.warning(warning)
        return found

    def declared(self) -> dict[str, str]:
        """Return the experiments that config files here declare, with the command of each."""
        from expdb.query.declared import declared

        try:
            store = self.open_store()
        except ExpdbError:
            store = None
        return declared(self.places, store)

    @property
    def places(self) -> list[Path]:
        """The folders in which a training script is looked for, in order."""
        top = self.worktree.top if self.worktree is not None else self.directory
        return list(dict.fromkeys([self.directory, top]))

    def _clear_places(self, store: Store) -> None:
        """Remove the work trees and claims that a killed `probe` or `run` has left."""
        from expdb.store.locate import may_have_places

        if may_have_places(self.directory) and self.worktree is not None:
            from expdb.actions.place import clear

            clear(self.worktree)
        if store.writable and store.layout.jobs.is_dir():
            from expdb.actions.place import clear_jobs

            clear_jobs(store.layout)

    def _say(self, resolved: Resolved) -> None:
        if not resolved.is_literal:
            self.out.resolution(resolved.said)

    def _warn_unfinished(self, store: Store) -> None:
        # The mark alone is looked at: what it takes to tell more is loaded when there is one.
        if not self._may_have_moved or self.worktree is None:
            return
        from expdb.store.ops import StoreGone, marker_path

        if not marker_path(self.worktree.git_dir).exists():
            return
        from expdb.actions.unfinished import unfinished
        from expdb.text import ago

        try:
            found = unfinished(self.worktree, store)
        except StoreGone as error:
            self.out.warning(error.message)
            for hint in error.hints:
                self.out.hint(hint)
            return
        if found is None:
            return
        since = ago(found.op.created_at_ms, self.out.style.now_ms)
        self.out.warning(f"{found.line}, {since} (op {found.op.id})")
        if not found.is_alive:
            self.out.hint(
                "finish it: expdb rollback --continue       take it back: expdb rollback --abort"
            )

    def shown(self, path: Path) -> str:
        """Return a path as people are told of it: relative to the current folder."""
        return os.path.relpath(path, self.directory)
