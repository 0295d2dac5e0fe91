"""`expdb push`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.context import Context


@click.command()
@click.argument("remote_or_run", nargs=-1, metavar="[REMOTE] [RUN...]")
@options.where
@click.option("--dry-run", is_flag=True, help="Print what would be copied as data; write nothing.")
@options.quiet_as("ids of the runs that were copied, one a line")
@options.as_json
@click.pass_obj
def push(
    context: Context,
    remote_or_run: tuple[str, ...],
    where: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Copy runs, all or those named or selected, to REMOTE, with their code, refs and ops.

    What is there already is not copied again, and nothing is removed there. A run that goes on is
    left for later; one that the remote has with other content is refused. Interrupted, it goes on
    with the next push.
    """
    from expdb.actions.push import push as action
    from expdb.cli import exchanged
    from expdb.cli.chosen import chosen
    from expdb.cli.progress import Progress

    with context.reader(warn_unfinished=False) as reader:
        remote, words = exchanged.remote_and_runs(reader.store, remote_or_run)
        runs = chosen(context, reader, words, where=where) if words or where else None
        with Progress(context.out, "pushing", "bytes") as progress:
            done = action(
                reader,
                remote,
                runs,
                worktree=context.worktree,
                dry_run=dry_run,
                tick=progress,
            )
    return exchanged.say(context, done, quiet=quiet, as_json=as_json)
