"""`expdb gc`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.chosen import chosen
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode
from expdb.errors import Refused

if TYPE_CHECKING:
    from expdb.actions.gc.collect import Wanted


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@options.where
@options.since
@options.study
@click.option(
    "--last", type=click.IntRange(1), metavar="N", help="Keep the newest N, not as declared."
)
@click.option(
    "--best", type=click.IntRange(0), metavar="N", help="Keep the best N, not as declared."
)
@click.option(
    "--purge", metavar="AGE", help="Delete for good what is in the trash for AGE: 30d, 0d."
)
@click.option("--dry-run", is_flag=True, help="Print what would go as data; write nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options.all_rows
@options.quiet
@options.as_json
@click.pass_obj
def gc(
    context: Context,
    runs: tuple[str, ...],
    where: tuple[str, ...],
    since: str | None,
    study: str | None,
    last: int | None,
    best: int | None,
    purge: str | None,
    dry_run: bool,
    yes: bool,
    all_rows: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Set aside checkpoints beyond what each run keeps (expdb.keep), and drop pins nobody needs.

    Checkpoints go to the trash, and `expdb undo` brings them back; only --purge deletes. What a
    ref, a tag, a fork or a later eval names stays. --dry-run --all says why each stays or goes.
    Runs of more than 8 parts are folded, lists of packages that no run names go to the trash.
    """
    from expdb.actions.gc.collect import collect, plan_gc
    from expdb.report import gc as report

    out = context.out
    with context.reader(warn_unfinished=dry_run) as reader:
        is_chosen = bool(runs or where or since or study)
        found = (
            chosen(context, reader, runs, where=where, since=since, study=study)
            if is_chosen
            else None
        )
        wanted = _wanted(found, last, best, purge)
        plan = plan_gc(reader, wanted, now_ms=out.style.now_ms, worktree=context.worktree)
        for problem in plan.problems:
            out.warning(problem)
        if dry_run and as_json:
            out.json(report.document(plan, None))
        elif dry_run and quiet:
            out.lines([item.path for item in plan.going()])
        elif dry_run:
            out.lines(report.render_plan(plan, out.style, all=all_rows), page=True)
        elif not quiet:
            for line in report.render_plan(plan, out.talk_style, all=all_rows):
                out.talk(line)
        if dry_run:
            out.talk("nothing written")
            return ExitCode.OK
        if plan.going() and not (yes or _agreed(context, purge)):
            out.talk("nothing written")
            return ExitCode.REFUSED
        done = collect(reader, plan, wanted, worktree=context.worktree)
        if as_json:
            out.json(report.document(plan, done))
        elif quiet:
            out.lines([item.path for item in done.done])
        elif plan.going():
            for line in report.render_result(done, out.talk_style):
                out.talk(line)
            out.next(report.next_commands(done, plan), gap=False)
    return ExitCode.OK


def _wanted(
    runs: list[str] | None, last: int | None, best: int | None, purge: str | None
) -> Wanted:
    from expdb.actions.gc.checkpoints import Override
    from expdb.actions.gc.collect import Wanted
    from expdb.query.filters.durations import duration_ms
    from expdb.text import plain

    age = None if purge is None else duration_ms(purge)
    if purge is not None and age is None:
        raise click.UsageError(f"--purge {plain(purge)} is no age; one of: 30d, 12h, 0d")
    return Wanted(runs=runs, rule=Override(last=last, best=best), purge_ms=age)


def _agreed(context: Context, purge: str | None) -> bool:
    question = "collect?" if purge is None else "collect, and delete from the trash for good?"
    answer = context.out.ask(question)
    if answer is None:
        raise Refused("gc asks first, and there is no terminal", hint="expdb gc -y")
    return answer
