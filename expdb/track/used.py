"""Which files of the repository this process has imported: a run is stale when they change.

A process may run several jobs, one after another, and what it has imported stays what it was when
files are edited between them. So the content of each module is that of the first time it was looked
at, and a pin whose tree has another one says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.machinery import ModuleSpec

from expdb.conf.script import BLOB_ENV, blob_of, entry_script, is_launchers
from expdb.git.command import GitError
from expdb.git.used import used_files
from expdb.git.worktree import WorkTree, find_worktree
from expdb.model import Attempt, Pin
from expdb.text import plain

_seen: dict[str, tuple[ModuleSpec | None, str]] = {}
"""File -> the spec that its module was loaded by, and its blob then. A reload has another spec."""


def imported_files() -> list[str]:
    """Return the entry script and the source file of every imported module, in no order."""
    return list(_specs())


def _specs() -> dict[str, ModuleSpec | None]:
    found: dict[str, ModuleSpec | None] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py"):
            found[file] = getattr(module, "__spec__", None)
    found[str(entry_script())] = None
    return found


def as_imported(worktree: WorkTree, pin: Pin) -> Pin:
    """Return a pin whose used files have the content that was imported, and that says where its
    tree has another one.
    """
    used = _first_seen(worktree, pin.used)
    script = os.path.realpath(entry_script())
    told = os.environ.get(BLOB_ENV, "") if is_launchers() else ""
    edited = {path for path, blob in used.items() if blob != pin.used[path]}
    if told and told != blob_of(entry_script()):
        path = os.path.relpath(script, os.path.realpath(worktree.top))
        if path in used:
            used[path] = told
            edited.add(path)
    if not edited:
        return replace(pin, used=used)
    named = ", ".join(plain(path) for path in sorted(edited)[:3])
    more = f" and {len(edited) - 3:,} more" if len(edited) > 3 else ""
    said = f"{named}{more} ran as imported before an edit: the tree has the edit"
    return replace(pin, used=used, reproducible=False, reasons=(*pin.reasons, said))


def _first_seen(worktree: WorkTree, used: Mapping[str, str]) -> dict[str, str]:
    """Return path -> blob, of what was looked at before as it was then."""
    specs = _specs()
    found = {}
    for path, blob in used.items():
        file = str(worktree.top / path)
        spec = specs.get(file)
        before = _seen.get(file)
        if before is None or before[0] is not spec:
            before = _seen[file] = spec, blob
        found[path] = before[1]
    return found


def used_now(attempt: Attempt) -> Attempt:
    """Return the attempt with the files that were imported since it started."""
    worktree = find_worktree(entry_script().parent)
    if attempt.pin.commit is None or not isinstance(worktree, WorkTree):
        return attempt
    try:
        found = _first_seen(worktree, used_files(worktree, imported_files()))
    except (GitError, OSError):
        return attempt  # what was known at the start stays
    # A file edited while the run went on keeps the content that was imported at the start.
    return replace(attempt, pin=replace(attempt.pin, used={**found, **attempt.pin.used}))
