"""Checks of a run's points: lists against parts, every byte of the parts, every frame of journals.

Invariant: nothing is written. Parts never change, so those of a live run are read too; its open
journals are left to their writer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from expdb.errors import Corrupt
from expdb.store import points, series, writers
from expdb.store.fsck.journals import KEPT, all_journals, entries, frames, note_journal, note_kept
from expdb.store.fsck.report import Kind, Notes
from expdb.store.journal import Values
from expdb.store.layout import RunLayout, is_passed_over
from expdb.store.parts import PartEntry, read_folded, read_list, read_part
from expdb.store.status import Status

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PART = re.compile(r"part-a(\d+)-r(\d+)-(\d+)-(\d+)\.parquet")
GLOB = re.compile(r"part-.*\.parquet")
"""What other engines take for a part of points."""


@dataclass(slots=True, kw_only=True)
class RankPoints:
    """What one rank of one attempt has sealed."""

    attempt: int
    rank: int
    entries: tuple[PartEntry, ...] = ()
    list_problem: str = ""
    """Why there is no list to go by; empty when there is one."""
    seqs: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """Listed part that reads whole -> its frames, ascending."""
    bad: dict[str, str] = field(default_factory=dict)
    """Listed part that does not -> why."""
    loose: tuple[Path, ...] = ()
    """Parts of this rank that are on no list."""

    def listed(self) -> NDArray[np.int64]:
        """Return every frame that stands in a listed part, ascending."""
        import numpy as np

        arrays = list(self.seqs.values())
        return np.unique(np.concatenate(arrays)) if arrays else np.empty(0, np.int64)


def ranks(layout: RunLayout, numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return (attempt, rank) of every rank that has a list, a journal of any kind, or a part."""
    known = set(numbers)
    found = set()
    for number in known:
        for path in entries(layout.attempt(number)):
            match = points.JOURNAL.fullmatch(path.name) or points.LIST.fullmatch(path.name)
            match = match or KEPT.fullmatch(path.name)
            if match is not None:
                found.add((number, int(match[1])))
    for path in entries(layout.points):
        part = PART.fullmatch(path.name)
        if part is not None and int(part[1]) in known:
            found.add((int(part[1]), int(part[2])))
    return sorted(found)


def inspect(layout: RunLayout, attempt: int, rank: int) -> RankPoints:
    """Read every part of a rank."""
    found = RankPoints(attempt=attempt, rank=rank)
    prefix = f"part-a{attempt}-r{rank}-"
    there = [path for path in entries(layout.points) if path.name.startswith(prefix)]
    there = [path for path in there if PART.fullmatch(path.name)]
    listed = layout.parts_list(attempt, rank)
    try:
        found.entries = read_list(listed)
    except Corrupt as error:
        found.list_problem = error.message
    for entry in found.entries:
        try:
            found.seqs[entry.file] = read_seqs(layout.points / Path(entry.file).name, entry)
        except Corrupt as error:
            found.bad[entry.file] = error.message
    names = {entry.file for entry in found.entries}
    if not found.list_problem:
        names.update(read_folded(listed))
    found.loose = tuple(sorted(path for path in there if path.name not in names))
    is_missing = not found.entries and not found.list_problem and not listed.exists()
    # A kill between the first part and its list leaves the journal too: then nothing is wrong.
    if is_missing and any(is_orphan(layout, path, found, None) is not None for path in found.loose):
        found.list_problem = f"{listed.name} is missing, and there are parts"
    return found


def read_seqs(path: Path, entry: PartEntry | None = None) -> NDArray[np.int64]:
    """Return the frames of a part after reading all of it, ascending.

    Raises:
        Corrupt: it is damaged, or not what its name and its line in the list say.
    """
    import numpy as np

    table = read_part(path)
    match = PART.fullmatch(path.name)
    if match is None:
        raise Corrupt(f"{path.name} is no name of a part")
    attempt, rank, first, last = (int(text) for text in match.groups())
    seqs = np.unique(table["seq"].to_numpy())
    fits = bool(np.all(table["attempt"].to_numpy() == attempt))
    fits = fits and bool(np.all(table["rank"].to_numpy() == rank))
    if not fits or (len(seqs) and not first <= seqs[0] <= seqs[-1] <= last):
        raise Corrupt(f"{path.name} holds points of another attempt or rank than its name says")
    if entry is not None and table.num_rows != entry.num_points:
        raise Corrupt(f"{path.name} has {table.num_rows:,} of {entry.num_points:,} points")
    return seqs


def check_points(
    layout: RunLayout, numbers: Sequence[int], status: Status | None, notes: Notes, *, is_live: bool
) -> None:
    """Note all that is wrong with the points of a run."""
    for attempt, rank in ranks(layout, numbers):
        open_now = is_live or writer_lives(layout, attempt, rank)
        found = inspect(layout, attempt, rank)
        if open_now and found.bad and inspect(layout, attempt, rank).bad != found.bad:
            continue  # its parts are being put together at this moment
        _note_parts(layout, found, status, notes, open_now=open_now)
        for path in points.journals(layout, attempt).get(rank, ()):
            note_journal(layout, path, attempt, rank, notes, open_now=open_now)
        if rank:
            _note_summary(layout, attempt, rank, notes, open_now=open_now)
    for number in numbers:
        note_kept(layout, number, notes)
    if not is_live:
        _note_foreign(layout, numbers, notes)


