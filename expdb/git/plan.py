"""What turns one tree into another: one row a path.

Invariant: a row holds mode and blob before and after, so whoever finds a path later can tell which
of the two it is; paths without a row are not touched by a restore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from expdb.git.attributes import ATTRIBUTE_FILE, CONVERTING, attributes
from expdb.git.disk import State, as_kept, state_on_disk
from expdb.git.index import fill_index, temp_index
from expdb.git.mirror import states_under
from expdb.git.objects import hash_files
from expdb.git.worktree import WorkTree

Action = Literal["create", "change", "delete"]
Where = Literal["before", "after", "other"]

_NO_MODE = "000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One path that a restore touches."""

    path: str
    action: Action
    before: State | None
    """(mode, blob) in the first tree; None where it is absent."""
    after: State | None
    """(mode, blob) in the second tree. It equals `before` where only line endings or filters
    change.
    """
    raw_before: str | None = None
    """The blob of the bytes as they are on disk, where git would write others; None else."""
    raw_after: str | None = None
    """The blob of the bytes to be written as they are, past git's filters; None else."""


def plan(worktree: WorkTree, from_tree: str, to_tree: str) -> tuple[PlanRow, ...]:
    """Return what turns `from_tree` into `to_tree` (ids of trees or commits), sorted by path.

    Where a `.gitattributes` differs, files whose line endings or filter change with it have rows
    too.

    Raises:
        GitError: one of them is not in this repository.
    """
    words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    done = worktree.git((*words, f"{from_tree}^{{tree}}", f"{to_tree}^{{tree}}"))
    fields = iter(done.names)
    rows = [_row(field, next(fields)) for field in fields]
    if any(_is_rules(row.path) for row in rows):
        rows += _converted(worktree, from_tree, to_tree, {row.path for row in rows})
    return tuple(sorted(rows, key=lambda row: row.path))


def changed_paths(worktree: WorkTree, a: str, b: str) -> list[str]:
    """Return the paths in which two trees differ.

    Raises:
        GitError: one of them is not in this repository.
    """
    return worktree.git(("diff-tree", "-r", "-z", "--name-only", "--no-renames", a, b)).names


def absent_blobs(worktree: WorkTree, from_tree: str, to_tree: str) -> frozenset[str]:
    """Return the blobs of `to_tree` that are neither in `from_tree` nor in this repository.

    A partial clone has only those that it needed so far; nothing is fetched here.

    Raises:
        GitError: a tree is not in this repository.
    """
    words = ("rev-list", "--objects", "--missing=print", "--no-object-names")
    done = worktree.git((*words, f"{to_tree}^{{tree}}", f"^{from_tree}^{{tree}}"))
    return frozenset(line[1:] for line in done.text.split("\n") if line.startswith("?"))


def path_states(worktree: WorkTree, rows: Sequence[PlanRow]) -> dict[str, Where]:
    """Return for each row's path whether it stands as before the plan, after it, or otherwise."""
    modes = worktree.config_true("core.filemode", default=True)
    likes = {row.path: (row.before or row.after or ("", ""))[1] for row in rows}
    found = state_on_disk(worktree, likes, modes=modes)
    where = {row.path: _where(row, found[row.path], modes=modes) for row in rows}
    rules = [row for row in rows if _is_rules(row.path) and row.before != row.after]
    if rules:
        # Killed between writing the attributes and the files: each side has its own line endings.
        for side in (
            {row.path: row.before for row in rules},
            {row.path: row.after for row in rules},
        ):
            unsure = {path: likes[path] for path, place in where.items() if place == "other"}
            found = states_under(worktree, side, unsure, modes=modes)
            where |= {
                row.path: _where(row, found[row.path], modes=modes)
                for row in rows
                if row.path in unsure
            }
    return where | _where_as_is(worktree, [row for row in rows if where[row.path] == "other"])


def path_state(worktree: WorkTree, row: PlanRow) -> Where:
    """Return whether the row's path stands as before the plan, as after it, or otherwise."""
    return path_states(worktree, [row])[row.path]


def _where_as_is(worktree: WorkTree, rows: Sequence[PlanRow]) -> dict[str, Where]:
    """Return the paths that are as before or after by their very bytes, whatever git makes of them
    by the rules of today.
    """
    kept = [row for row in rows if row.raw_before or row.raw_after]
    bytes_of = hash_files(worktree, [row.path for row in kept], as_is=True)
    found: dict[str, Where] = {}
    for row in kept:
        blob = bytes_of[row.path]
        if blob is not None and blob in (row.raw_before, row.raw_after):
            found[row.path] = "after" if blob == row.raw_after else "before"
    return found


def _where(row: PlanRow, found: State | str, *, modes: bool) -> Where:
    # A folder in the place of a file is judged by what is in it: files with rows, or unsaved.
    state = None if found in ("absent", "folder") else found
    if state == as_kept(row.after, modes=modes):
        return "after"
    return "before" if state == as_kept(row.before, modes=modes) else "other"


def _is_rules(path: str) -> bool:
    return path.rpartition("/")[2] == ATTRIBUTE_FILE


def _row(field: str, path: str) -> PlanRow:
    old_mode, new_mode, old_blob, new_blob, _ = field.removeprefix(":").split(" ")
    before = None if old_mode == _NO_MODE else (old_mode, old_blob)
    after = None if new_mode == _NO_MODE else (new_mode, new_blob)
    action: Action = "create" if before is None else "delete" if after is None else "change"
    return PlanRow(path=path, action=action, before=before, after=after)


def _converted(
    worktree: WorkTree, from_tree: str, to_tree: str, changed: set[str]
) -> list[PlanRow]:
    states: dict[str, State] = {}
    for line in worktree.git(("ls-tree", "-r", "-z", to_tree)).names:
        left, _, path = line.partition("\t")
        mode, kind, blob = left.split(" ")
        if kind == "blob" and mode != "120000" and path not in changed:
            states[path] = (mode, blob)
    old = _conversions(worktree, from_tree, list(states))
    new = _conversions(worktree, to_tree, list(states))
    return [
        PlanRow(path=path, action="change", before=state, after=state)
        for path, state in states.items()
        if old.get(path) != new.get(path)
    ]


def _conversions(
    worktree: WorkTree, tree: str, paths: Sequence[str]
) -> dict[str, Mapping[str, str]]:
    with temp_index(worktree) as index:
        fill_index(worktree, index, tree)
        return attributes(worktree, paths, CONVERTING, index=index)
