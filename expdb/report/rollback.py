"""`expdb rollback`: the plan, what stands in the way, and what was done.

Invariant: the plan names every path up to 20; above that, unless all is asked for, it counts them
by folder. A path is never cut.
"""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING

from expdb import digest
from expdb.query.compare_results import ConfigDiff
from expdb.query.results import ABSENT
from expdb.report.grid import left
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.text import cells, config_value, decimals_for, duration, metric, plain, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expdb.actions.results import (
        BlockedPath,
        PlanPath,
        RollbackPlan,
        RollbackResult,
        WorktreeResult,
    )
    from expdb.query.target import Target

MAX_PATHS = 20
STEPS_KEY = "loop.max_steps"
LABEL_CELLS = 9
PATH_CELLS = 20
INDENT = " " * 11


def render_plan(plan: RollbackPlan, style: Style, *, all: bool = False) -> list[str]:
    """Return the plan up to `stays`, or what is in the way."""
    lines = _target_lines(plan.target, style)
    if plan.blocked:
        head = f"{counted(len(plan.paths), 'path')}, {len(plan.blocked):,} in the way"
        lines.append(_labelled("code", head))
        return [*lines, *_blocked_rows(plan.blocked, style)]
    lines.append(_labelled("now", style.say(_now(plan))))
    commit = f"commit {plan.base_commit[:7]}"
    if plan.commit != plan.base_commit:
        commit = f"snapshot {plan.commit[:7]}"
    head = f"{counted(len(plan.paths), 'path')}, to tree {plan.tree[:7]} of {commit}"
    lines.append(_labelled("code", head if plan.paths else f"same, tree {plan.tree[:7]}"))
    lines += _path_rows(plan.paths, style, all=all)
    if plan.config_of is not None:
        lines.append(_labelled("config", _config(plan.config, style) or "same"))
    lines.append(_labelled("weights", _weights(plan)))
    return [*lines, _labelled("stays", style.say(_stays(plan)))]


def _labelled(label: str, text: str) -> str:
    return f"{label:<{LABEL_CELLS}}{text}"


def at_step(target: Target, style: Style) -> str:
    """Return the target with its full id: `k3f9x2m7qd baseline@300`."""
    return f"{target.run.id} {plain(target.run.name)}@{target.step}"


def _target_lines(target: Target, style: Style) -> list[str]:
    text = style.paint(at_step(target, style), "bold")
    if target.value is not None and target.run.objective is not None:
        key = target.run.objective.metric
        text += f", {plain(key)} {metric(target.value, decimals_for([target.value]), key=key)}"
    if target.source:
        text += f" ({style.say(target.source)})"
    return [_labelled("target", text), *(f"{INDENT}{style.say(line)}" for line in target.why)]


def _now(plan: RollbackPlan) -> str:
    if plan.head_commit is None:
        at = f"{plan.branch or 'a branch'} without a commit"
    elif plan.branch == "detached":
        at = f"detached at {plan.head_commit[:7]}"
    else:
        at = f"{plan.branch} {plan.head_commit[:7]}"
    return f"{at}, {counted(plan.num_edits, 'edit') if plan.num_edits else 'clean'}"


def _path_rows(paths: Sequence[PlanPath], style: Style, *, all: bool) -> list[str]:
    if len(paths) > MAX_PATHS and not all:
        return _by_folder(paths)
    width = max([PATH_CELLS, *(cells(plain(row.path)) for row in paths)])
    return [
        f"{INDENT}{row.action}  {left(plain(row.path), width)}  {style.say(row.note)}".rstrip()
        for row in paths
    ]


def _by_folder(paths: Sequence[PlanPath]) -> list[str]:
    folders: dict[str, Counter[str]] = {}
    for row in paths:
        folder = row.path.rsplit("/", 1)[0] + "/" if "/" in row.path else "./"
        folders.setdefault(folder, Counter())[row.action] += 1
    width = max(cells(plain(folder)) for folder in folders)
    rows = []
    for folder, actions in list(sorted(folders.items()))[:MAX_PATHS]:
        what = ", ".join(f"{number:,} {action}" for action, number in sorted(actions.items()))
        rows.append(f"{INDENT}{left(plain(folder), width)}  {what}")
    if len(folders) > MAX_PATHS:
        rows.append(f"{INDENT}{counted(len(folders) - MAX_PATHS, 'more folder')}: --all")
    else:
        rows.append(f"{INDENT}by name: --all")
    return rows


def _blocked_rows(blocked: Sequence[BlockedPath], style: Style) -> list[str]:
    width = max([PATH_CELLS, *(cells(plain(row.path)) for row in blocked)])
    return [
        f"{INDENT}{style.paint('blocked', 'red')}  {left(plain(row.path), width)}  "
        f"{style.say(row.reason)}"
        for row in blocked
    ]


