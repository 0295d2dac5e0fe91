"""`expdb rollback`: code, config and weights of a run, in this work tree or in a fresh one.

Invariant: `prepare` writes nothing; `execute` saves everything that it will touch before it touches
anything. Git's HEAD and branch stay where they are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from expdb.actions import checks
from expdb.actions.change import Goal, carry_out
from expdb.actions.fresh import to_worktree
from expdb.actions.go_on import abort, continue_
from expdb.actions.live import require_idle
from expdb.actions.naming import at_step, checkpoint_path, named
from expdb.actions.preview import preview
from expdb.actions.results import (
    BlockedPath,
    PlanPath,
    RollbackPlan,
    RollbackResult,
)
from expdb.actions.unfinished import require_finished
from expdb.errors import BadInput
from expdb.git.objects import REFS
from expdb.git.restore import Blocked, PlanRow
from expdb.git.status import read_edits
from expdb.git.untracked import DEFAULT_EXCLUDE, DEFAULT_SECRET_FILES
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Run, RunAt
from expdb.query.compare_results import ConfigDiff
from expdb.query.diffs import config_diff
from expdb.query.target import choose_target
from expdb.store.head import read_head

__all__ = ["abort", "continue_", "execute", "prepare", "to_worktree"]


def prepare(
    reader: Reader, worktree: WorkTree, word: str | None = None, *, force: bool = False
) -> RollbackPlan:
    """Return what a rollback to `word` would do, with what is in its way; nothing is written.

    With `force` single files in the way are not in `blocked`: they would be saved first.

    Raises:
        NotFound, Ambiguous, BadInput: the word names no run with a checkpoint.
        Refused: a run of this work tree is alive, git is in the middle of something, the checkpoint
            is damaged, the code is not in this repository, or an earlier op is unfinished.
    """
    store = reader.store
    require_finished(worktree, store)
    head = read_head(worktree.git_dir)
    target = choose_target(reader, word, head=None if head is None else head.at)
    run = target.run
    require_idle(reader, worktree.git_dir, aside=_aside(run))
    checks.require_calm(worktree)
    checkpoint = checks.require_checkpoint(reader, run, target.step, command="expdb rollback")
    pin = checks.pin_of(run, checkpoint)
    commit, tree = checks.require_code(reader, worktree, run, pin)
    exclude, secret_files = _left_out(run)
    rows, blocked = preview(
        worktree, tree, store_root=store.root, exclude=exclude, secret_files=secret_files
    )
    if force:
        blocked = tuple(item for item in blocked if not item.can_save)
    blocked = (*checks.store_paths(store, worktree, rows), *blocked)
    edits = dict((path, letter) for letter, path in read_edits(worktree))
    head_commit = worktree.head()
    other, config = _config(reader, worktree, run)
    at_target = head is not None and (head.run, head.step) == (run.id, target.step)
    if not pin.reproducible:
        why = tuple(f"its code is not all there: {reason}" for reason in pin.reasons)
        target = replace(target, why=(*target.why, *why))
    return RollbackPlan(
        target=target,
        commit=commit,
        tree=tree,
        base_commit=pin.commit or commit,
        branch=worktree.branch(),
        head_commit=head_commit,
        num_edits=len(edits),
        paths=planned_paths(rows, edits, head_commit),
        blocked=blocked_paths(blocked),
        own_paths=checks.own_paths(worktree, rows),
        config_of=other,
        config=config,
        checkpoint=checkpoint,
        checkpoint_path=checkpoint_path(run, target.step),
        nothing_to_do=not rows and at_target,
    )


def execute(
    reader: Reader,
    worktree: WorkTree,
    plan: RollbackPlan,
    *,
    force: bool = False,
    own: bool = False,
) -> RollbackResult:
    """Carry out a rollback that `prepare` planned; the work tree is looked at anew.

    `force` saves single files in the way first; `own` lets it change expdb's own code.

    Raises:
        Refused: work would be lost; nothing was written.
        Conflict: another process is changing this work tree.
        Corrupt: the result is not the pinned tree; it can be continued or taken back.
    """
    started = time.monotonic()
    store, target = reader.store, plan.target
    if plan.nothing_to_do:
        raise BadInput("there is nothing to roll back: the work tree equals the target")
    idle = require_idle(reader, worktree.git_dir, aside=_aside(target.run))
    what = f"rollback to {at_step(named(target.run, reader.id_length), target.step)}"
    exclude, secret_files = _left_out(target.run)
    goal = Goal(
        kind="rollback",
        what=what,
        tree=plan.tree,
        commit=plan.commit,
        at=RunAt(run=target.run.id, step=target.step),
        exclude=exclude,
        secret_files=secret_files,
        aside=_aside(target.run),
    )
    done = carry_out(store, worktree, goal, force=force, own=own, idle=idle)
    return RollbackResult(
        op=done.op.id,
        how="done",
        kind="rollback",
        what=what,
        num_paths=len(done.change.rows),
        num_left=len(done.change.rows),
        tree=plan.tree,
        undo_ref=f"{REFS}undo/{done.op.id}",
        seconds=time.monotonic() - started,
        plan=plan,
        run=target.run.id,
        step=target.step,
        edited_outside=done.edited_outside,
    )


def require_clear(plan: RollbackPlan, *, own: bool = False) -> None:
    """Refuse a plan that cannot be carried out, once it is printed and before anybody is asked.

    Raises:
        Refused: paths are in the way, or expdb's own code would change.
    """
    rows = [PlanRow(path=p.path, action=p.action, before=None, after=None) for p in plan.paths]
    blocked = [
        Blocked(path=item.path, reason=item.reason, can_save=item.savable, loses=item.loses)
        for item in plan.blocked
    ]
    aside = _aside(plan.target.run)
    checks.require_free(rows, blocked, kind="rollback", aside=aside, listed=True)
    if not own:
        checks.require_foreign(plan.own_paths, aside=aside)


def _left_out(run: Run) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what snapshots leave out, by the settings of the run that is gone back to."""
    code = run.settings.get("code")
    code = code if isinstance(code, dict) else {}
    exclude = code.get("exclude", DEFAULT_EXCLUDE)
    secret_files = code.get("secret_files", DEFAULT_SECRET_FILES)
    return tuple(map(str, exclude)), tuple(map(str, secret_files))


