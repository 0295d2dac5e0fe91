"""`expdb rerun`."""

from __future__ import annotations

import shlex

import click

from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.resume import become
from expdb.text import plain


@click.command(cls=VerbCommand)
@click.argument("run")
@click.argument("overrides", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Print the command and stop.")
@click.option("-q", "--quiet", is_flag=True, help="Print the id of the new run, and no lines.")
@click.pass_obj
def rerun(
    context: Context, run: str, overrides: tuple[str, ...], dry_run: bool, quiet: bool
) -> None:
    """Run the recorded command of RUN again as a new run, with OVERRIDES appended.

    It starts from scratch, in the work tree of RUN as it stands. The command takes the place of
    this process.
    """
    from expdb.actions.rerun import plan_rerun

    out = context.out
    with context.reader(warn_unfinished=False) as reader:
        own = (*overrides, "expdb.print=quiet") if quiet else overrides
        plan = plan_rerun(reader, context.resolve(reader, run), own)
    if plan.code:
        out.warning(plan.code)
        who = out.talk_style.run(plan.run.id)
        out.hint(f"with the code of then: expdb rollback {who} --worktree DIR")
    command = shlex.join(plan.argv)
    if dry_run:
        out.lines([plain(command) if out.style.terminal else command])
        return
    if not quiet:
        out.talk(f"again      {out.talk_style.run(plan.run.id)} {plain(plan.run.name)}, a new run")
        out.talk(f"runs       {plain(command)}")
    out.flush()
    become(plan.argv, plan.cwd)
