"""`expdb rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.chosen import chosen
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context

if TYPE_CHECKING:
    from expdb.index.reader import Reader


@click.command(cls=VerbCommand)
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@options.where
@options.since
@options.study
@click.option("--dry-run", is_flag=True, help="Print what would go as data; write nothing.")
@click.option("--restore", is_flag=True, help="Bring back RUN or OP, else what went last.")
@click.option("--list", "listed", is_flag=True, help="List what is in the trash.")
@options.quiet
@options.as_json
@click.pass_obj
def rm(
    context: Context,
    runs: tuple[str, ...],
    where: tuple[str, ...],
    since: str | None,
    study: str | None,
    dry_run: bool,
    restore: bool,
    listed: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Move runs, named or selected, into the trash of the store; --restore brings them back.

    A run that is alive, that a ref or a tag names, or that is HEAD stays. Nothing is deleted.
    """
    is_selected = bool(where or since or study)
    if restore + listed + dry_run > 1 or (listed and runs) or ((restore or listed) and is_selected):
        raise click.UsageError("--restore, --list, --dry-run and -w exclude each other")
    if listed:
        _list(context, quiet=quiet, as_json=as_json)
        return
    with context.reader(warn_unfinished=dry_run) as reader:
        if restore:
            _restore(context, reader, runs, quiet=quiet, as_json=as_json)
            return
        found = chosen(context, reader, runs, where=where, since=since, study=study)
        _remove(context, reader, found, dry_run=dry_run, quiet=quiet, as_json=as_json)


def _remove(
    context: Context,
    reader: Reader,
    runs: list[str],
    *,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    from expdb.actions import rm as action
    from expdb.report import trash

    out = context.out
    plan = action.plan_removal(reader, runs, worktree=context.worktree)
    done = None if dry_run else action.remove(reader, plan, worktree=context.worktree)
    if as_json:
        out.json(trash.json_of_removal(plan, done))
    elif quiet:
        out.lines([run.id for run in plan.runs])
    elif done is None:
        out.lines(trash.render_removal(plan, out.style))
        out.talk("nothing written")
    else:
        for line in trash.render_removed(done, plan, out.talk_style):
            out.talk(line)
        out.next([("undo", "expdb undo"), ("look", "expdb rm --list")], gap=False)


def _restore(
    context: Context, reader: Reader, words: tuple[str, ...], *, quiet: bool, as_json: bool
) -> None:
    from expdb.actions.restore import restore
    from expdb.report import trash

    out = context.out
    done = restore(reader, words, worktree=context.worktree)
    if as_json:
        out.json(trash.json_of_restored(done))
    elif quiet:
        out.lines([run for run, _ in done.runs])
    else:
        for line in trash.render_restored(done, out.talk_style):
            out.talk(line)


def _list(context: Context, *, quiet: bool, as_json: bool) -> None:
    from expdb.report import trash
    from expdb.store.trash import entries

    out = context.out
    found = entries(context.open_store().layout)
    if as_json:
        out.json(trash.json_of_trash(found))
    elif quiet:
        out.lines([one.run for one in found])
    elif found:
        out.lines(trash.render_trash(found, out.style), page=True)
    else:
        out.talk("the trash is empty")
