"""Paths where a restore would lose what is saved nowhere, or that it cannot restore exactly.

Invariant: a plan without blockers touches only paths that are byte for byte in the snapshot, or
that are absent. Looking writes nothing.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from expdb.git.attributes import ATTRIBUTE_FILE, drivers, filtered
from expdb.git.capture import missing_from
from expdb.git.command import nul_joined
from expdb.git.disk import Kind, kind_of, kinds_above, walk_files
from expdb.git.index import GITLINK, SYMLINK, entries, fill_index, temp_index
from expdb.git.objects import blob_id, checked_out, read_file
from expdb.git.plan import PlanRow, path_states
from expdb.git.raw import inexact
from expdb.git.saved import Saved
from expdb.git.special import is_sparse
from expdb.git.untracked import MAX_FILE_BYTES, is_secret
from expdb.git.worktree import WorkTree
from expdb.text import size


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """One path in the way of a restore."""

    path: str
    reason: str
    can_save: bool = False
    """A single file: `save_worktree(..., also=[path])` saves it, and the path blocks no longer."""
    loses: bool = True
    """Something saved nowhere would be lost; else the goal cannot be written."""
    is_raw: bool = False
    """It is in the snapshot as git sees it; `save_worktree(..., raw=[path])` keeps its bytes."""
    num_bytes: int = 0


@dataclass(slots=True)
class _Search:
    """The plan under examination and what was found so far."""

    worktree: WorkTree
    secret_files: Sequence[str]
    deleted: frozenset[str]
    found: dict[str, Blocked] = field(default_factory=dict)
    unsaved: list[str] = field(default_factory=list)
    """Single files in the way that are in no snapshot."""

    def block(self, path: str, reason: str, *, loses: bool = True) -> None:
        self.found.setdefault(path, Blocked(path=path, reason=reason, loses=loses))


def blockers(
    worktree: WorkTree,
    saved: Saved,
    rows: Sequence[PlanRow],
    *,
    secret_files: Sequence[str] = (),
    kept: Container[str] = (),
    absent: Container[str] = (),
) -> tuple[Blocked, ...]:
    """Return the paths of the plan that block it, sorted; `saved` is the snapshot the plan starts
    from, `kept` are paths whose goal is kept byte for byte, `absent` blobs that are not there.

    Raises:
        GitError: git cannot read the repository.
    """
    if not rows:
        return ()
    if is_sparse(worktree) or any(entry.skipped for entry in entries(worktree, saved.base_index)):
        return (Blocked(path=".", reason="a sparse checkout: files are kept out of the work tree"),)
    search = _Search(
        worktree=worktree,
        secret_files=secret_files,
        deleted=frozenset(row.path for row in rows if row.after is None),
    )
    _block_submodules(search, rows)
    for row in rows:
        if row.after is not None and row.after[1] in absent:
            search.block(row.path, "its content is not in this repository", loses=False)
    _block_failing_filters(search, [row for row in rows if row.path not in kept])
    changed = _changed_since(worktree, saved, rows)
    above = kinds_above(worktree.top, (row.path for row in rows))
    for row in rows:
        _block_parents(search, row, above)
        if row.before is None:
            _block_in_place(search, row)
        elif row.path in changed:
            search.block(row.path, "changed since it was saved, or cannot be read")
    _explain_unsaved(search)
    _block_inexact(search, saved, rows)
    return tuple(found for _, found in sorted(search.found.items()))


def _changed_since(worktree: WorkTree, saved: Saved, rows: Sequence[PlanRow]) -> set[str]:
    """Return the paths that are no longer, or could not be, as the snapshot has them."""
    touched = set(missing_from(worktree, saved.base_index))
    suspects = [row for row in rows if row.before is not None and row.path in touched]
    states = path_states(worktree, suspects) if suspects else {}
    equal = {row.path for row in suspects if row.before == row.after}
    return {p for p, state in states.items() if state != ("after" if p in equal else "before")}


def folder_reason(worktree: WorkTree, path: str, deleted: frozenset[str]) -> str | None:
    """Return why the folder at `path` cannot give way to a file, None when all in it is saved."""
    unsaved = [name for name in walk_files(worktree.top, path) if name not in deleted]
    if not unsaved:
        return None
    if any(name.endswith("/") for name in unsaved):
        return "a repository of its own where a file must go"
    files = "file" if len(unsaved) == 1 else "files"
    return f"a folder where a file must go, {len(unsaved)} unsaved {files} in it"


def _block_submodules(search: _Search, rows: Sequence[PlanRow]) -> None:
    for row in rows:
        if GITLINK in ((row.before or ("",))[0], (row.after or ("",))[0]):
            search.block(row.path, "a submodule: its files are in another repository")


def _block_failing_filters(search: _Search, rows: Sequence[PlanRow]) -> None:
    """Block files that git's filters would have to write, and cannot, or under rules to come."""
    blobs = {row.path: row.after[1] for row in rows if row.after and row.after[0] != SYMLINK}
    running = set(drivers(search.worktree)) if blobs else set()
    if not running:
        return
    now = filtered(search.worktree, list(blobs))
    to_come = _filtered_by(search.worktree, rows, list(blobs))
    for path, name in to_come.items():
        if name in running and now.get(path) != name:
            reason = f"passes the git filter {name} by the .gitattributes of the goal"
            search.block(path, reason, loses=False)
    through = {path: blobs[path] for path, name in now.items() if name in running}
    for path, written in checked_out(search.worktree, through):
        if written is None and path not in search.found:
            reason = f"the git filter {now[path]} fails: its content cannot be written"
            search.block(path, reason, loses=False)


