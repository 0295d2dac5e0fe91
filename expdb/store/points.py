"""The points of a run: parts and journals joined, then the rule of which points are seen.

Visibility (docs/format.md, Duplicates and resume): at an equal (key, step, attempt, rank) the
highest `seq` wins; an attempt with `resumed_from: s` hides points with step > s of earlier
attempts; at an equal (key, step, rank) the later attempt wins. Hidden points stay readable with
`attempts=True`.

Invariant: the answer is the same before and after a journal is sealed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from expdb.errors import Corrupt, Unsupported
from expdb.store import attempts as attempt_files
from expdb.store import fields
from expdb.store.fields import Wrong
from expdb.store.files import read_json
from expdb.store.journal import JournalReader, Values
from expdb.store.layout import RunLayout
from expdb.store.parts import Column, PartEntry, build_table, read_list, schema
from expdb.store.wanted import Wanted, sealed_tables, tell

if TYPE_CHECKING:
    import pyarrow as pa

JOURNAL = re.compile(r"rank-(\d+)\.(\d+)\.wal")
LIST = re.compile(r"rank-(\d+)\.json")
KEPT = re.compile(r"((?:rank|media)-\d+\.\d+\.wal)\.damaged")
"""A damaged journal after its run was recovered; beside it `<name>.json` says what is wrong."""

ATTACHED = 1_000_000
"""The first rank of processes that attached themselves to a run."""


def journals(layout: RunLayout, attempt: int) -> dict[int, list[Path]]:
    """Return rank -> its journals of one attempt, in order."""
    found: dict[int, list[tuple[int, Path]]] = {}
    for name, match in _files(layout, attempt, JOURNAL):
        found.setdefault(int(match[1]), []).append((int(match[2]), layout.attempt(attempt) / name))
    return {rank: [path for _, path in sorted(items)] for rank, items in sorted(found.items())}


def has_parts(layout: RunLayout, attempts: Iterable[int]) -> bool:
    """Tell whether any of these attempts has sealed points."""
    return any(
        entries
        for number in attempts
        for entries in part_lists(layout, number, problems=[]).values()
    )


def kept_problems(layout: RunLayout, attempt: int, names: Iterable[str]) -> list[str]:
    """Return what is wrong with the damaged journals that recovery kept, among the `names` of the
    files of an attempt.
    """
    found: list[str] = []
    for name in sorted(names):
        if not name.endswith(".damaged") or (match := KEPT.fullmatch(name)) is None:
            continue
        try:
            said = fields.text(read_json(layout.attempt(attempt) / f"{name}.json"), "problem")
        except (Corrupt, Wrong, FileNotFoundError):
            said = f"{match[1]}: damaged"
        found.append(f"{said}; kept as attempts/{attempt}/{name}")
    return found


def part_lists(
    layout: RunLayout,
    attempt: int,
    *,
    problems: list[str] | None = None,
    missing: list[str] | None = None,
) -> dict[int, tuple[PartEntry, ...]]:
    """Return rank -> its sealed parts of one attempt; `problems`, when given, names damaged lists.

    Raises:
        Corrupt: a list is damaged, and no `problems` were given.
    """
    found: dict[int, tuple[PartEntry, ...]] = {}
    for name, match in _files(layout, attempt, LIST):
        try:
            found[int(match[1])] = read_list(layout.attempt(attempt) / name)
        except Corrupt as error:
            tell(error, problems, missing)
    return found


def _files(
    layout: RunLayout, attempt: int, pattern: re.Pattern[str]
) -> list[tuple[str, re.Match[str]]]:
    try:
        names = os.listdir(layout.attempt(attempt))  # noqa: PTH208 - names only
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [(name, match) for name in names if (match := pattern.fullmatch(name))]


def sealed_frames(layout: RunLayout) -> dict[tuple[int, int], int]:
    """Return (attempt, rank) -> the last frame of its sealed parts; a damaged list is left out."""
    lists = {
        number: part_lists(layout, number, problems=[]) for number in attempt_files.numbers(layout)
    }
    return last_frames(lists)


def last_frames(
    lists: Mapping[int, Mapping[int, Sequence[PartEntry]]],
) -> dict[tuple[int, int], int]:
    """Return (attempt, rank) -> the last frame of parts, of attempt -> rank -> its parts."""
    return {
        (number, rank): entries[-1].last_seq
        for number, ranks in lists.items()
        for rank, entries in ranks.items()
        if entries
    }


def open_journals(
    layout: RunLayout, attempt: int, rank: int, *, problems: list[str] | None = None
) -> list[JournalReader]:
    """Return the journals of one rank as they are at this moment, oldest first.

    Whoever reads a run that lives opens its journals first, and reads afterwards how far its parts
    or summaries reach: these are written before a journal goes, so that each frame is in one of
    them or in what was opened, however fast the run seals. To look again until nothing has changed
    meanwhile would never end beside a run that seals faster than it is read.

    Raises:
        Corrupt, Unsupported: a journal cannot be read, and no `problems` were given.
    """
    found: list[JournalReader] = []
    for path in journals(layout, attempt).get(rank, ()):
        try:
            found.append(JournalReader(path))
        except FileNotFoundError:
            continue  # sealed since it was listed
        except (Corrupt, Unsupported) as error:
            tell(error, problems)
    return found


def values_in(
    opened: Iterable[JournalReader], *, after_seq: int = 0, problems: list[str] | None = None
) -> Iterator[Values]:
    """Yield the values that stand in open journals in frames above `after_seq`, once.

    A damaged journal is named in `problems` when a list is given.

    Raises:
        Corrupt: a journal is damaged, and no list was given.
    """
    for reader in opened:
        reader.after_seq = after_seq
        values = list(reader)
        if problems is None and reader.is_damaged:
            raise Corrupt(reader.problem(), hint=f"the file: {reader.path}")
        yield from values
        if _is_growing(reader):
            yield from _written_since(reader, after_seq)
        elif problems is not None and reader.problem():
            problems.append(reader.problem())


def _is_growing(reader: JournalReader) -> bool:
    """Tell whether a torn end is a frame that was being written."""
    if reader.is_damaged or not reader.torn_bytes:
        return False
    time.sleep(0.002)
    try:
        return reader.path.stat().st_size != reader.good_bytes + reader.torn_bytes
    except FileNotFoundError:
        return True  # sealed meanwhile


def _written_since(reader: JournalReader, after_seq: int) -> Iterator[Values]:
    """Yield what a journal has gained since it was opened, from one more look at it."""
    try:
        again = JournalReader(reader.path, after_seq=max(after_seq, reader.last_seq))
    except FileNotFoundError:
        return  # sealed meanwhile
    yield from again


def is_short(layout: RunLayout, attempt: int, through_seq: int) -> bool:
    """Tell whether frames of rank 0 up to `through_seq`, which were counted, are not on disk.

    False where a list or a journal cannot be read: that has its own name. An emptied one can.
    """
    try:
        entries = read_list(layout.parts_list(attempt, 0))
        last = entries[-1].last_seq if entries else 0
        for path in journals(layout, attempt).get(0, ()) if last < through_seq else ():
            if not path.stat().st_size:
                continue
            reader = JournalReader(path, after_seq=through_seq)
            last = max([last, *(item.seq for item in reader), reader.last_seq])
    except (Corrupt, Unsupported, FileNotFoundError):
        return False
    return last < through_seq


def as_columns(values: Iterable[Values], keys: Sequence[str] | None = None) -> dict[str, Column]:
    """Return key -> column of journal values, in the order in which they were logged."""
    import numpy as np

    wanted = None if keys is None else set(keys)
    lists: dict[str, tuple[list[int], list[int], list[float], list[int]]] = {}
    for item in values:
        for key, value in zip(item.keys, item.values, strict=True):
            if wanted is not None and key not in wanted:
                continue
            if key not in lists:
                lists[key] = ([], [], [], [])
            steps, times, numbers, seqs = lists[key]
            steps.append(item.step)
            times.append(item.time_ms)
            numbers.append(value)
            seqs.append(item.seq)
    return {
        key: Column(
            np.array(steps, np.int64),
            np.array(times, np.int64),
            np.array(numbers, np.float64),
            np.array(seqs, np.int64),
        )
        for key, (steps, times, numbers, seqs) in lists.items()
    }


def read_series(
    run_dir: Path,
    keys: Sequence[str] | None = None,
    *,
    attempts: bool = False,
    problems: list[str] | None = None,
    missing: list[str] | None = None,
) -> pa.Table:
    """Return the points of a run, sealed and live, sorted by (key, step, rank).

    Columns: key, step, time, value, attempt, rank, seq. With `attempts` superseded points are
    included, in any order. A damaged file is named in `problems` when a list is given, and the rest
    is returned; in `missing` too if sealed points, or what hides points, cannot be read.

    Raises:
        Corrupt, Unsupported: a file cannot be read, and no list was given.
    """
    import pyarrow as pa

    layout = RunLayout(run_dir)
    table = read_points(layout, Wanted(keys=keys), problems=problems, missing=missing)
    # Last: an attempt says what it hides before it has points.
    resumed = resumed_from(layout, problems=problems, missing=missing)
    table = table if attempts else visible(table, resumed)
    return table.set_column(0, "key", table["key"].cast(pa.string()))


def resumed_from(
    layout: RunLayout, *, problems: list[str] | None = None, missing: list[str] | None = None
) -> dict[int, int | None]:
    """Return attempt -> the step that it says it resumed from, None where it says none.

    Raises:
        Corrupt: a pin cannot be read, and no `problems` were given; else it is left out.
    """
    found: dict[int, int | None] = {}
    for number in attempt_files.numbers(layout):
        try:
            found[number] = attempt_files.read_pin(layout, number).resumed_from
        except Corrupt as error:
            tell(error, problems, missing)
    return found


def read_points(
    layout: RunLayout,
    wanted: Wanted,
    *,
    problems: list[str] | None = None,
    missing: list[str] | None = None,
) -> pa.Table:
    """Return the points of a run that are wanted, hidden ones too; the rest as `read_series`.

    The columns are those of a part that are wanted. The rows of one key, step, attempt and rank are
    in the order of `seq`; there is no other order.
    """
    import pyarrow as pa

    tables: list[pa.Table] = []
    for number in attempt_files.numbers(layout):
        tables.extend(_attempt_tables(layout, number, wanted, problems, missing))
    none = schema().empty_table().select(list(wanted.columns))
    return pa.concat_tables([none, *tables])


def _attempt_tables(
    layout: RunLayout,
    attempt: int,
    wanted: Wanted,
    problems: list[str] | None,
    missing: list[str] | None,
) -> list[pa.Table]:
    """Return the points of one attempt.

    Of each rank the journals are opened before its list is read: see `open_journals`.
    """
    strict = problems is None
    live: list[pa.Table] = []
    known: dict[int, tuple[PartEntry, ...]] = {}
    for rank in journals(layout, attempt):
        told: list[str] | None = None if strict else []
        opened = open_journals(layout, attempt, rank, problems=told)
        try:
            known[rank] = read_list(layout.parts_list(attempt, rank))
        except Corrupt as error:
            tell(error, [] if problems is not None else None)
            known[rank] = ()
        last = known[rank][-1].last_seq if known[rank] else 0
        after = max(last, wanted.after.get((attempt, rank), 0))
        values = values_in(opened, after_seq=after, problems=told)
        columns = as_columns(values, wanted.keys)
        if columns:
            table = build_table(columns, attempt=attempt, rank=rank)
            live.append(wanted.of_journal(table))
        if problems is not None:
            problems.extend(told or ())
    lists = part_lists(layout, attempt, problems=problems, missing=missing)
    lists |= {rank: entries for rank, entries in known.items() if rank in lists}
    return [*sealed_tables(layout, {attempt: lists}, wanted, problems, missing), *live]


def visible(table: pa.Table, resumed: Mapping[int, int | None]) -> pa.Table:
    """Return the rows that the visibility rule shows, sorted by (key, step, rank).

    `table` has the columns of a part, but for `time`, `value` and `seq`; without `seq` the rows of
    one key, step, attempt and rank are in its order, as `read_points` returns them. `resumed` maps
    each attempt to its `resumed_from`, None where it declares nothing.
    """
    import numpy as np

    for number, start in resumed.items():
        if start is not None and table.num_rows:
            later = table["attempt"].to_numpy() >= number
            table = table.filter(later | (table["step"].to_numpy() <= start))
    if table.num_rows == 0:
        return table
    table = table.unify_dictionaries().combine_chunks()
    column = table["key"].chunk(0)
    names = column.dictionary.to_pylist()
    place = np.empty(len(names), np.int32)
    place[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    key = place[column.indices.to_numpy()]
    step = table["step"].to_numpy()
    grows = step[1:] > step[:-1]
    if len(names) > 1:
        grows = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & grows)
    if grows.all():
        return table  # most series: every step once, in order
    rank, attempt = table["rank"].to_numpy(), table["attempt"].to_numpy()
    seq = (table["seq"].to_numpy(),) if "seq" in table.column_names else ()
    order = np.lexsort((*seq, attempt, rank, step, key))
    key, step, rank = key[order], step[order], rank[order]
    last = np.ones(len(order), bool)
    last[:-1] = (key[1:] != key[:-1]) | (step[1:] != step[:-1]) | (rank[1:] != rank[:-1])
    return table.take(order[last])


def of_ranks(table: pa.Table, attempt: int, ranks: Collection[int]) -> pa.Table:
    """Return the rows but those of other ranks in one attempt."""
    import numpy as np

    rank = table["rank"].to_numpy()
    other = (table["attempt"].to_numpy() == attempt) & ~np.isin(rank, list(ranks))
    return table.filter(~other) if other.any() else table


def standing(table: pa.Table) -> pa.Table:
    """Return the one row a (key, step) that stands for the run, of what `read_series` returned.

    That is the row of the newest attached process, else of the lowest rank.
    """
    import numpy as np

    if table.num_rows < 2:
        return table
    key = table["key"].combine_chunks().dictionary_encode().indices.to_numpy()
    step, rank = table["step"].to_numpy(), table["rank"].to_numpy()
    starts = np.ones(len(step), bool)
    starts[1:] = (key[1:] != key[:-1]) | (step[1:] != step[:-1])
    if starts.all():
        return table
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(step)) - 1
    return table.take(np.where(rank[last] >= ATTACHED, last, first))
