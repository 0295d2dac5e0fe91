"""The media of a run: sealed files and journals joined, then the rule of which records are seen.

Visibility: an attempt that resumed at step s hides records with step > s of earlier attempts; at an
equal (key, step) a later attempt hides earlier ones. Several records of one attempt all stay: four
samples at one step are four. Hidden records stay readable with `attempts=True`.

Invariant: the answer is the same before and after a journal is sealed: a journal that stands is
read, and the files with its number are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from expdb.errors import Corrupt
from expdb.store import attempts as attempt_files
from expdb.store.files import write_json
from expdb.store.layout import RunLayout
from expdb.store.media_journal import (
    MediaReader,
    media_journals,
    names_in,
    read_journal,
)
from expdb.store.media_parts import HEAD, KINDS, build_table, read_part, schema, write_parts

if TYPE_CHECKING:
    import pyarrow as pa

PART = re.compile(r"(text|hist|table|image)-a(\d+)-r(\d+)-(\d+)\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaKey:
    """What a run has of one kind under one key."""

    kind: str
    key: str
    count: int
    first_step: int
    last_step: int


def read_media(
    run_dir: Path,
    kind: str,
    *,
    columns: Sequence[str] | None = None,
    attempts: bool = False,
    problems: list[str] | None = None,
) -> pa.Table:
    """Return the texts, histograms, tables or images of a run, sorted by (key, step, attempt, rank,
    seq); of the named columns only when given.

    Columns: as docs/format.md has them. A damaged file is named in `problems` when a list is given,
    and the rest is returned.

    Raises:
        Corrupt, Unsupported: a file cannot be read, and no list was given.
    """
    import pyarrow as pa

    layout = RunLayout(run_dir)
    wanted = None if columns is None else list(dict.fromkeys([*HEAD, *columns]))
    told: list[str] = []
    tables: list[pa.Table] = []
    resumed: dict[int, int | None] = {}
    for number in attempt_files.numbers(layout):
        try:
            resumed[number] = attempt_files.read_pin(layout, number).resumed_from
        except Corrupt as error:
            if problems is None:
                raise
            told.append(error.message)
        strict = None if problems is None else told
        tables.extend(_attempt_tables(layout, kind, number, wanted, strict))
    if problems is not None:
        problems.extend(told)
    empty = schema(kind).empty_table()
    table = pa.concat_tables([empty if wanted is None else empty.select(wanted), *tables])
    order = [(name, "ascending") for name in ("key", "step", "attempt", "rank", "seq")]
    table = table.sort_by(order)
    table = table if attempts else _visible(table, resumed)
    return table if columns is None else table.select(list(columns))


def _attempt_tables(
    layout: RunLayout,
    kind: str,
    attempt: int,
    columns: list[str] | None,
    problems: list[str] | None,
) -> list[pa.Table]:
    """Return what one attempt has of a kind; again from the start where a seal came between."""
    while True:
        told: list[str] = []
        strict = None if problems is None else told
        try:
            journals = media_journals(layout, attempt)
            tables = _sealed(layout, kind, attempt, columns, strict, without=journals)
            for (rank, _), path in journals.items():
                mine = [item for item in read_journal(path, strict) if item.kind == kind]
                table, bad = build_table(kind, mine, attempt=attempt, rank=rank)
                if bad:
                    told.append(f"{path.name}: {bad} records make no sense")
                tables.append(table if columns is None else table.select(columns))
        except FileNotFoundError:
            continue
        if problems is not None:
            problems.extend(told)
        return tables


def _sealed(
    layout: RunLayout,
    kind: str,
    attempt: int,
    columns: list[str] | None,
    problems: list[str] | None,
    *,
    without: Mapping[tuple[int, int], Path],
) -> list[pa.Table]:
    tables: list[pa.Table] = []
    for name in sorted(names_in(layout.media)):
        match = PART.fullmatch(name)
        if match is None or match[1] != kind or int(match[2]) != attempt:
            continue
        if (int(match[3]), int(match[4])) in without:
            continue
        try:
            tables.append(read_part(layout.media / name, kind, columns))
        except Corrupt as error:
            if problems is None:
                raise
            problems.append(error.message)
    return tables


def _visible(table: pa.Table, resumed: Mapping[int, int | None]) -> pa.Table:
    import pyarrow as pa

    keys, steps, attempts = (table[name].to_pylist() for name in ("key", "step", "attempt"))
    newest: dict[tuple[str, int], int] = {}
    for key, step, attempt in zip(keys, steps, attempts, strict=True):
        newest[key, step] = max(attempt, newest.get((key, step), 0))
    starts = [(number, start) for number, start in resumed.items() if start is not None]
    seen = [
        newest[key, step] == attempt
        and not any(attempt < number and step > start for number, start in starts)
        for key, step, attempt in zip(keys, steps, attempts, strict=True)
    ]
    return table.filter(pa.array(seen, pa.bool_()))


def media_keys(run_dir: Path, *, problems: list[str]) -> tuple[MediaKey, ...]:
    """Return what a run has, by kind and key; damaged files are named in `problems`."""
    found: list[MediaKey] = []
    for kind in KINDS if _has_any(RunLayout(run_dir)) else ():
        told: list[str] = []
        table = read_media(run_dir, kind, columns=["key", "step"], problems=told)
        problems.extend(item for item in told if item not in problems)
        steps: dict[str, list[int]] = {}
        for key, step in zip(table["key"].to_pylist(), table["step"].to_pylist(), strict=True):
            steps.setdefault(key, []).append(step)
        found += [
            MediaKey(kind=kind, key=key, count=len(at), first_step=at[0], last_step=at[-1])
            for key, at in steps.items()
        ]
    return tuple(found)


def _has_any(layout: RunLayout) -> bool:
    attempts = attempt_files.numbers(layout)
    return layout.media.is_dir() or any(media_journals(layout, number) for number in attempts)


def seal_journal(layout: RunLayout, path: Path, *, attempt: int, rank: int, number: int) -> None:
    """Turn a journal that nobody writes any more into files of media; it goes last.

    A torn end is kept as `.torn`; a damaged journal as `.damaged`, with what is wrong beside it.

    Raises:
        OSError: nothing was lost; the journal stands.
        Unsupported: a newer expdb wrote it.
    """
    try:
        reader = MediaReader(path)
        records = list(reader.records())
        problem, is_damaged = reader.problem(), reader.is_damaged
    except FileNotFoundError:
        return
    except Corrupt as error:
        records, problem, is_damaged = [], error.message, True
    write_parts(layout, records, attempt=attempt, rank=rank, number=number)
    if is_damaged:
        kept = path.with_name(f"{path.name}.damaged")
        write_json(kept.with_name(f"{kept.name}.json"), {"problem": problem})
        path.rename(kept)
    elif problem:
        path.rename(path.with_name(f"{path.name}.torn"))
    else:
        path.unlink()
