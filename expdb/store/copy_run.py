"""A run brought to another place: as a whole under its name, or file by file where it is already.

    new       exp=<experiment>/.tmp-run=<id>-<tag>   then its name, when every file is synced
    update    parts, media, evaluations, checkpoints, artifacts -> attempts -> lists of parts
              -> lines -> series.json -> status.json

Invariant: whoever reads the place at any moment sees the run as it was or as it is, or on a step
between that training itself goes through. A kill leaves temporary names, which the next try takes
up; of an update it leaves `.tmp-update-<tag>`, which says that summaries are still to come.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from expdb.errors import Conflict, Corrupt, Refused
from expdb.store import checkpoints
from expdb.store.files import fsync_dir, read_regular, write_bytes
from expdb.store.layout import RunLayout
from expdb.store.marks import append_lines
from expdb.store.parts import read_folded, read_list, write_list
from expdb.store.records import CUT_OFF
from expdb.store.remote_place import is_folder, require_folder
from expdb.store.run_files import TEMP, UPDATE, Files, copy_tree, list_files, no_tick, put_file
from expdb.store.run_merge import CHECKPOINT, Update, kind_of, plan_update
from expdb.store.run_parted import Sides
from expdb.store.status import read_status, sizes, write_status

Outcome = Literal["new", "updated", "same", "behind"]
"""`behind`: the other place has more of it, and nothing was missing there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How copies are made."""

    tag: str
    """Names who copies: an id of a store or of a remote."""
    sides: Sides
    verifies: bool = False
    """Whether each file of a checkpoint has to have the SHA-256 of its manifest."""
    is_shared: bool = False
    """Whether others may append to lines there: then they are appended, else the file replaced."""
    tick: Callable[[int], None] = no_tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What became of a run, or would become of it."""

    outcome: Outcome
    bytes: int = 0
    kept: tuple[str, ...] = ()
    """Files that are not expdb's, differ, and were left as they are there."""


def is_same(home: Path, files: Files, tag: str) -> bool:
    """Tell whether a run has the same files at `home`, by a look at sizes and times."""
    if not is_folder(home) or is_unfinished(RunLayout(home), tag):
        return False
    return list_files(home) == files


def bring(
    src: RunLayout, home: Path, files: Files, way: Way, *, wants_old: bool, dry_run: bool
) -> Brought:
    """Bring a run to `home`, where it may be already; with `dry_run` nothing is written.

    `wants_old` is `wants_old_checkpoints` of `plan_update`.

    Raises:
        Refused: sealed content differs, or something is in the way; nothing of it was changed.
        Conflict, Corrupt, OSError: as `copy_new` and `carry_out`.
    """
    if not os.path.lexists(home):
        if not dry_run:
            copy_new(src, home, files, way)
        return Brought(outcome="new", bytes=size_of(files))
    if not is_folder(home):
        raise Refused(f"{home.name} is no folder there: a link, or a file")
    dst = RunLayout(home)
    theirs, is_open = list_files(home), is_unfinished(dst, way.tag)
    update = plan_update(src, dst, files, theirs, wants_old_checkpoints=wants_old, sides=way.sides)
    if update.is_empty and not is_open:
        outcome: Outcome = "behind" if update.is_behind else "same"
        return Brought(outcome=outcome, kept=tuple(update.kept))
    if not dry_run:
        carry_out(src, dst, files, update, way)
    return Brought(outcome="updated", bytes=update_size(files, update), kept=tuple(update.kept))


