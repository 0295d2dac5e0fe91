"""Frames that wait to be sealed: in memory, or in their journal only where many wait.

Invariant: what is not in memory is whole in the journal, and is read back as the same frames or not
at all; so memory is bounded however far sealing falls behind, and no writer waits for it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from expdb.errors import ExpdbError
from expdb.store.journal import JournalReader
from expdb.store.layout import RunLayout
from expdb.store.packed import Marks, Packed
from expdb.store.seal import seal
from expdb.store.series import SeriesBook
from expdb.store.templates import Template, Templates


class Chunk:
    """What becomes one part: all frames up to `last_seq` that no chunk before has."""

    def __init__(
        self, memory: Packed, last_seq: int, journals: Sequence[Path], templates: Templates
    ) -> None:
        self._memory: Packed | None = memory
        self.num_points, self.num_bytes = memory.num_points, memory.num_bytes
        self.last_seq, self.journals = last_seq, journals
        self._templates = templates

    @property
    def kept_bytes(self) -> int:
        """The size of its frames in memory."""
        return 0 if self._memory is None else self.num_bytes

    def set_down(self) -> None:
        """Give up the copy in memory: all of it is in the one journal, and nothing else."""
        self._memory = None

    def count(self, book: SeriesBook, rank: int, *, keep: bool = False) -> None:
        """Count what of it is not in the book; all before it is. What is read for it stays in
        memory if it is to `keep`.

        Raises:
            OSError: as `seal`.
        """
        counted = book.through_seq.get(rank, 0)
        if counted >= self.last_seq:
            return
        memory = self._memory
        if memory is None:
            memory = self._loaded()
            memory.pass_counted(counted)
            self._memory = memory if keep else None
        memory.count(memory.marks(), book)
        book.through_seq = {rank: self.last_seq}

    def seal(
        self, layout: RunLayout, at: tuple[int, int], *, first_seq: int, save: Callable[[], object]
    ) -> None:
        """Write its part, for the (attempt, rank) `at`, and remove its journals; `save` as in
        `expdb.store.seal.seal`.

        Raises:
            OSError: the store cannot be written, or the journal does not have all of the frames
                that are not in memory. Nothing was lost.
            Corrupt: the rank's list is damaged.
        """
        memory = self._loaded() if self._memory is None else self._memory
        seal(
            layout,
            attempt=at[0],
            rank=at[1],
            columns=memory.columns(),
            first_seq=first_seq,
            last_seq=self.last_seq,
            journals=self.journals,
            save=save,
        )

    def _loaded(self) -> Packed:
        path = self.journals[0]
        try:
            found = _read(path, self._templates.numbered())
        except ExpdbError as error:
            raise OSError(errno.EIO, error.message, str(path)) from error
        if found.num_points != self.num_points:
            raise OSError(errno.EIO, f"{path.name} does not have all of its points", str(path))
        found.freeze()
        return found


def count_all(
    book: SeriesBook, rank: int, older: Sequence[Chunk], memory: Packed, marks: Marks, seq: int
) -> None:
    """Count all of a rank: chunks, and what came after them up to the marks and the frame `seq`.

    Raises:
        OSError: as `Chunk.count`; what could be counted is.
    """
    for chunk in older:
        chunk.count(book, rank)
    memory.count(marks, book)
    # Frames without points, as after a seal, are in no part: a book that counted them would be one
    # of points that are gone.
    if memory.num_points:
        book.through_seq = {rank: seq}


def _read(path: Path, templates: Mapping[int, Template]) -> Packed:
    found = Packed()
    for number, frames in JournalReader(path).value_frames():
        template = templates[number]
        kept = found.get(template.keys) or found.open(template)
        kept.frames += frames
    return found