def _config(config: Sequence[ConfigDiff], style: Style) -> str:
    differ = [diff for diff in config if diff.differs]
    if not differ:
        return ""
    more = f", and {len(differ) - 1:,} more" if len(differ) > 1 else ""
    return f"{counted(len(differ), 'key')}  {change(differ[0], style)}{more}"


def change(diff: ConfigDiff, style: Style, *, gap: int = 1) -> str:
    """Return how a key moves: `optim.lr 0.003 -> 0.01`."""
    before, after = (
        "-" if value is ABSENT else config_value(value, ellipsis=style.signs.ellipsis)
        for value in diff.values[:2]
    )
    return f"{plain(diff.key)}{' ' * gap}{before} {style.signs.arrow} {after}"


def _weights(plan: RollbackPlan) -> str:
    checkpoint = plan.checkpoint
    state = "complete" if checkpoint.complete else checkpoint.problem or "not complete"
    return f"checkpoint {checkpoint.step}, {size(checkpoint.bytes)}, {plain(state)}"


def _stays(plan: RollbackPlan) -> str:
    where = "HEAD" if plan.branch in (None, "detached") else f"branch {plan.branch}"
    return f"{where} and its commits; the difference will show as staged"


def promise(plan: RollbackPlan) -> str:
    """Return the line above the question: that the present state can be had again."""
    if plan.num_edits == 0:
        return "nothing is edited; expdb undo comes back here"
    if plan.num_edits == 1:
        return "the 1 edit is saved first; expdb undo brings it back"
    return f"all {plan.num_edits:,} edits are saved first; expdb undo brings them back"


def render_result(result: RollbackResult, style: Style, *, checkpoint_path: str = "") -> list[str]:
    """Return what a rollback did; `checkpoint_path` is the folder of the weights as shown."""
    if result.how == "aborted":
        return [f"took back {style.say(result.what)}  (op {result.op}, {_undone(result)})"]
    where = style.say(result.what.removeprefix("rollback to "))
    if result.plan is not None:
        where = at_step(result.plan.target, style)
    done = style.paint("undone again:" if result.kind == "undo" else "rolled back to", "green")
    if result.how == "continued":
        return [f"{done} {where}  (op {result.op}, {_left(result)})"]
    lines = [f"{done} {where}  (op {result.op}, {duration(result.seconds)})"]
    restored = f"{counted(result.num_paths, 'path')} restored, tree {result.tree[:7]} verified"
    lines.append(f"  {_labelled('code', restored)}")
    if result.plan is not None and result.plan.config_of is not None:
        differ = [diff for diff in result.plan.config if diff.differs]
        if differ:
            more = f", and {len(differ) - 1:,} more" if len(differ) > 1 else ""
            back = f"{counted(len(differ), 'key')} back: {change(differ[0], style)}{more}"
            lines.append(f"  {_labelled('config', back)}")
    if checkpoint_path:
        lines.append(f"  {_labelled('weights', plain(checkpoint_path))}")
    return lines


def _left(result: RollbackResult) -> str:
    return f"{counted(result.num_left, 'path')} {'was' if result.num_left == 1 else 'were'} left"


def _undone(result: RollbackResult) -> str:
    done = result.num_paths - result.num_left
    return f"{counted(done, 'path')} {'was' if done == 1 else 'were'} done"


def next_commands(result: RollbackResult, style: Style) -> list[tuple[str, str]]:
    """Return what to do after a rollback, as (label, command)."""
    found = []
    if result.plan is not None:
        run = result.plan.target.run
        at = f"{style.run(run.id)}@{result.plan.target.step}"
        again = shlex.join(run.command)
        if run.command:
            steps = digest.flatten(run.canonical).get(STEPS_KEY)
            longer = f" {STEPS_KEY}={2 * steps}" if isinstance(steps, int) else ""
            found.append(("continue", f"{again} expdb.fork={at}{longer}"))
            found.append(("retrain", f"expdb rerun {style.run(run.id)}"))
    found.append(("undo", "expdb undo"))
    if result.undo_ref:
        found.append(("rescue", f"git restore --source={result.undo_ref} -- ."))
    return found


def render_worktree(result: WorktreeResult, style: Style, *, path: str, weights: str) -> list[str]:
    """Return what `--worktree` made; the paths as shown to the user."""
    code = f"commit {result.commit[:7]}, tree {result.tree[:7]}"
    if result.branch is not None:
        code += f", on the new branch {plain(result.branch)}"
    return [
        f"made {plain(path)} at {at_step(result.target, style)}  (op {result.op})",
        f"  {_labelled('code', code)}",
        f"  {_labelled('weights', plain(weights))}",
    ]


def next_in_worktree(result: WorktreeResult, path: str) -> list[tuple[str, str]]:
    """Return what comes after `--worktree`, as (label, command)."""
    there = shlex.quote(path)
    found = [("enter", f"cd {there}")]
    if result.submodules:
        found.append(("fetch", f"git -C {there} submodule update --init"))
    found.append(("remove", f"git worktree remove {there}"))
    return found
