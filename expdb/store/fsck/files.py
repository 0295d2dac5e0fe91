"""Checks of a run's other files: identity, status, pins, records, checkpoints, summaries.

Invariant: nothing is written. A file that is replaced whole while a run lives is read as any reader
reads it; what only makes sense once a run is over is checked only then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from expdb.digest import leaves
from expdb.errors import Corrupt
from expdb.model import Series
from expdb.store import attempts as attempt_files
from expdb.store import records, series
from expdb.store.artifacts import read_artifacts
from expdb.store.files import read_json
from expdb.store.fsck.report import Notes
from expdb.store.layout import RunLayout
from expdb.store.points import is_short, journals
from expdb.store.recover import count_again, left_journals
from expdb.store.status import Status, read_status

CHECKED = re.compile(
    r"(points|checkpoints|evals|media|artifacts)/.*|config\.json|attempts/\d+/rank-[^/]*\.damaged(\.json)?"
)
"""Listed files that are there for as long as they are listed, and have a check of their own."""
FIXED = re.compile(r"run\.json|(config|unresolved|overrides)\.yaml")
"""The same, of which nothing but their size is known."""
POINTS = re.compile(r"/(points/[^/]*|attempts/\d+/rank-[^/]*)$")
EVIDENCE = ("series.json", "points", "checkpoints", "evals", "events.jsonl")
"""What is only written after a run has its first status."""


def check_pins(layout: RunLayout, numbers: Sequence[int], notes: Notes) -> None:
    """Note attempts whose pin cannot be read."""
    for number in numbers:
        try:
            attempt_files.read_pin(layout, number)
        except Corrupt as error:
            said = f"{error.message}; which code ran is not known any more"
            notes.say("damaged", f"attempts/{number}/pin.json", said, can_mend=True)


def owner_files(layout: RunLayout, numbers: Sequence[int]) -> list[tuple[Path, str]]:
    """Return the owner files of attempts and ranks that cannot be read, each with why."""
    found = []
    for number in numbers:
        folder = layout.attempt(number)
        for path in (folder / "owner.json", *sorted(folder.glob("rank-*.owner.json"))):
            try:
                read_json(path)
            except (FileNotFoundError, NotADirectoryError):
                continue  # of a run that was imported
            except Corrupt as error:
                found.append((path, error.message))
    return found


def check_owners(layout: RunLayout, numbers: Sequence[int], notes: Notes, *, is_live: bool) -> None:
    """Note owner files that cannot be read."""
    for path, why in owner_files(layout, numbers):
        name = path.relative_to(layout.root).as_posix()
        said = f"{why}; which process wrote here is not known any more"
        notes.say("damaged", name, said, can_mend=not is_live)


def check_status(layout: RunLayout, notes: Notes, *, is_live: bool) -> Status | None:
    """Return the status of a run where it can be read, and note what is wrong with it."""
    try:
        return read_status(layout)
    except Corrupt as error:
        notes.say("damaged", "status.json", error.message, can_mend=not is_live)
    except FileNotFoundError:
        if not is_live and any((layout.root / name).exists() for name in EVIDENCE):
            notes.say("missing", "status.json", "status.json: how it ended is not known any more",
                      can_mend=True)  # fmt: skip
    return None


def check_listed(layout: RunLayout, status: Status, notes: Notes, *, said: set[str]) -> None:
    """Note files of a run that is over which status.json lists, and which are not as listed.

    `said` are the paths that other checks have named already.
    """
    wrong: list[str] = []
    for name, size in sorted(status.files.items()):
        is_checked = CHECKED.fullmatch(name) is not None
        if not (is_checked or FIXED.fullmatch(name)) or _is_said(name, said):
            continue
        try:
            now = (layout.root / name).lstat().st_size
        except (OSError, ValueError):
            wrong.append(f"{name}, which is not there")
            continue
        if now != size and is_checked:
            wrong.append(f"{name} with {size:,} bytes, it has {now:,}")
        elif now != size:
            notes.say("damaged", name, f"{name} has {now:,} of {size:,} bytes")
    if wrong:
        more = f" (and {len(wrong) - 1:,} more)" if len(wrong) > 1 else ""
        what = f"status.json lists {wrong[0]}{more}"
        notes.say("damaged", "status.json", what, can_mend=True)


def _is_said(name: str, said: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}/") for one in said)


def check_config(layout: RunLayout, canonical: str, notes: Notes) -> None:
    """Note a config.json that is not the config of run.json."""
    try:
        found = read_json(layout.config_json)
    except Corrupt as error:
        notes.say("damaged", "config.json", error.message, can_mend=True)
        return
    except (FileNotFoundError, NotADirectoryError):
        return  # not every writer makes one; run.json has it all
    if found != leaves(canonical):
        notes.say("damaged", "config.json", "config.json: not the config that run.json holds",
                  can_mend=True)  # fmt: skip


def check_records(layout: RunLayout, notes: Notes, *, is_live: bool) -> None:
    """Note damaged lines of marks, events and artifacts, and damaged evals."""
    for path, read in line_files(layout):
        problems: list[str] = []
        read(layout, problems)
        if problems:
            more = f" (and {len(problems) - 1:,} more lines)" if len(problems) > 1 else ""
            notes.say("damaged", path.name, f"{problems[0]}{more}", can_mend=not is_live)
    problems = []
    records.read_evals(layout, problems)
    for line in problems:
        name = line.removesuffix(" is damaged")
        notes.say("damaged", name if name != line else "evals", line, can_mend=name != line)


def line_files(
    layout: RunLayout,
) -> tuple[tuple[Path, Callable[[RunLayout, list[str]], object]], ...]:
    """Return the files of lines that are appended, each with its reader."""
    return (
        (layout.marks, records.read_marks),
        (layout.events, records.read_events),
        (layout.artifacts_jsonl, read_artifacts),
    )


def check_series(layout: RunLayout, numbers: Sequence[int], notes: Notes) -> None:
    """Note a series.json of a run that is over which is not what the points say."""
    if any(left_journals(layout, number) for number in numbers):
        _check_short(layout, numbers[-1], notes)
        return  # journals stand: a recovery counts anew
    path = layout.series_json
    try:
        saved = series.load(path)
    except Corrupt as error:
        notes.say("damaged", path.name, error.message, can_mend=True)
        return
    missing: list[str] = []
    counted = count_again(layout, problems=missing)
    if missing or any(POINTS.search(item.path) for item in notes.found):
        return  # lists or parts are named: their points cannot be counted now
    if not path.exists():
        if counted.series:
            notes.say("missing", path.name, "series.json: there are points to count", can_mend=True)
        return
    wrong = differing(saved.series, counted.series)
    if wrong:
        more = f" and {len(wrong) - 1:,} more series" if len(wrong) > 1 else ""
        key = wrong[0]
        told, real = saved.series.get(key), counted.series.get(key)
        said = f"{0 if told is None else told.count:,} points, there are " + (
            f"{0 if real is None else real.count:,}"
        )
        if told is not None and real is not None and told.count == real.count:
            said = "other values than its points"
        what = f"series.json: {key} has {said}{more}"
        notes.say("damaged", path.name, what, can_mend=True)
    elif saved.unordered:
        what = f"series.json: {len(saved.unordered)} series were not counted from all their points"
        notes.say("damaged", path.name, what, can_mend=True)


def _check_short(layout: RunLayout, attempt: int, notes: Notes) -> None:
    """Note a journal that ends before the points that series.json counts."""
    try:
        after = series.load(layout.series_json).through(attempt, 0)
    except Corrupt:
        return  # named by what reads it
    if not after or not is_short(layout, attempt, after):
        return
    names = [path.name for path in journals(layout, attempt).get(0, ())]
    name = names[-1] if names else layout.parts_list(attempt, 0).name
    what = f"{name} ends before frame {after:,}, up to which series.json counts"
    notes.say("damaged", f"attempts/{attempt}/{name}", what, can_mend=True)


def differing(saved: Mapping[str, Series], counted: Mapping[str, Series]) -> list[str]:
    """Return the keys whose summaries differ; NaN equals NaN, and 0.0 is not -0.0."""
    return [
        key for key in sorted({*saved, *counted}) if repr(saved.get(key)) != repr(counted.get(key))
    ]


def check_leftovers(layout: RunLayout, notes: Notes) -> None:
    """Note what a writer that died has left unfinished."""
    for folder, _, names in _walk(layout.root):
        for name in names:
            if name.startswith(".tmp-"):
                where = (folder / name).relative_to(layout.root).as_posix()
                what = f"cut off when it was written, {size_of(folder / name):,} bytes"
                notes.say("leftover", where, what)


def _walk(root: Path) -> list[tuple[Path, list[str], list[str]]]:
    """Return (folder, its folders, all its names) below a run folder, not into leftovers."""
    out = []
    for folder, folders, files in os.walk(root):
        names = sorted([*folders, *files])
        folders[:] = [name for name in folders if not name.startswith(".tmp-")]
        out.append((Path(folder), folders, names))
    return out


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    try:
        if not path.is_dir():
            return path.stat().st_size
        return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
    except OSError:
        return 0  # gone meanwhile
