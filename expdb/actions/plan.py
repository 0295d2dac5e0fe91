"""The plan of a change: the present state saved, the paths that differ, and what is in the way.

Invariant: a file that is untracked now and ignored by the rules of the goal stays where it is (on
the way back even one that was added to git since); a file that is already what the goal has there
is no part of the plan.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from expdb.git.blockers import blockers
from expdb.git.command import GitError, first_line, nul_joined
from expdb.git.index import EXECUTABLE, fill_index, temp_index
from expdb.git.plan import absent_blobs, changed_paths
from expdb.git.raw import inexact
from expdb.git.restore import Blocked, PlanRow, path_states, plan
from expdb.git.snapshot import Saved, save_worktree
from expdb.git.untracked import MAX_FILE_BYTES
from expdb.git.worktree import WorkTree

USUAL_MODES: Final = frozenset({0o644, 0o664, 0o755, 0o775})
"""Permission bits that a checkout makes; any others have to be kept apart."""
IGNORE_FILE: Final = ".gitignore"

Planned = tuple[Saved, tuple[PlanRow, ...], tuple[Blocked, ...]]


def save_and_plan(
    worktree: WorkTree,
    tree: str,
    *,
    op: str,
    store_root: Path,
    exclude: Sequence[str],
    secret_files: Sequence[str],
    known_absent: frozenset[str] | None = None,
    kept: Mapping[str, str] = MappingProxyType({}),
    force: bool = False,
) -> Planned:
    """Save the work tree under `op`; return that, the plan to `tree`, and what blocks the plan.

    `known_absent` is given on the way back to a saved work tree: paths that it surely did not have;
    `kept` is path -> blob of what the goal keeps byte for byte.
    With `force` single files in the way are saved too, whatever their size, and block no longer.

    Raises:
        Refused: git's index has unresolved conflicts.
        GitError: git cannot read or write the repository.
    """
    also: list[str] = []
    raw: list[str] = []
    while True:
        saved = save_worktree(
            worktree,
            store_root=store_root,
            op=op,
            exclude=exclude,
            secret_files=secret_files,
            also=also,
            raw=raw,
        )
        rows = plan(worktree, saved.tree, tree)
        alone = _left_alone(worktree, saved, tree, rows, known_absent)
        rows = tuple(
            replace(row, raw_before=saved.raw.get(row.path), raw_after=kept.get(row.path))
            for row in rows
            if row.path not in alone
        )
        blocked = blockers(
            worktree,
            saved,
            rows,
            secret_files=secret_files,
            kept=kept,
            absent=absent_blobs(worktree, saved.tree, tree) if rows else (),
        )
        rows, blocked = _without_equal(worktree, rows, blocked)
        more = [item for item in blocked if _can_save(item, force) and item.path not in raw + also]
        lossy = [path for path in _lossy_edits(worktree, saved, rows) if path not in raw]
        if not more and not lossy:
            return saved, rows, blocked
        raw += [*lossy, *(item.path for item in more if item.is_raw)]
        also += [item.path for item in more if not item.is_raw]


def _lossy_edits(worktree: WorkTree, saved: Saved, rows: Sequence[PlanRow]) -> list[str]:
    """Return the edits outside the plan, against HEAD, whose very bytes the snapshot has not.

    The change leaves them alone; its undo brings them back if they were edited again since.
    """
    head = worktree.tree_of("HEAD")
    planned = {row.path for row in rows}
    if head is None or planned.issuperset(changed_paths(worktree, saved.tree, head)):
        return []
    edits = plan(worktree, saved.tree, head)
    found = inexact(worktree, [row for row in edits if row.path not in planned])
    return [path for path, num_bytes in found.items() if num_bytes <= MAX_FILE_BYTES]


def _can_save(item: Blocked, force: bool) -> bool:
    """Tell whether a path in the way is saved: small ones that git converts need no `force`."""
    small = item.is_raw and item.num_bytes <= MAX_FILE_BYTES
    return item.can_save and (force or small)


def odd_modes(top: Path, rows: Sequence[PlanRow]) -> dict[str, int]:
    """Return the permission bits of the plan's files that a checkout would not make again."""
    found: dict[str, int] = {}
    for row in rows:
        if row.before is None or not row.before[0].startswith("100"):
            continue
        try:
            mode = os.lstat(f"{top}/{row.path}").st_mode
        except OSError:  # deleted since it was saved: a restore says so
            continue
        # Where git does not record it, the executable bit is none of a checkout's either.
        is_odd = (row.before[0] == EXECUTABLE) is not bool(mode & 0o100)
        if stat.S_ISREG(mode) and (is_odd or stat.S_IMODE(mode) not in USUAL_MODES):
            found[row.path] = stat.S_IMODE(mode)
    return found


def _left_alone(
    worktree: WorkTree,
    saved: Saved,
    tree: str,
    rows: Sequence[PlanRow],
    known_absent: frozenset[str] | None,
) -> frozenset[str]:
    """Return the files that would be removed, and that the goal's own rules ignore.

    They were ignored when the goal was pinned or saved, so that they may well have been there.
    """
    removed = {row.path for row in rows if row.after is None}
    if known_absent is not None:
        removed -= known_absent
    elif any(row.path.rpartition("/")[2] == IGNORE_FILE for row in rows):
        removed &= frozenset(saved.untracked)
    else:
        return frozenset()
    return ignored_in(worktree, tree, sorted(removed))


def ignored_in(worktree: WorkTree, tree: str, paths: Sequence[str]) -> frozenset[str]:
    """Return those of `paths` that would be ignored if the work tree were `tree`.

    Raises:
        GitError: git cannot read the tree.
    """
    names = worktree.git(("ls-tree", "-r", "-z", "--name-only", tree)).names
    rules = [name for name in names if name.rpartition("/")[2] == IGNORE_FILE]
    if not paths:
        return frozenset()
    with (
        tempfile.TemporaryDirectory(prefix="expdb-rules-") as folder,
        temp_index(worktree) as index,
    ):
        fill_index(worktree, index, tree)
        worktree.git(
            ("checkout-index", "--quiet", f"--prefix={folder}/", "-z", "--stdin"),
            index=index,
            stdin=nul_joined(rules),
        )
        done = worktree.git(
            ("-C", folder, "check-ignore", "--no-index", "-z", "--stdin"),
            env={"GIT_WORK_TREE": folder, "GIT_LITERAL_PATHSPECS": "0"},
            stdin=nul_joined(["./" + path for path in paths]),
            check=False,
        )
    if done.rc not in (0, 1):  # 1: none of them
        raise GitError(f"git check-ignore failed: {first_line(done.err)}", rc=done.rc, err=done.err)
    return frozenset(name.removeprefix("./") for name in done.names)


def _without_equal(
    worktree: WorkTree, rows: tuple[PlanRow, ...], blocked: tuple[Blocked, ...]
) -> tuple[tuple[PlanRow, ...], tuple[Blocked, ...]]:
    """Leave out files in the way that are what the goal has there."""
    in_way = {item.path for item in blocked if item.can_save and not item.is_raw}
    new = [row for row in rows if row.before is None and row.path in in_way]
    if not new:
        return rows, blocked
    states = path_states(worktree, new)
    equal = {path for path, where in states.items() if where == "after"}
    return (
        tuple(row for row in rows if row.path not in equal),
        tuple(item for item in blocked if item.path not in equal),
    )
