"""The points of a run: parts and journals joined, then the rule of which points are seen.

Visibility (docs/format.md, Duplicates and resume): at an equal (key, step, attempt, rank) the highest `seq` wins; an
attempt with `resumed_from: s` hides points with step > s of earlier attempts; at an equal (key, step, rank) the later
attempt wins. Hidden points stay readable with `attempts=True`.

Invariant: the answer is the same before and after a journal is sealed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from expdb.errors import Corrupt
from expdb.store import attempts as attempt_files
from expdb.store.journal import JournalReader, Values
from expdb.store.layout import RunLayout
from expdb.store.parts import (
    Column,
    PartEntry,
    build_table,
    plain_schema,
    read_list,
    read_part,
)

if TYPE_CHECKING:
    import pyarrow as pa

JOURNAL = re.compile(r"rank-(\d+)\.(\d+)\.wal")
LIST = re.compile(r"rank-(\d+)\.json")


def journals(layout: RunLayout, attempt: int) -> dict[int, list[Path]]:
    """Return rank -> its journals of one attempt, in order."""
    found: dict[int, list[tuple[int, Path]]] = {}
    folder = layout.attempt(attempt)
    for entry in folder.iterdir() if folder.is_dir() else ():
        if match := JOURNAL.fullmatch(entry.name):
            found.setdefault(int(match[1]), []).append((int(match[2]), entry))
    return {rank: [path for _, path in sorted(items)] for rank, items in sorted(found.items())}


def part_lists(layout: RunLayout, attempt: int) -> dict[int, tuple[PartEntry, ...]]:
    """Return rank -> its sealed parts of one attempt."""
    folder = layout.attempt(attempt)
    found: dict[int, tuple[PartEntry, ...]] = {}
    for entry in folder.iterdir() if folder.is_dir() else ():
        if match := LIST.fullmatch(entry.name):
            found[int(match[1])] = read_list(entry)
    return found


def live_values(
    layout: RunLayout,
    attempt: int,
    rank: int,
    *,
    after_seq: int = 0,
    problems: list[str] | None = None,
) -> Iterator[Values]:
    """Yield the values that stand in the journals of one rank and in no sealed part.

    A damaged journal is named in `problems` when a list is given.

    Raises:
        Corrupt: a journal is damaged, and no list was given.
    """
    for path in journals(layout, attempt).get(rank, ()):
        try:
            reader = JournalReader(path, after_seq=after_seq)
            yield from reader
        except FileNotFoundError:
            continue  # sealed since it was listed: its points stand in a part, and in our next look
        except Corrupt as error:
            if problems is None:
                raise
            problems.append(error.message)
            continue
        if problems is not None and reader.info.torn_bytes:
            problems.append(
                f"{path.name}: torn at its end; all {reader.num_frames} whole frames kept"
            )


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
) -> pa.Table:
    """Return the points of a run, sealed and live, sorted by (key, step, rank).

    Columns: key, step, time, value, attempt, rank, seq. With `attempts` superseded points are included. A damaged
    file is named in `problems` when a list is given, and the rest is returned.

    Raises:
        Corrupt: a part or journal is damaged, and no list was given.
    """
    import pyarrow as pa

    layout = RunLayout(run_dir)
    tables: list[pa.Table] = []
    resumed: dict[int, int | None] = {}
    for number in attempt_files.numbers(layout):
        resumed[number] = attempt_files.read_pin(layout, number).resumed_from
        tables.extend(_attempt_tables(layout, number, keys, problems))
    table = pa.concat_tables(tables) if tables else plain_schema().empty_table()
    return table if attempts else visible(table, resumed)


def _attempt_tables(
    layout: RunLayout, attempt: int, keys: Sequence[str] | None, problems: list[str] | None
) -> Iterator[pa.Table]:
    # Journals are listed first: one that is sealed meanwhile is then found in the list of parts.
    ranks = journals(layout, attempt)
    lists = part_lists(layout, attempt)
    for rank in sorted({*ranks, *lists}):
        entries = lists.get(rank, ())
        for entry in entries:
            try:
                yield read_part(layout.points / Path(entry.file).name, keys)
            except Corrupt as error:
                if problems is None:
                    raise
                problems.append(error.message)
        after = entries[-1].last_seq if entries else 0
        live = live_values(layout, attempt, rank, after_seq=after, problems=problems)
        columns = as_columns(live, keys)
        if columns:
            table = build_table(columns, attempt=attempt, rank=rank)
            yield table.cast(plain_schema())


def visible(table: pa.Table, resumed: Mapping[int, int | None]) -> pa.Table:
    """Return the rows that the visibility rule shows, sorted by (key, step, rank).

    `resumed` maps each attempt to its `resumed_from`, None where it declares nothing.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if table.num_rows == 0:
        return table
    attempt = table["attempt"].to_numpy()
    step = table["step"].to_numpy()
    limit = np.full(len(step), np.iinfo(np.int64).max)
    for number, start in resumed.items():
        if start is not None:
            earlier = attempt < number
            limit[earlier] = np.minimum(limit[earlier], start)
    table = table.filter(pa.array(step <= limit))
    if table.num_rows == 0:
        return table
    encoded = pc.dictionary_encode(table["key"].combine_chunks())
    names = encoded.dictionary.to_pylist()
    rank_of_code = np.empty(len(names), np.int64)
    rank_of_code[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    key = rank_of_code[encoded.indices.to_numpy()]
    step, rank, attempt, seq = (table[n].to_numpy() for n in ("step", "rank", "attempt", "seq"))
    order = np.lexsort((seq, attempt, rank, step, key))
    key, step, rank = key[order], step[order], rank[order]
    last = np.ones(len(order), bool)
    last[:-1] = (key[1:] != key[:-1]) | (step[1:] != step[:-1]) | (rank[1:] != rank[:-1])
    return table.take(pa.array(order[last]))
