"""What `expdb.open` returns: the reads and the weights of a store, for notebooks and scripts.

Invariant: every answer is that of the command of the same name; nothing here decides anything. Each
call looks at the store afresh.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from expdb.index.reader import Reader, open_reader
from expdb.model import Run
from expdb.query.compare import asked_step, comparison
from expdb.query.compare_results import Comparison
from expdb.query.kin import against_base
from expdb.query.listing import listing
from expdb.query.lookup import lookup, lookup_many
from expdb.query.rank import ranking
from expdb.query.results import Listing, Ranking
from expdb.query.select import Selection, where_of
from expdb.query.series import series_of
from expdb.store.layout import RunLayout
from expdb.store.locate import find_store
from expdb.store.resolve import Resolved
from expdb.store.store import Store
from expdb.store.store import open_store as open_at

if TYPE_CHECKING:
    import pyarrow as pa

    from expdb.query.curve import PlotCurve


class StoredCheckpoint:
    """One checkpoint of a stored run."""

    def __init__(self, layout: RunLayout, step: int) -> None:
        self.path = layout.checkpoint(step)
        self.step = step
        self._layout = layout

    def load(self, part: str, *, into: Any) -> None:
        """Load `model`, `optim` or `ema` into a live object, after checking the hashes.

        Raises:
            NotFound, Corrupt, BadInput: no such part; a damaged file; another shape.
        """
        from expdb.track.checkpoint import load_part

        load_part(self._layout, self.step, part, into=into)


class StoredRun:
    """One run of a store, as it was when it was asked for."""

    def __init__(self, store: OpenStore, record: Run, step: int | None) -> None:
        self.record = record
        self._store, self._step = store, step
        self.path = store.root / record.path

    def checkpoint(self, which: str | int = "last") -> StoredCheckpoint:
        """Return a checkpoint: `best`, `last`, or a step.

        Raises:
            NotFound: the run has no such checkpoint.
        """
        found = self._store.resolve(f"{self.record.id}@{which}")
        if found.step is None:
            raise AssertionError("a word with a step resolves to a step")
        return StoredCheckpoint(RunLayout(self.path), found.step)


class OpenStore:
    """A store opened for reading; words are those of the RUN grammar."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.root = store.root

    @contextmanager
    def _reader(self) -> Iterator[Reader]:
        with open_reader(self._store) as reader:
            yield reader

    def resolve(self, word: str) -> Resolved:
        """Return what a word names.

        Raises:
            NotFound, Ambiguous, BadInput: as the grammar says.
        """
        with self._reader() as reader:
            return lookup(reader, word)

    def run(self, word: str) -> StoredRun:
        """Return the run that a word names."""
        with self._reader() as reader:
            found = lookup(reader, word)
            return StoredRun(self, reader.run(found.run), found.step)

    def runs(
        self,
        where: str | Sequence[str] | None = None,
        *,
        since: str | None = None,
        study: str | None = None,
        limit: int | None = None,
        sort: str | None = None,
        columns: Sequence[str] = (),
    ) -> Listing:
        """Return the runs that a filter selects, newest first: the answer of `ls -w`.

        `where` is a filter as of `-w`, or several that must all hold; `since`, `study`, `sort` and
        `columns` (`+optim.lr`) are the options of `ls`. `limit` is how many; None for all.

        Raises:
            BadInput, NotFound: a filter that makes no sense, a name that the store does not have.
        """
        selection = Selection(where=where, since=since, study=study)
        with self._reader() as reader:
            chosen = where_of(reader, selection, now_ms=time.time_ns() // 1_000_000)
            found = listing(
                reader,
                limit=limit,
                where=chosen.condition,
                params=chosen.params,
                sort=sort,
                columns=columns,
            )
        return replace(found, warnings=(*chosen.warnings, *found.warnings))

    def rank(self, metric: str | None = None, *, limit: int | None = None) -> Ranking:
        """Return the finished runs by an objective, best first."""
        with self._reader() as reader:
            return ranking(reader, metric, limit=limit)

    def compare(self, *words: str, metric: str | None = None) -> Comparison:
        """Compare runs with the first of them, at their last common step or that of `RUN@STEP`."""
        with self._reader() as reader:
            found = lookup_many(reader, list(words))
            return comparison(reader, found, metric=metric, step=asked_step(words, found))

    def series(self, key: str, *, runs: Sequence[str]) -> pa.Table:
        """Return the visible points of one key: run, key, step, time, value, attempt, rank, seq.

        `time` is UTC epoch milliseconds; rows are in the order of `runs`, then by step.
        """
        with self._reader() as reader:
            return series_of(reader, key, runs)

    def curve(self, key: str, *, run: str, width: int = 400, **view: Any) -> PlotCurve:
        """Return a series as a plot draws it; `view`: `x`, `since`, `until` of `query.curve`."""
        from expdb.query.curve import curve

        with self._reader() as reader:
            return curve(reader.run_dir(lookup(reader, run).run), key, width=width, **view)

    def sql(self, statement: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> pa.Table:
        """Return what one SELECT answers: over runs, params, series, points, evals, events, ...

        `points.time` is UTC epoch milliseconds. A statement reaches nothing outside the store.

        Raises:
            BadInput: it is anything but one SELECT, or it fails.
        """
        from expdb.query.sql import answer

        with self._reader() as reader:
            return answer(reader, statement, params)

    def closing_table(
        self, run: str, *, stream: TextIO, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the lines that end a training run, drawn for a stream: against what it is measured
        against, its parent or the run of the parent's config with its seed; and what to do next.
        """
        from expdb.report.closing import end_lines
        from expdb.report.style import style_of

        now_ms = time.time_ns() // 1_000_000
        style = style_of(stream, os.environ if env is None else env, now_ms)
        with self._reader() as reader:
            record = reader.run(run)
            found = against_base(reader, record)
            return end_lines(record, None if found is None else found[1], style)


def open_store(path: str | os.PathLike[str] | None = None) -> OpenStore:
    """Open a store by its folder, or the one found upward from the current folder.

    Raises:
        NotFound, Unsupported, Corrupt: there is none, or it cannot be read.
    """
    explicit = None if path is None else os.fspath(path)
    return OpenStore(open_at(find_store(start=Path.cwd(), explicit=explicit)))