def _filtered_by(
    worktree: WorkTree, rows: Sequence[PlanRow], paths: Sequence[str]
) -> dict[str, str]:
    """Return path -> filter by the attribute files that the plan brings; empty if it has none."""
    rules = [row for row in rows if row.path.rpartition("/")[2] == ATTRIBUTE_FILE and row.after]
    if not rules:
        return {}
    with temp_index(worktree) as index:
        fill_index(worktree, index, None)
        lines = b"".join(
            f"{row.after[0]} {row.after[1]} 0\t".encode() + nul_joined([row.path])
            for row in rules
            if row.after
        )
        worktree.git(("update-index", "-z", "--index-info"), index=index, stdin=lines)
        return filtered(worktree, paths, index=index)


def _block_parents(search: _Search, row: PlanRow, above: Mapping[str, Kind]) -> None:
    parts = row.path.split("/")
    for at in range(1, len(parts)):
        parent = "/".join(parts[:at])
        kind = above[parent]
        if kind == "folder":
            continue
        if kind == "absent" or parent in search.deleted:
            return
        if kind == "link":
            search.block(parent, "a symbolic link where a folder must go")
        elif kind == "file":
            search.unsaved.append(parent)
        else:
            search.block(parent, "neither file nor folder")
        return


def _block_in_place(search: _Search, row: PlanRow) -> None:
    """Look at what stands where the plan creates a path."""
    kind = kind_of(search.worktree.top, row.path)
    if kind == "folder":
        reason = folder_reason(search.worktree, row.path, search.deleted)
        if reason is not None:
            search.block(row.path, reason)
    elif kind in ("file", "link"):
        search.unsaved.append(row.path)
    elif kind == "other":
        search.block(row.path, "neither file nor folder")


def _explain_unsaved(search: _Search) -> None:
    if not search.unsaved:
        return
    ignored = _ignored(search.worktree, search.unsaved)
    for path in search.unsaved:
        num_bytes = (search.worktree.top / path).lstat().st_size
        if path in ignored:
            why = "ignored by git"
        elif is_secret(path, search.secret_files):
            why = "kept out as a secret"
        elif num_bytes > MAX_FILE_BYTES:
            why = f"untracked and over {size(MAX_FILE_BYTES)}"
        else:
            why = "left out of snapshots"
        search.found.setdefault(
            path,
            Blocked(
                path=path,
                reason=f"{why}: no copy of it exists, {size(num_bytes)}",
                can_save=True,
                num_bytes=num_bytes,
            ),
        )


def _ignored(worktree: WorkTree, paths: Sequence[str]) -> set[str]:
    # This command knows no literal pathspecs; behind `./` no name is taken for a pattern.
    names = nul_joined(["./" + path for path in paths])
    done = worktree.git(
        ("check-ignore", "-z", "--stdin"),
        env={"GIT_LITERAL_PATHSPECS": "0"},
        stdin=names,
        check=False,
    )
    return {name.removeprefix("./") for name in done.names}


def _block_inexact(search: _Search, saved: Saved, rows: Sequence[PlanRow]) -> None:
    """Block files whose very bytes git would not write back, unless they are kept beside."""
    top = search.worktree.top
    here = [row for row in rows if row.path not in search.found]
    for path, num_bytes in inexact(search.worktree, here).items():
        blob = saved.raw.get(path)
        if blob is None:
            search.found[path] = Blocked(
                path=path,
                reason=f"git would not write its bytes back as they are, {size(num_bytes)}",
                can_save=True,
                is_raw=True,
                num_bytes=num_bytes,
            )
        elif blob != blob_id(read_file(top / path) or b"", blob):
            search.block(path, "changed since it was saved, or cannot be read")
