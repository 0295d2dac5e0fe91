"""The trash of a store: whole run folders, out of sight of every reader until they come back.

    .expdb/trash/<run id>/        the run folder as it was
    .expdb/trash/<run id>.json    {"format", "needs", "run", "name", "path", "bytes", "op",
                                   "removed_at_ms"}
    .expdb/trash/<run id>~2/      another one of that id, imported again and removed again

Invariant: a run moves by one rename, there and back, so that it is in the store or in the trash,
whole in either. The file beside it is written before and removed after; alone it means nothing.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import BadInput, Corrupt, Refused
from expdb.model import FORMAT, NEEDS
from expdb.store import files
from expdb.store.ids import is_id
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.status import sizes

FOLDER = re.compile(r"exp=[^/\0]+")
PLACE = re.compile(r"([^~]+)(?:~[1-9][0-9]*)?")
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Trashed:
    """One run in the trash."""

    run: str
    name: str
    """The experiment with its variant; the id where nothing says it."""
    path: str
    """Where it came from, relative to the store, with forward slashes; empty when unknown."""
    bytes: int
    op: str
    removed_at_ms: int
    place: str
    """The name of its folder in the trash: the id, `<id>~2` where that was taken."""


def put(layout: StoreLayout, run_dir: Path, *, name: str, op: str) -> None:
    """Move a run folder into the trash.

    Raises:
        OSError: it cannot be moved; it is where it was.
    """
    run = RunLayout(run_dir).id
    if not layout.trash.is_dir():
        files.make_dir(layout.trash)
    body = {
        "format": FORMAT,
        "needs": NEEDS,
        "run": run,
        "name": name,
        "path": run_dir.relative_to(layout.root).as_posix(),
        "bytes": size_of(run_dir),
        "op": op,
        "removed_at_ms": time.time_ns() // 1_000_000,
    }
    place, number = run, 1
    while (layout.trash / place).exists():
        number += 1
        place = f"{run}~{number}"
    files.write_json(_note(layout, place), body)
    run_dir.rename(layout.trash / place)
    files.fsync_dir(layout.trash)
    files.fsync_dir(run_dir.parent)


def take_out(layout: StoreLayout, entry: Trashed) -> Path:
    """Move a run folder back to where it came from, and return it.

    Raises:
        Refused: a run of that id is in the store.
        Corrupt: nothing says where it came from.
        OSError: it cannot be moved; it is where it was.
    """
    target = _home(layout, entry)
    if target.exists():
        raise Refused(
            f"run {entry.run} is in the store again; the one in the trash stays there",
            hint=f"remove that one first: expdb rm {entry.run}",
        )
    if not target.parent.is_dir():
        files.make_dir(target.parent)
    (layout.trash / entry.place).rename(target)
    files.fsync_dir(target.parent)
    files.fsync_dir(layout.trash)
    _note(layout, entry.place).unlink(missing_ok=True)
    return target


def drop(layout: StoreLayout, entry: Trashed) -> None:
    """Delete a run of the trash that the store has again, byte for byte.

    Raises:
        OSError: it cannot be deleted.
    """
    folder = layout.trash / entry.place
    temp = files.temp_path(folder)
    folder.rename(temp)
    _note(layout, entry.place).unlink(missing_ok=True)
    shutil.rmtree(temp)


def difference(layout: StoreLayout, entry: Trashed, run_dir: Path) -> str:
    """Return the first path in which a run of the trash differs from a folder; empty for none.

    Raises:
        OSError: a file cannot be read.
    """
    mine, theirs = _files(layout.trash / entry.place), _files(run_dir)
    for name in sorted({*mine, *theirs}):
        if name not in mine or name not in theirs or not _are_same(mine[name], theirs[name]):
            return name
    return ""


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}


def _are_same(one: Path, other: Path) -> bool:
    if one.is_symlink() or other.is_symlink():
        return False
    if one.is_dir() or other.is_dir():
        return one.is_dir() and other.is_dir()
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        while chunk := left.read(CHUNK):
            if chunk != right.read(CHUNK):
                return False
    return True


def entries(layout: StoreLayout) -> list[Trashed]:
    """Return what is in the trash, the newest first."""
    try:
        names = sorted(path.name for path in layout.trash.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
    found = [
        _entry(layout, name)
        for name in names
        if (match := PLACE.fullmatch(name)) and is_id(match[1])
    ]
    return sorted(found, key=lambda one: (one.removed_at_ms, one.run), reverse=True)


def size_of(run_dir: Path) -> int:
    """Return the bytes of all files of a run folder."""
    return sum(sizes(run_dir).values())


def _note(layout: StoreLayout, place: str) -> Path:
    return layout.trash / f"{place}.json"


def _entry(layout: StoreLayout, place: str) -> Trashed:
    folder, run = layout.trash / place, place.partition("~")[0]
    try:
        data = files.read_json(_note(layout, place))
    except (FileNotFoundError, Corrupt):
        data = {}
    when, size = data.get("removed_at_ms"), data.get("bytes")
    return Trashed(
        run=run,
        name=_text(data, "name") or _name(folder) or run,
        path=_text(data, "path"),
        bytes=size if isinstance(size, int) else size_of(folder),
        op=_text(data, "op"),
        removed_at_ms=when if isinstance(when, int) else int(folder.stat().st_ctime * 1000),
        place=place,
    )


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _name(folder: Path) -> str:
    data = _identity(folder)
    return _text(data, "experiment") + _text(data, "variant")


def _identity(folder: Path) -> dict[str, Any]:
    try:
        return files.read_json(RunLayout(folder).run_json)
    except (FileNotFoundError, NotADirectoryError, Corrupt):
        return {}


def _home(layout: StoreLayout, entry: Trashed) -> Path:
    """Return where a run of the trash belongs: as noted if that is a place for runs, else by its
    experiment.

    Raises:
        Corrupt: neither can be told.
    """
    folder, _, name = entry.path.partition("/")
    if FOLDER.fullmatch(folder) and name == f"run={entry.run}":
        return layout.root / folder / name
    experiment = _text(_identity(layout.trash / entry.place), "experiment")
    try:
        return layout.run_dir(experiment, entry.run)
    except BadInput:
        raise Corrupt(
            f"nothing says which experiment run {entry.run} of the trash is of",
            hint=f"the folder: {layout.trash / entry.place}",
        ) from None
