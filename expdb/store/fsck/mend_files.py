"""Mends the other files of a run that is over: pins, records, checkpoints, status, summaries.

Invariant: the holder of the run's lock calls this; what is replaced has a copy in the trash first.
Lines that others may append to a file at this moment are never lost: a damaged line is blanked in
place, the file is not rewritten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from expdb.digest import leaves
from expdb.errors import Corrupt
from expdb.model import Attempt, Pin
from expdb.store import attempts as attempt_files
from expdb.store import checkpoints, records, series, writers
from expdb.store.files import read_json, write_json
from expdb.store.fsck.checkpoints import checkpoint_damage
from expdb.store.fsck.files import (
    EVIDENCE,
    FIXED,
    differing,
    line_files,
    owner_files,
)
from expdb.store.fsck.trash import Trash
from expdb.store.layout import RunLayout
from expdb.store.recover import count_again, left_journals, recount
from expdb.store.runs import read_identity
from expdb.store.status import Status, read_status, sizes, write_status

UNPINNED = "its pin.json was damaged and set aside by fsck"
UNKNOWN_END = "its status.json was damaged: how it ended is not known"


def mend_files(layout: RunLayout, numbers: Sequence[int], trash: Trash) -> None:
    """Mend what does not depend on the points."""
    _mend_pins(layout, numbers, trash)
    for path, _ in owner_files(layout, numbers):
        trash.move(path)
    _mend_config(layout, trash)
    problems: list[str] = []
    records.read_evals(layout, problems)
    for line in problems:
        name = line.removesuffix(" is damaged")
        if name != line:
            trash.move(layout.root / name)
    for path, read in line_files(layout):
        problems = []
        read(layout, problems)
        if problems and trash.copy(path) and path.is_file():
            blank_lines(path, [_line_of(line) for line in problems])
    for step in checkpoints.steps(layout):
        found = checkpoint_damage(layout, step)
        if found and not any(said.startswith("needs ") for _, said in found):
            trash.move(layout.checkpoint(step))
    _mend_status(layout, numbers, trash)
    try:
        series.load(layout.series_json)
    except Corrupt:
        trash.copy(layout.series_json)  # a recovery writes it anew


def mend_series(layout: RunLayout, numbers: Sequence[int], trash: Trash) -> None:
    """Count the series again where series.json is not what the points say."""
    if any(left_journals(layout, number) for number in numbers):
        return
    last = max(numbers, default=0)
    others = writers.sealed_through(layout, last)
    try:
        saved = series.load(layout.series_json)
    except Corrupt:
        recount(layout, through_seq=others)
        return
    missing: list[str] = []
    counted = count_again(layout, problems=missing)
    is_due = not layout.series_json.exists() and bool(counted.series)
    is_due |= any(seq > saved.through(last, rank) for rank, seq in others.items())
    if is_due or differing(saved.series, counted.series) or (saved.unordered and not missing):
        trash.copy(layout.series_json)
        recount(layout, through_seq=others)


def refresh_status(layout: RunLayout) -> None:
    """Let status.json list the files as they are now.

    A file of which only the size is known keeps its line: that is all that tells of its damage.
    """
    try:
        status = read_status(layout)
    except (FileNotFoundError, Corrupt):
        return
    now = sizes(layout.root)
    told = [name for name in status.files if FIXED.fullmatch(name)]
    if any(now.get(name) != status.files[name] for name in told):
        return
    if status.state != "running" and status.files != now:
        write_status(layout, status)


def blank_lines(path: Path, lines: Sequence[int]) -> None:
    """Overwrite lines of a file, counted from 1, with empty ones of the same length."""
    wanted = set(lines)
    with path.open("r+b") as file:
        data = file.read()
        at = 0
        for number, content in enumerate(data.split(b"\n"), start=1):
            if number in wanted:
                file.seek(at)
                file.write(b"\n" * len(content))
            at += len(content) + 1
        file.flush()
        os.fsync(file.fileno())


def _line_of(problem: str) -> int:
    """Return the number in `marks.jsonl: line 3 is damaged`; 0 in anything else."""
    word = problem.partition(": line ")[2].partition(" ")[0]
    return int(word) if word.isdigit() else 0


def _mend_pins(layout: RunLayout, numbers: Sequence[int], trash: Trash) -> None:
    for number in numbers:
        try:
            attempt_files.read_pin(layout, number)
        except Corrupt:
            if trash.copy(layout.attempt(number) / "pin.json"):
                pin = Pin(reproducible=False, reasons=(UNPINNED,))
                attempt_files.write_pin(layout, Attempt(number=number, pin=pin))


def _mend_config(layout: RunLayout, trash: Trash) -> None:
    canonical = read_identity(layout).get("canonical")
    try:
        wanted = leaves(canonical) if isinstance(canonical, str) else None
        found = read_json(layout.config_json) if wanted is not None else None
    except Corrupt:
        found = None
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return
    if wanted is not None and found != wanted and trash.copy(layout.config_json):
        write_json(layout.config_json, wanted)


def _mend_status(layout: RunLayout, numbers: Sequence[int], trash: Trash) -> None:
    """Write a status where none can be read; what it was can only be told from the other files."""
    try:
        read_status(layout)
        return
    except FileNotFoundError:
        if not any((layout.root / name).exists() for name in EVIDENCE):
            return  # the recovery records its death
    except Corrupt:
        if not trash.copy(layout.status_json):
            return
    steps = [item.last_step for item in count_again(layout, problems=[]).series.values()]
    write_status(
        layout,
        Status(
            state="crashed",
            reason=UNKNOWN_END,
            attempt=max(numbers, default=1),
            last_step=max(steps, default=None),
            ended_at_ms=_last_written_ms(layout),
        ),
    )


def _last_written_ms(layout: RunLayout) -> int:
    folders = [layout.root, layout.points, layout.checkpoints]
    times = [folder.stat().st_mtime for folder in folders if folder.is_dir()]
    return int(max(times) * 1000)
