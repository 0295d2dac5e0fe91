"""A run written at once from what another place recorded: parts, summaries, identity, status.

    exp=<experiment>/.tmp-run=<id>-...   until it is whole; then the folder has its name

Invariant: the run is there whole or not at all, in the form that training leaves: sealed parts with
their lists, no journal. Nobody owned its attempts, so no host is known.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from expdb.digest import leaves
from expdb.errors import BadInput, Conflict, Corrupt
from expdb.model import FORMAT, NEEDS, SEED_LIMIT, Attempt, Eval, Event, Pin
from expdb.store import attempts as attempt_files
from expdb.store import owner
from expdb.store.curve_keeper import keep_curves
from expdb.store.files import encode_json, fsync_dir, read_json, temp_path, write_bytes, write_json
from expdb.store.layout import RunLayout
from expdb.store.parts import Column
from expdb.store.recover import recount
from expdb.store.seal import seal
from expdb.store.series import SeriesBook
from expdb.store.status import Status, write_status
from expdb.store.store import Store
from expdb.store.templates import refusal

SEAL_POINTS = 1_000_000
WRITER = "writer.json"
"""Which process writes the folder of a run that has no name yet; gone before it gets one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """What is known of a run beside its points."""

    identity: Mapping[str, Any]
    """What run.json holds, `canonical` included; format and needs are added."""
    status: Status
    attempts: Sequence[Attempt] = ()
    """At least those that points are of; one without a pin where none is given."""
    evals: Sequence[Eval] = ()
    events: Sequence[Event] = ()
    labels: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(slots=True)
class _Points:
    """The points of one key of one rank of one attempt that are not sealed yet."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    seqs: array[int] = field(default_factory=lambda: array("q"))

    def column(self) -> Column:
        """Return them as arrays."""
        import numpy as np

        whole = (np.array(part, np.int64) for part in (self.steps, self.times, self.seqs))
        steps, times, seqs = whole
        return Column(steps, times, np.array(self.values, np.float64), seqs)


@dataclass(slots=True)
class _Rank:
    """What one rank of one attempt has: frames so far, frames sealed, points that wait."""

    seq: int = 0
    sealed: int = 0
    waiting: dict[str, _Points] = field(default_factory=dict)


def is_left(folder: Path) -> bool:
    """Tell whether a folder without a name was left by a process that is surely gone."""
    try:
        return owner.is_dead(read_json(folder / WRITER))
    except (FileNotFoundError, NotADirectoryError, Corrupt):
        return False


class RunWriter:
    """Writes one run: `add` its points in the order in which they were logged, then `finish`.

    Raises OSError from any call when the store cannot be written; `abandon` leaves nothing behind.
    """

    def __init__(self, store: Store, run: str, experiment: str) -> None:
        self.run = run
        self.num_points = 0
        self._final = store.layout.run_dir(experiment, run)
        self._layout = RunLayout(temp_path(self._final))
        self._ranks: dict[tuple[int, int], _Rank] = {}
        self._book = SeriesBook()
        self._num_waiting = 0

    def add(
        self,
        values: Mapping[str, float],
        *,
        step: int,
        time_ms: int,
        attempt: int = 1,
        rank: int = 0,
    ) -> None:
        """Add the values of one step; names are those that `refusal` finds nothing wrong with."""
        at = self._ranks.setdefault((attempt, rank), _Rank())
        at.seq += 1
        for key, value in values.items():
            points = at.waiting.get(key)
            if points is None:
                points = at.waiting[key] = _Points()
            points.steps.append(step)
            points.times.append(time_ms)
            points.values.append(value)
            points.seqs.append(at.seq)
        self.num_points += len(values)
        self._num_waiting += len(values)
        if self._num_waiting >= SEAL_POINTS:
            self.seal()

    def finish(self, new: NewRun) -> Path:
        """Write the rest, give the folder its name, and return it.

        Raises:
            Conflict: a run of this id has appeared meanwhile.
        """
        layout = self._layout
        self._begin()
        given = {item.number: item for item in new.attempts}
        for number in sorted({1, *given, *(attempt for attempt, _ in self._ranks)}):
            layout.attempt(number).mkdir(parents=True, exist_ok=True)
            attempt_files.write_pin(layout, given.get(number) or Attempt(number=number, pin=Pin()))
        self.seal()
        self._write_series()
        self._write_records(new)
        canonical = str(new.identity["canonical"])
        write_json(layout.config_json, leaves(canonical), durable=False)
        write_json(layout.run_json, {**new.identity, "format": FORMAT, "needs": NEEDS})
        write_status(layout, new.status)
        (layout.root / WRITER).unlink()
        fsync_dir(layout.root)
        if self._final.exists():
            raise Conflict(f"run {self.run} is there already")
        layout.root.rename(self._final)
        fsync_dir(self._final.parent)
        return self._final

    def abandon(self) -> None:
        """Remove what was written; after `finish` there is nothing."""
        shutil.rmtree(self._layout.root, ignore_errors=True)
        try:
            self._layout.root.parent.rmdir()
        except OSError:
            pass  # other runs of the experiment are in it

    def _begin(self) -> None:
        if not self._layout.root.exists():
            self._layout.root.mkdir(parents=True)
            write_json(self._layout.root / WRITER, owner.describe(), durable=False)

    def seal(self) -> None:
        """Write the points that wait as parts."""
        self._begin()
        for (attempt, rank), at in self._ranks.items():
            columns = {key: points.column() for key, points in at.waiting.items()}
            if not columns:
                continue
            self._layout.attempt(attempt).mkdir(parents=True, exist_ok=True)
            seal(
                self._layout,
                attempt=attempt,
                rank=rank,
                columns=columns,
                first_seq=at.sealed + 1,
                last_seq=at.seq,
                journals=(),
            )
            for key, column in columns.items():
                self._book.update(key, column.steps, column.values)
            at.sealed, at.waiting = at.seq, {}
        self._num_waiting = 0

    def _write_series(self) -> None:
        last = max((attempt for attempt, _ in self._ranks), default=1)
        through = {rank: at.seq for (attempt, rank), at in self._ranks.items() if attempt == last}
        if self._ranks.keys() <= {(1, 0)} and not self._book.unordered:
            self._book.attempt, self._book.through_seq = last, through
            self._book.save(self._layout.series_json)
            book = self._book
        else:
            book = recount(self._layout, through_seq={0: 0, **through})
        keep_curves(self._layout, book)

    def _write_records(self, new: NewRun) -> None:
        layout = self._layout
        if new.evals:
            layout.evals.mkdir()
        for item in new.evals:
            body = {"format": FORMAT, "needs": NEEDS, **asdict(item)}
            write_json(layout.evals / f"{item.id}.json", body, durable=False)
        marks = [{"kind": "label", "text": text} for text in new.labels]
        marks += [{"kind": "note", "text": text} for text in new.notes]
        for path, lines in ((layout.marks, marks), (layout.events, map(asdict, new.events))):
            data = b"".join(encode_json(line) for line in lines)
            if data:
                write_bytes(path, data, durable=False)


def require_seed(seed: int) -> None:
    """Refuse a seed that no index holds.

    Raises:
        BadInput: it has too many digits.
    """
    if abs(seed) >= SEED_LIMIT:
        raise BadInput("a seed has at most 38 digits", hint="for instance its rest modulo 2**64")


def require_name(key: str) -> None:
    """Refuse a name that no metric can have.

    Raises:
        BadInput: it is empty, too long, or no UTF-8 text.
    """
    why = refusal(key)
    if why:
        raise BadInput(f"the name {key[:60]!a} {why}")
