"""Checks a store, and mends what can be mended.

Invariant: a check writes nothing. A repair deletes nothing and leaves runs alone that are being
written; what could be read before can be read afterwards and is the same. It may be cut off at any
moment and done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from expdb.errors import ExpdbError
from expdb.store import attempts as attempt_files
from expdb.store.files import reason
from expdb.store.fsck import mend_files as files
from expdb.store.fsck import mend_points as parts
from expdb.store.fsck.curves import mend_curves
from expdb.store.fsck.files import size_of
from expdb.store.fsck.media import mend_media
from expdb.store.fsck.refs import check_refs, rebuild_refs
from expdb.store.fsck.report import Checked, Counts, Finding, Tick, relative, settled
from expdb.store.fsck.run import check_run, is_open
from expdb.store.fsck.trash import Trash
from expdb.store.layout import RunLayout, StoreLayout, is_passed_over
from expdb.store.new_run import is_left
from expdb.store.recover import needs_recovery, recover, run_lock
from expdb.store.runs import read_identity, run_dirs
from expdb.store.status import Status, read_status

OLD_S = 3600.0
"""Younger temporary files of the store may be in use."""
OURS = ".expdb"


def no_tick(done: int, total: int) -> None:
    """Tell nobody how far it is."""


def check_store(
    layout: StoreLayout, runs: Sequence[Path] | None = None, *, tick: Tick = no_tick
) -> Checked:
    """Check the named run folders, or all of the store: runs, refs, ops, what lies about."""
    out = Checked()
    every = [path for _, path, _ in run_dirs(layout.root)]
    folders = sorted(every) if runs is None else list(runs)
    for done, folder in enumerate(folders):
        tick(done, len(folders))
        out.add(_checked(layout, folder))
    tick(len(folders), len(folders))
    if runs is None:
        _note_twice(layout, folders, out)
        out.add(check_refs(layout, {RunLayout(path).id for path in every}))
        _note_strays(layout, out)
        _note_leftovers(layout, out)
    return out


def repair_store(
    layout: StoreLayout,
    found: Checked,
    runs: Sequence[Path] | None = None,
    *,
    trash: Trash,
    tick: Tick = no_tick,
) -> tuple[list[Finding], Checked, list[str]]:
    """Mend what `found` names, and seal what killed processes left.

    Returns the findings with what became of each, a check of what was touched, and the runs whose
    journals were sealed.

    Raises:
        OSError: the store cannot be written; what was done stands, and it can be done again.
    """
    every = [path for _, path, _ in run_dirs(layout.root)]
    folders = sorted(every) if runs is None else list(runs)
    bad = {item.run for item in found.problems if item.run}
    again, sealed = Checked(), []
    for done, folder in enumerate(folders):
        tick(done, len(folders))
        run = RunLayout(folder)
        was_open = _needs_recovery(run)
        if run.id in bad:
            mend_run(layout, folder, trash)
        else:
            _recover(layout, run)
        if was_open and not _needs_recovery(run):
            sealed.append(run.id)
        if run.id in bad or was_open:
            again.add(_checked(layout, folder))
    tick(len(folders), len(folders))
    if runs is None:
        rebuild_refs(layout, trash)
        _note_twice(layout, folders, again)
        again.add(check_refs(layout, {RunLayout(path).id for path in every}))
    again.counts = Counts()
    return settled(found.findings, again.findings, trash.moved), again, sealed


def mend_run(layout: StoreLayout, folder: Path, trash: Trash) -> None:
    """Mend one run; nothing is done where it is alive, or where nothing says what it is."""
    run = RunLayout(folder)
    try:
        read_identity(run)
        with run_lock(layout.root, run):
            if is_open(run, layout.root):
                return
            numbers = attempt_files.numbers(run)
            parts.mend_parts(run, numbers, _status(run), trash)
            files.mend_files(run, numbers, trash)
        if not _recover(layout, run):
            return
        with run_lock(layout.root, run):
            if is_open(run, layout.root) or attempt_files.numbers(run) != numbers:
                return
            parts.mend_journals(run, numbers, trash)
            mend_media(run, numbers, trash)
            files.mend_series(run, numbers, trash)
            mend_curves(run, numbers, trash)
            files.refresh_status(run)
    except (ExpdbError, PermissionError):
        return  # another process is at it, or it is newer: what is left is named by the next check


def _checked(layout: StoreLayout, folder: Path) -> Checked:
    try:
        return check_run(layout.root, folder)
    except OSError as error:
        named = Path(str(error.filename or folder))
        path = relative(named if named.is_relative_to(folder) else folder, layout.root)
        what = f"{Path(path).name} cannot be read: {reason(error)}"
        found = Finding(kind="damaged", what=what, path=path, run=RunLayout(folder).id)
        return Checked(counts=Counts(runs=1), findings=[found])


def _recover(layout: StoreLayout, run: RunLayout) -> bool:
    """Seal the journals of a run that is over; False where they cannot be."""
    try:
        recover(layout.root, run)
    except (ExpdbError, OSError):
        return False
    return True


def _needs_recovery(run: RunLayout) -> bool:
    try:
        return needs_recovery(run)
    except OSError:
        return False  # it cannot be looked into, and is named


def _status(run: RunLayout) -> Status | None:
    try:
        return read_status(run)
    except (ExpdbError, FileNotFoundError):
        return None


def _note_twice(layout: StoreLayout, folders: Iterable[Path], out: Checked) -> None:
    seen: dict[str, Path] = {}
    for folder in folders:
        run = RunLayout(folder).id
        if run in seen:
            what = f"run {run} is there twice; the other is in {seen[run].parent.name}"
            path = relative(folder, layout.root)
            out.findings.append(Finding(kind="damaged", what=what, path=path, run=run))
        seen.setdefault(run, folder)


def _note_strays(layout: StoreLayout, out: Checked) -> None:
    """Note what in the store's folder is not expdb's."""
    runs = {path for _, path, _ in run_dirs(layout.root)}
    for entry in _entries(layout.root):
        if entry.name == OURS or is_passed_over(entry.name):
            continue
        if not entry.name.startswith("exp=") or not entry.is_dir():
            _stray(layout, out, entry, "not expdb's, left alone")
            continue
        inside = [
            path
            for path in _entries(entry)
            if not (path.name.startswith(".tmp-") or is_passed_over(path.name))
        ]
        others = [path for path in inside if path not in runs]
        if others and len(others) == len(inside):
            _stray(layout, out, entry, "no run.json: not expdb's, left alone")
        else:
            for path in others:
                _stray(layout, out, path, "no run.json: not expdb's, left alone")


def _stray(layout: StoreLayout, out: Checked, path: Path, what: str) -> None:
    found = Finding(kind="stray", what=what, path=relative(path, layout.root))
    out.findings.append(found)


def _note_leftovers(layout: StoreLayout, out: Checked) -> None:
    now = attempt_files.store_now(layout.meta)
    homes = [path for path in _entries(layout.root) if path.name.startswith("exp=")]
    own = (
        layout.meta,
        layout.refs,
        layout.index,
        layout.locks,
        layout.trash,
        *_entries(layout.ops),
    )
    for folder in (*own, *homes):
        for path in _entries(folder):
            if not path.name.startswith(".tmp-"):
                continue
            if is_left(path) or now - path.lstat().st_mtime > OLD_S:
                what = f"cut off when it was written, {size_of(path):,} bytes"
                where = relative(path, layout.root)
                out.findings.append(Finding(kind="leftover", what=what, path=where))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