def _aside(run: Run) -> str:
    """Return the folder that hints propose for a fresh work tree of a run."""
    return f"../at-{run.id[:4]}"


_NOTES = {
    "M": "edited",
    "T": "edited",
    "U": "edited",
    "A": "staged",
    "R": "staged",
    "?": "untracked",
}


def planned_paths(
    rows: Sequence[PlanRow], edits: dict[str, str], head_commit: str | None
) -> tuple[PlanPath, ...]:
    """Return the paths of a plan, each with what it is now; `edits` is path -> git's letter."""
    at_head = "" if head_commit is None else f"committed in {head_commit[:7]}"
    found = []
    for row in rows:
        letter = edits.get(row.path)
        if row.before is None:
            note = "deleted here" if letter == "D" else ""
        elif letter is None:
            note = at_head
        else:
            note = _NOTES.get(letter, "edited")
        found.append(PlanPath(path=row.path, action=row.action, note=note))
    return tuple(found)


def blocked_paths(blocked: Sequence[Blocked]) -> tuple[BlockedPath, ...]:
    """Return what is in the way of a plan."""
    return tuple(
        BlockedPath(path=item.path, reason=item.reason, savable=item.can_save, loses=item.loses)
        for item in blocked
    )


def _config(
    reader: Reader, worktree: WorkTree, target: Run
) -> tuple[Run | None, tuple[ConfigDiff, ...]]:
    """Return the newest run of this work tree, and the config keys in which the target differs."""
    found = reader.rows(
        "SELECT a.run FROM attempts a JOIN runs r ON r.id = a.run WHERE a.work_tree = ?"
        " ORDER BY r.created_at_ms DESC, r.id DESC LIMIT 1",
        [str(worktree.git_dir)],
    )
    if not found:
        return None, ()
    run = reader.run(str(found[0][0]))
    return run, tuple(diff for diff in config_diff((run, target)) if diff.differs)