def writer_lives(layout: RunLayout, attempt: int, rank: int) -> bool:
    """Tell whether somebody beside rank 0 may write under this rank now."""
    return bool(rank) and writers.is_open(layout, attempt, rank)


def is_orphan(
    layout: RunLayout, path: Path, found: RankPoints, status: Status | None
) -> str | None:
    """Return why a part on no list is no part of this run, empty when it is; None: let it be.

    It is let be while its frames stand in a journal: sealing that one settles it.
    """
    import numpy as np

    try:
        seqs = read_seqs(path)
    except Corrupt as error:
        return error.message
    live: set[int] = set()
    for journal in points.journals(layout, found.attempt).get(found.rank, ()):
        live.update(frames(layout, journal, found.attempt, found.rank))
    rest = np.setdiff1d(seqs, found.listed())
    if live and not np.setdiff1d(rest, np.array(sorted(live), np.int64)).size:
        return None
    if not rest.size:
        return f"{path.name} is on no list; its points stand in other parts too"
    if found.list_problem:
        return ""
    size = path.stat().st_size
    if status is None or status.files.get(f"points/{path.name}") != size:
        return f"{path.name} is on no list, and nothing says that it is of this run"
    first, last = _range(path)
    if any(first <= entry.last_seq and entry.first_seq <= last for entry in found.entries):
        return f"{path.name} is on no list, and others stand in its place"
    return ""


def _range(path: Path) -> tuple[int, int]:
    match = PART.fullmatch(path.name)
    return (int(match[3]), int(match[4])) if match else (0, 0)


def _note_parts(
    layout: RunLayout, found: RankPoints, status: Status | None, notes: Notes, *, open_now: bool
) -> None:
    listed = f"attempts/{found.attempt}/{layout.parts_list(found.attempt, found.rank).name}"
    if found.list_problem and not open_now:
        is_there = layout.parts_list(found.attempt, found.rank).exists()
        what = f"attempts/{found.attempt}/{found.list_problem}"
        notes.say("damaged" if is_there else "missing", listed, what, can_mend=True)
    copies = set(salvaged(layout, found)) if found.bad else set()
    for entry in found.entries:
        if entry.file in found.bad:
            is_there = (layout.points / Path(entry.file).name).exists()
            said = found.bad[entry.file].partition(entry.file)[2].strip() or "cannot be read"
            lost = 0 if entry.file in copies else entry.num_points
            rest = "its journal has them all" if not lost else f"{lost:,} points are lost with it"
            notes.say(
                "damaged" if is_there else "missing",
                f"points/{Path(entry.file).name}",
                f"{entry.file}: {said}; {rest}",
                can_mend=is_there or not lost,
                points_lost=lost,
            )
    for path in () if open_now else found.loose:
        why = is_orphan(layout, path, found, status)
        if why is not None:
            said = why or f"{path.name} is on no list: its points are not read"
            if not (found.list_problem and not why):  # the list's own finding says it
                kind: Kind = "leftover" if _is_of_a_folding(path, found) else "damaged"
                notes.say(kind, f"points/{path.name}", said, can_mend=True)


def _is_of_a_folding(path: Path, found: RankPoints) -> bool:
    """Tell whether a part is what a folding had written that was killed before its list.

    The next `gc` writes it again.
    """
    first, last = _range(path)
    inside = [one for one in found.entries if first <= one.first_seq and one.last_seq <= last]
    ends = {one.last_seq + 1 for one in inside} | {first}
    is_one = all(one.first_seq in ends for one in inside) and last + 1 in ends
    return len(inside) > 1 and is_one


def salvaged(layout: RunLayout, found: RankPoints) -> dict[str, list[Values]]:
    """Return each unreadable part whose points all stand in journals, with them."""
    if not found.bad:
        return {}
    every: dict[int, list[Values]] = {}
    for path in all_journals(layout, found.attempt, found.rank):
        every.update(frames(layout, path, found.attempt, found.rank))
    out = {}
    for entry in found.entries:
        inside = [v for s, v in sorted(every.items()) if entry.first_seq <= s <= entry.last_seq]
        values = [item for items in inside for item in items]
        if entry.file in found.bad and sum(len(v.keys) for v in values) == entry.num_points:
            out[entry.file] = values
    return out


def _note_summary(
    layout: RunLayout, attempt: int, rank: int, notes: Notes, *, open_now: bool
) -> None:
    path = layout.rank_series(attempt, rank)
    try:
        series.load(path)
    except Corrupt as error:
        said = f"{path.name}{error.message.removeprefix('series.json')}"
        notes.say("damaged", f"attempts/{attempt}/{path.name}", said, can_mend=not open_now)


def _note_foreign(layout: RunLayout, numbers: Sequence[int], notes: Notes) -> None:
    """Note what lies among the parts and is none."""
    for path in entries(layout.points):
        match = PART.fullmatch(path.name)
        if match is not None and int(match[1]) in numbers:
            continue
        if path.name.startswith(".tmp-") or is_passed_over(path.name):
            continue
        where = f"points/{path.name}"
        if GLOB.fullmatch(path.name):
            notes.say(
                "damaged", where, f"{path.name} is no part of this run, and others read it as one",
                can_mend=True,
            )  # fmt: skip
        else:
            notes.say("stray", where, f"{where}: not expdb's, left alone")
