"""What must hold before the code of a work tree is changed; looking writes nothing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from expdb.actions.naming import named
from expdb.errors import Corrupt, ExpdbError, NotFound, Refused
from expdb.git.diff import has_object
from expdb.git.restore import Blocked, PlanRow
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Checkpoint, Pin, Run
from expdb.store import checkpoints
from expdb.store.layout import RunLayout
from expdb.store.remote_code import commits_in, read_packs
from expdb.store.remote_place import open_place, runs_in
from expdb.store.remotes import read_remotes
from expdb.store.store import Store
from expdb.text import plain, short_id

UNDONE_BY = {
    "rebase": "git rebase --continue, or --abort, then again",
    "merge": "git merge --continue, or --abort, then again",
    "cherry-pick": "git cherry-pick --continue, or --abort, then again",
    "revert": "git revert --continue, or --abort, then again",
    "bisect": "git bisect reset, then again",
}


def require_calm(worktree: WorkTree) -> None:
    """Refuse while git itself is in the middle of something.

    Raises:
        Refused: a rebase, merge, cherry-pick, revert or bisect is in progress.
    """
    what = worktree.in_progress()
    if what is not None:
        raise Refused(
            f"a {what} is in progress in this work tree; nothing written", hint=UNDONE_BY[what]
        )


def pin_of(run: Run, checkpoint: Checkpoint) -> Pin:
    """Return the pin of the attempt that wrote a checkpoint, else of the latest."""
    for attempt in run.attempts:
        if attempt.number == checkpoint.attempt:
            return attempt.pin
    return run.pin


def require_code(reader: Reader, worktree: WorkTree, run: Run, pin: Pin) -> tuple[str, str]:
    """Return (commit, tree) of the code of a run.

    Raises:
        Refused: the run has no pinned code.
        NotFound: its commit is not in this repository.
    """
    who = named(run, reader.id_length)
    if pin.pinned is None:
        why = "; ".join(pin.reasons) or "it was not pinned"
        raise Refused(
            f"the code of {who} is not kept: {why}",
            hint=f"its config and weights are: expdb path {short_id(run.id, reader.id_length)}",
        )
    tree = worktree.tree_of(pin.pinned) if has_object(worktree, pin.pinned) else None
    if tree is None:
        where = pin.remote or "the repository it ran in"
        hint = f"fetch it: git fetch {where} 'refs/expdb/pins/*:refs/expdb/pins/*'"
        remote = _remote_with(reader, run, pin.pinned)
        if remote is not None:
            short = short_id(run.id, reader.id_length)
            hint = f"the remote {remote} has it; fetch its code: expdb pull {remote} {short}"
        raise Refused(
            f"commit {pin.pinned[:7]} of {who} is not in this repository; nothing written",
            hint=hint,
        )
    return pin.pinned, tree


def _remote_with(reader: Reader, run: Run, commit: str) -> str | None:
    """Return the name of a remote that has a run and its code."""
    try:
        remotes = read_remotes(reader.store.layout)
    except ExpdbError:
        return None
    for remote in remotes.values():
        try:
            place = open_place(remote)
            has_run = any(found == run.id for found, _ in runs_in(place))
        except ExpdbError:
            continue  # not there just now
        if has_run and commit in commits_in(read_packs(place)):
            return remote.name
    return None


def require_checkpoint(reader: Reader, run: Run, step: int, *, command: str) -> Checkpoint:
    """Return the checkpoint after reading every byte of it.

    Raises:
        Refused: it is missing, incomplete or damaged.
    """
    layout = RunLayout(reader.store.root / run.path)
    try:
        return checkpoints.verify(layout, step)
    except (NotFound, Corrupt) as error:
        problem = checkpoints.damage(layout, step) if isinstance(error, Corrupt) else ""
        good = checkpoints.next_good(layout, step)
        raise Refused(
            f"checkpoint {step} of {named(run, reader.id_length)} is "
            + (f"damaged: {problem}" if problem else "not there"),
            hint=() if good is None else f"{command} {short_id(run.id, reader.id_length)}@{good}",
        ) from error


def own_paths(worktree: WorkTree, rows: Sequence[PlanRow]) -> tuple[str, ...]:
    """Return the paths of the plan that are code of the expdb that runs now.

    The demo is the experimenter's code: it changes with the runs, and undo does not need it.
    """
    folders = tuple(
        folder.relative_to(worktree.top).as_posix() + "/"
        for folder in _own_folders()
        if folder.is_relative_to(worktree.top)
    )
    return tuple(
        row.path
        for row in rows
        if row.path.startswith(folders) and not row.path.startswith(_demo(folders))
    )


def store_paths(store: Store, worktree: WorkTree, rows: Sequence[PlanRow]) -> tuple[Blocked, ...]:
    """Return the paths of the plan that lie in the store, which no rollback may touch."""
    root = store.root.resolve()
    if not root.is_relative_to(worktree.top):
        return ()
    inside = root.relative_to(worktree.top).as_posix()
    prefix = "" if inside == "." else f"{inside}/"
    meta = (f"{prefix}.expdb/", f"{prefix}exp=")
    return tuple(
        Blocked(path=row.path, reason="a file of the store that git tracks; untrack it first")
        for row in rows
        if row.path.startswith(meta)
    )


def require_free(
    rows: Sequence[PlanRow],
    blocked: Sequence[Blocked],
    *,
    kind: Literal["rollback", "undo"],
    aside: str = "DIR",
    listed: bool = False,
) -> None:
    """Refuse a plan with paths in the way; `listed` says that they were printed already.

    Raises:
        Refused: there are some; `details` lists them.
    """
    if not blocked:
        return
    num_paths = len({row.path for row in rows} | {item.path for item in blocked})
    paths = "1 path" if num_paths == 1 else f"{num_paths} paths"
    hints = []
    if any(item.can_save for item in blocked):
        hints.append(f"save single files first and go on: expdb {kind} --force")
    folder = next((item for item in blocked if item.reason.startswith("a folder")), None)
    if folder is not None:
        hints.append(f"move it away: {plain(folder.path)}")
    if kind == "rollback":
        hints.append(f"leave this work tree alone:        expdb rollback --worktree {aside}")
    details = tuple(f"{plain(item.path)}  {plain(item.reason)}" for item in blocked)
    loses = any(item.loses for item in blocked)
    what = "would lose work that is saved nowhere" if loses else "cannot be written"
    raise Refused(
        f"{len(blocked)} of {paths} {what}; nothing written",
        details=() if listed else details,
        hint=tuple(hints),
    )


def require_foreign(own: Sequence[str], *, aside: str = "DIR") -> None:
    """Refuse to change the code of the expdb that is running.

    Raises:
        Refused: `own` names some of it.
    """
    if own:
        paths = "1 file" if len(own) == 1 else f"{len(own)} files"
        raise Refused(
            f"it would change {paths} of expdb itself in this work tree; nothing written",
            details=tuple(plain(path) for path in own[:20]),
            hint=(
                f"leave this work tree alone: expdb rollback --worktree {aside}",
                "do it all the same:         expdb rollback --self",
            ),
        )


def _own_folders() -> list[Path]:
    found = [Path(__file__).resolve().parent.parent]
    if "expdb_tui" in sys.modules or importlib.util.find_spec("expdb_tui") is not None:
        spec = importlib.util.find_spec("expdb_tui")
        if spec is not None and spec.origin is not None:
            found.append(Path(spec.origin).resolve().parent)
    return found


def _demo(folders: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{folder}demo/" for folder in folders)
