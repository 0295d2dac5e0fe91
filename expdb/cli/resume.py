"""`expdb resume`."""

from __future__ import annotations

import os
import shlex
import sys

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.errors import NotFound, Refused
from expdb.text import plain

MAX_SKIPPED = 10**9


@click.command(cls=VerbCommand)
@click.argument("run")
@click.option(
    "--skip-batches",
    metavar="N",
    type=options.Whole(0, MAX_SKIPPED),
    default=0,
    help="Leave out the data of the next N updates: accum micro-batches each, on every rank.",
)
@click.option(
    "--lr-scale",
    metavar="X",
    type=options.Positive(),
    default=1.0,
    help="Multiply every learning rate by X from there on, whatever the schedule says.",
)
@click.option("--dry-run", is_flag=True, help="Print the command and stop.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def resume(
    context: Context, run: str, skip_batches: int, lr_scale: float, dry_run: bool, yes: bool
) -> None:
    """Take up RUN again from its last good checkpoint, or RUN@STEP from that one: its own command,
    the same run.

    From an earlier step, what the run logged after it is hidden, and kept (export --attempts). A
    spike comes back where the same data meet the same weights: leave them out, or train slower.
    The command takes the place of this process, so signals reach the training itself.
    """
    from expdb.actions.resume import plan_resume

    out = context.out
    with context.reader(warn_unfinished=False) as reader:
        found = context.resolve(reader, run)
        plan = plan_resume(reader, found, skip_batches=skip_batches, lr_scale=lr_scale)
    command = shlex.join(plan.argv)
    if dry_run:
        out.lines([plain(command) if out.style.terminal else command])
        return
    if plan.question and not yes:
        answer = out.ask(plan.question)
        if answer is None:
            raise Refused(plan.question.rstrip("?"), hint=_again(run, skip_batches, lr_scale))
        if not answer:
            raise Refused("not resumed; nothing written")
    name = plain(plan.run.name)
    out.talk(f"resume     {out.talk_style.run(plan.run.id)} {name}: {plain(plan.note)}")
    out.talk(f"runs       {plain(command)}")
    out.flush()
    become(plan.argv, plan.cwd)


def _again(run: str, skip_batches: int, lr_scale: float) -> str:
    words = [f"--skip-batches {skip_batches}"] if skip_batches else []
    words += [f"--lr-scale {lr_scale!r}"] if lr_scale != 1.0 else []
    return " ".join(["expdb resume", shlex.quote(run), *words, "-y"])


def become(argv: tuple[str, ...], cwd: str) -> None:
    """Replace this process by the command, in the folder that it was started in.

    A recorded `python` is the one that runs expdb: the environment that has what the run needs.
    """
    program = sys.executable if argv[0] == "python" else argv[0]
    try:
        if cwd:
            os.chdir(cwd)
        os.execvp(program, [program, *argv[1:]])
    except FileNotFoundError as error:
        raise NotFound(f"cannot run {plain(str(error.filename or argv[0]))}: not found") from None
