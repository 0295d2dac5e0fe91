"""The trash of a store: whole run folders, out of sight of every reader until they come back.

    .expdb/trash/<run id>/        the run folder as it was
    .expdb/trash/<run id>.json    {"format", "needs", "run", "name", "path", "bytes", "op",
                                   "removed_at_ms"}

Invariant: a run moves by one rename, there and back, so that it is in the store or in the trash,
whole in either. The file beside it is written before and removed after; alone it means nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import BadInput, Corrupt, NotFound, Refused
from expdb.model import FORMAT, NEEDS
from expdb.store import files
from expdb.store.ids import is_id
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.status import sizes

FOLDER = re.compile(r"exp=[^/\0]+")


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


def put(layout: StoreLayout, run_dir: Path, *, name: str, op: str) -> None:
    """Move a run folder into the trash.

    Raises:
        Refused: a run of that id is there already.
        OSError: it cannot be moved; it is where it was.
    """
    run = RunLayout(run_dir).id
    target = layout.trash / run
    require_room(layout, run)
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
    files.write_json(_note(layout, run), body)
    run_dir.rename(target)
    files.fsync_dir(layout.trash)
    files.fsync_dir(run_dir.parent)


def take_out(layout: StoreLayout, run: str) -> Path:
    """Move a run folder back to where it came from, and return it.

    Raises:
        NotFound: it is not in the trash.
        Refused: a run of that id is in the store.
        Corrupt: nothing says where it came from.
        OSError: it cannot be moved; it is where it was.
    """
    entry = find(layout, run)
    target = _home(layout, entry)
    if target.exists():
        raise Refused(
            f"run {run} is in the store again; the one in the trash stays there",
            hint=f"look at both: expdb show {run}",
        )
    if not target.parent.is_dir():
        files.make_dir(target.parent)
    (layout.trash / run).rename(target)
    files.fsync_dir(target.parent)
    files.fsync_dir(layout.trash)
    _note(layout, run).unlink(missing_ok=True)
    return target


def entries(layout: StoreLayout) -> list[Trashed]:
    """Return what is in the trash, the newest first."""
    try:
        names = sorted(path.name for path in layout.trash.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
    found = [_entry(layout, name) for name in names if is_id(name)]
    return sorted(found, key=lambda one: (one.removed_at_ms, one.run), reverse=True)


def find(layout: StoreLayout, run: str) -> Trashed:
    """Return one run of the trash by its full id.

    Raises:
        NotFound: it is not there.
    """
    if not is_id(run) or not (layout.trash / run).is_dir():
        raise NotFound(f"run {run} is not in the trash", hint="expdb rm --list")
    return _entry(layout, run)


def require_room(layout: StoreLayout, run: str) -> None:
    """Refuse where the trash has a run of that id.

    Raises:
        Refused: it has.
    """
    if (layout.trash / run).exists():
        raise Refused(
            f"another run {run} is in the trash already; nothing written",
            hint="expdb rm --list",
        )


def size_of(run_dir: Path) -> int:
    """Return the bytes of all files of a run folder."""
    return sum(sizes(run_dir).values())


def _note(layout: StoreLayout, run: str) -> Path:
    return layout.trash / f"{run}.json"


def _entry(layout: StoreLayout, run: str) -> Trashed:
    folder = layout.trash / run
    try:
        data = files.read_json(_note(layout, run))
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
    experiment = _text(_identity(layout.trash / entry.run), "experiment")
    try:
        return layout.run_dir(experiment, entry.run)
    except BadInput:
        raise Corrupt(
            f"nothing says which experiment run {entry.run} of the trash is of",
            hint=f"the folder: {layout.trash / entry.run}",
        ) from None
