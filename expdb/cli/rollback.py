"""`expdb rollback`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode
from expdb.errors import Refused
from expdb.text import plain

if TYPE_CHECKING:
    from expdb.actions.results import RollbackPlan, RollbackResult
    from expdb.index.reader import Reader


@click.command(cls=VerbCommand)
@click.argument("run", required=False)
@click.option("--dry-run", is_flag=True, help="Print the plan as data; write nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Save single files in the way first, and go on.")
@click.option("--self", "own", is_flag=True, help="Let it change the code of expdb itself.")
@click.option("--worktree", "folder", metavar="DIR", help="A fresh work tree instead of this one.")
@click.option("--branch", metavar="NAME", help="With --worktree: on a new branch.")
@click.option("--continue", "go_on", is_flag=True, help="Finish the rollback that was cut off.")
@click.option("--abort", "take_back", is_flag=True, help="Take back the one that was cut off.")
@click.option("--all", "all_rows", is_flag=True, help="Name every path of the plan.")
@options.quiet_as("the id of the op")
@options.as_json
@click.pass_obj
def rollback(
    context: Context,
    run: str | None,
    dry_run: bool,
    yes: bool,
    force: bool,
    own: bool,
    folder: str | None,
    branch: str | None,
    go_on: bool,
    take_back: bool,
    all_rows: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Bring back code, config and weights of RUN[@STEP], or of the best baseline.

    Your edits are saved first: `expdb undo` brings them back. Git's HEAD and branches stay.
    """
    settles = go_on or take_back
    if go_on and take_back:
        raise click.UsageError("--continue and --abort exclude each other")
    if settles and (run or dry_run or folder):
        raise click.UsageError("--continue and --abort take neither RUN, --dry-run nor --worktree")
    if branch and not folder:
        raise click.UsageError("--branch needs --worktree")
    if folder and (dry_run or force or own):
        raise click.UsageError("--worktree takes neither --dry-run, --force nor --self")
    shape = _Shape(context, quiet=quiet, as_json=as_json, all_rows=all_rows)
    with context.reader(warn_unfinished=False) as reader:
        if settles:
            return _settle(reader, shape, back=take_back, force=force)
        if folder is not None:
            return _fresh(reader, shape, folder, run, branch)
        return _roll_back(reader, shape, run, dry_run=dry_run, yes=yes, force=force, own=own)


class _Shape:
    """How results are written."""

    def __init__(self, context: Context, *, quiet: bool, as_json: bool, all_rows: bool) -> None:
        # Imported before anything is restored: the files of these modules may be about to change.
        from expdb.report import json
        from expdb.report import rollback as report

        self.context = context
        self.out = context.out
        self.quiet = quiet
        self.as_json = as_json
        self.all_rows = all_rows
        self.report = report
        self.json = json

    def plan(self, plan: RollbackPlan, *, is_data: bool) -> None:
        """Write the plan: data of a dry run, else talk."""
        if plan.target.said:
            self.out.resolution(plan.target.said)
        if is_data and self.as_json:
            self.out.json(self.json.rollback_plan(plan))
        elif is_data:
            self.out.lines(self.report.render_plan(plan, self.out.style, all=self.all_rows))
        elif not self.quiet:
            for line in self.report.render_plan(plan, self.out.talk_style, all=self.all_rows):
                self.out.talk(line)

    def result(self, result: RollbackResult, reader: Reader) -> None:
        """Write what was done, and what to do next."""
        out = self.out
        if result.edited_outside:
            paths = ", ".join(plain(path) for path in result.edited_outside[:3])
            out.warning(f"edited meanwhile, outside the plan, and left as it is: {paths}")
        for ref in result.saved_refs:
            out.talk(f"{'kept:':<11}{ref}")
        if self.as_json:
            out.json(self.json.rollback_result(result))
        elif self.quiet:
            out.lines([result.op])
        else:
            path = ""
            if result.plan is not None:
                path = self.context.shown(reader.store.root / result.plan.checkpoint_path)
            out.lines(self.report.render_result(result, out.style, checkpoint_path=path))
            if result.how != "aborted":
                out.next(self.report.next_commands(result, out.talk_style))


def _roll_back(
    reader: Reader,
    shape: _Shape,
    word: str | None,
    *,
    dry_run: bool,
    yes: bool,
    force: bool,
    own: bool,
) -> int:
    from expdb.actions.rollback import execute, prepare, require_clear

    out = shape.out
    worktree = shape.context.require_worktree()
    plan = prepare(reader, worktree, word, force=force)
    if plan.nothing_to_do and not (dry_run and shape.as_json):
        where = shape.report.at_step(plan.target, out.talk_style)
        out.talk(f"nothing to do: the work tree equals {where}, and HEAD is there")
        return ExitCode.OK
    shape.plan(plan, is_data=dry_run)
    require_clear(plan, own=own)
    if dry_run:
        out.talk("nothing written")
        return ExitCode.OK
    if not (yes or _agreed(shape, plan, word)):
        out.talk("nothing written")
        return ExitCode.REFUSED
    shape.result(execute(reader, worktree, plan, force=force, own=own), reader)
    return ExitCode.OK


def _agreed(shape: _Shape, plan: RollbackPlan, word: str | None) -> bool:
    out = shape.out
    out.talk()
    out.talk(shape.report.promise(plan))
    answer = out.ask("roll back?")
    if answer is None:
        again = " ".join(["expdb rollback", *([shlex.quote(word)] if word else []), "-y"])
        raise Refused("rollback asks before it writes, and there is no terminal", hint=again)
    return answer


def _settle(reader: Reader, shape: _Shape, *, back: bool, force: bool) -> int:
    from expdb.actions.rollback import abort, continue_

    settle = abort if back else continue_
    shape.result(settle(reader.store, shape.context.require_worktree(), force=force), reader)
    return ExitCode.OK


def _fresh(reader: Reader, shape: _Shape, folder: str, word: str | None, branch: str | None) -> int:
    from expdb.actions.rollback import to_worktree

    out, context = shape.out, shape.context
    made = to_worktree(reader, context.require_worktree(), Path(folder), word, branch=branch)
    if made.target.said:
        out.resolution(made.target.said)
    shown = context.shown(Path(made.path))
    if shape.as_json:
        out.json(shape.json.worktree(made))
    elif shape.quiet:
        out.lines([made.op])
    else:
        weights = context.shown(reader.store.root / made.checkpoint_path)
        out.lines(shape.report.render_worktree(made, out.style, path=shown, weights=weights))
        out.next(shape.report.next_in_worktree(made, shown))
    return ExitCode.OK