def copy_new(src: RunLayout, home: Path, files: Files, way: Way) -> None:
    """Copy a run to `home`, which does not exist; files that were folded into others stay behind.

    Raises:
        Conflict: it changed meanwhile, or is there now.
        Corrupt: a checkpoint is damaged, or a list.
        Refused: a link stands where a folder has to be; OSError: it cannot be copied.
    """
    require_folder(home.parent)
    folded = _folded(src, files)
    wanted = {path: at for path, at in files.items() if path not in folded}
    temp = RunLayout(home.with_name(f"{TEMP}{home.name}-{way.tag}"))
    with _no_trace(temp.root):
        copy_tree(src.root, temp.root, wanted, sums=_sums(src, files, way), tick=way.tick)
    if folded:
        for path in (path for path in wanted if kind_of(path) == "list"):
            write_list(temp.root / path, read_list(temp.root / path))
        write_status(temp, read_status(temp))
    _require_unchanged(src, files)
    try:
        temp.root.rename(home)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise Conflict(f"run {src.id} has appeared there meanwhile", hint="again") from error
    fsync_dir(home.parent)


def size_of(files: Files) -> int:
    """Return the bytes of files."""
    return sum(at.size for at in files.values())


def update_size(files: Files, update: Update) -> int:
    """Return the bytes that an update copies."""
    whole = {*update.files, *update.parts, *update.logs, *update.lists}
    folders = tuple(f"attempts/{number}/" for number in update.attempts)
    folders += tuple(f"checkpoints/step={step}/" for step in update.checkpoints)
    named = sum(
        at.size
        for path, at in files.items()
        if path in whole or (bool(folders) and path.startswith(folders))
    )
    return named + sum(map(len, update.lines.values()))


def is_unfinished(dst: RunLayout, tag: str) -> bool:
    """Tell whether an update of a run was cut off."""
    return os.path.lexists(_mark(dst, tag))


def carry_out(src: RunLayout, dst: RunLayout, files: Files, update: Update, way: Way) -> None:
    """Bring what a plan names.

    Raises:
        Conflict, Corrupt, OSError: as `copy_new`; it goes on with the next try.
    """
    digests = _sums(src, {path: files[path] for path in update.files}, way)

    def put(path: str) -> None:
        sha256 = digests.get(path)
        put_file(src.root / path, dst.root / path, files[path], tag=way.tag, sha256=sha256)
        way.tick(files[path].size)

    mark = _mark(dst, way.tag)
    was_cut_off = os.path.lexists(mark)
    for step in update.checkpoints:  # all are looked at before anything is changed
        _copy_checkpoint(src, dst, files, step, way)
    mark.touch()
    sums = [path for path in update.files if kind_of(path) == "derived"]
    for path in (*update.parts, *sorted({*update.files} - {*sums}, key=_items_first)):
        put(path)
    for step in update.checkpoints:
        checkpoints.put_in_place(dst, step)
    _require_unchanged(src, files)
    for number in update.attempts:
        _put_folder(src, dst, files, f"attempts/{number}", way)
    for path in update.lists:
        if read_folded(src.root / path):
            write_list(dst.root / path, read_list(src.root / path))
        else:
            put(path)
    for path in (*sums, *update.logs):
        put(path)
    for path, lines in update.lines.items():
        _append(dst.root / path, lines, is_shared=way.is_shared)
        way.tick(len(lines))
    if update.is_ahead or (was_cut_off and not update.is_behind):
        _put_summaries(dst, files, put)
    _put_status(src, dst, is_ahead=not update.is_behind, put=put)
    mark.unlink()


def clear_leftovers(folder: Path, tag: str, *, but: Collection[str]) -> None:
    """Remove what a kill left of copies into the folder of an experiment, of runs that are there
    now or that are none of `but`.
    """
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names only
    except OSError:
        return
    for name in names:
        run = name.removeprefix(f"{TEMP}run=").removesuffix(f"-{tag}")
        if name == f"{TEMP}run={run}-{tag}" and (run not in but or f"run={run}" in names):
            shutil.rmtree(folder / name, ignore_errors=True)


def _mark(dst: RunLayout, tag: str) -> Path:
    return dst.root / f"{UPDATE}{tag}"


def _items_first(path: str) -> tuple[bool, str]:
    return path.endswith(".json"), path


def _folded(src: RunLayout, files: Files) -> set[str]:
    lists = [src.root / path for path in files if kind_of(path) == "list"]
    named = {entry.file for path in lists for entry in read_list(path)}
    gone = {Path(name).name for path in lists for name in read_folded(path)} - named
    return {f"points/{name}" for name in gone}


def _sums(src: RunLayout, files: Files, way: Way) -> dict[str, str]:
    """Return the sums that files of checkpoints have to have.

    Raises:
        Corrupt: a checkpoint is not whole.
    """
    found: dict[str, str] = {}
    if not way.verifies:
        return found
    for step in sorted({int(match[1]) for path in files if (match := CHECKPOINT.fullmatch(path))}):
        here = checkpoints.read_checkpoint(src, step)
        if not here.complete:
            raise Corrupt(f"checkpoint {step} is damaged: {here.problem}")
        for name, known in here.files.items():
            found[f"checkpoints/step={step}/{name}"] = str(known["sha256"])
    return found


def _require_unchanged(src: RunLayout, files: Files) -> None:
    try:
        now = list_files(src.root)
    except FileNotFoundError:
        now = {}
    if now != files:
        raise Conflict("it changed while it was copied", hint="again")


def _put_folder(src: RunLayout, dst: RunLayout, files: Files, folder: str, way: Way) -> Path:
    """Copy a folder of a run under a temporary name, give it its own, and return it."""
    home = dst.root / folder
    temp = home.with_name(f"{TEMP}{home.name}-{way.tag}")
    _copy_folder(src, files, folder, temp, way)
    temp.rename(home)
    fsync_dir(home.parent)
    return home


def _copy_folder(src: RunLayout, files: Files, folder: str, temp: Path, way: Way) -> None:
    below = {
        path.removeprefix(f"{folder}/"): at
        for path, at in files.items()
        if path.startswith(f"{folder}/")
    }
    sums = {
        path.removeprefix(f"{folder}/"): found for path, found in _sums(src, files, way).items()
    }
    temp.parent.mkdir(exist_ok=True)
    copy_tree(src.root / folder, temp, below, sums=sums, tick=way.tick)


def _copy_checkpoint(src: RunLayout, dst: RunLayout, files: Files, step: int, way: Way) -> None:
    """Copy a checkpoint under its temporary name; one of this step may be there, as where a later
    attempt has saved the step again.
    """
    temp = checkpoints.temp_dir(dst, step)
    with _no_trace(temp):
        _copy_folder(src, files, f"checkpoints/step={step}", temp, way)


@contextmanager
def _no_trace(temp: Path) -> Iterator[None]:
    """Remove a copy of what turns out to be unfit; one that is only cut off stays for the next."""
    try:
        yield
    except (Corrupt, Refused):
        shutil.rmtree(temp, ignore_errors=True)
        raise


def _append(path: Path, lines: bytes, *, is_shared: bool) -> None:
    """Add lines to a file: by one write where others may do so too, else by a rename."""
    if is_shared:
        append_lines(path, lines, durable=True)
        return
    old = read_regular(path) if path.exists() else b""
    is_cut = bool(old) and not old.endswith(b"\n")
    write_bytes(path, old + (CUT_OFF.encode() + b"\n" if is_cut else b"") + lines)


def _put_summaries(dst: RunLayout, files: Files, put: Callable[[str], None]) -> None:
    """Bring what sums up points: of ranks, then of the run."""
    last = ("series.json", "status.json")
    found = [path for path in files if kind_of(path) == "derived" and path not in last]
    for path in found:
        if (dst.root / path).parent.is_dir():
            put(path)
    if "series.json" in files:
        put("series.json")


def _put_status(
    src: RunLayout, dst: RunLayout, *, is_ahead: bool, put: Callable[[str], None]
) -> None:
    """Bring status.json, or let that of `dst` list the files there are now."""
    if is_ahead and sizes(src.root) == sizes(dst.root):
        put("status.json")
        return
    newest = read_status(src if is_ahead else dst)
    write_status(dst, newest)
