"""`expdb pull`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.context import Context


@click.command()
@click.argument("remote_or_run", nargs=-1, metavar="[REMOTE] [RUN...]")
@options.where
@click.option("--dry-run", is_flag=True, help="Print what would come as data; write nothing.")
@options.quiet_as("ids of the runs that came, one a line")
@options.as_json
@click.pass_obj
def pull(
    context: Context,
    remote_or_run: tuple[str, ...],
    where: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Bring runs of REMOTE, all or those named or selected, into this store, with their code.

    RUN is an id, its beginning, or an experiment, as the remote has them, and so are the runs that
    a filter looks at. No ref here moves: those of others are REMOTE/ref. Whatever in the remote is
    not sound is refused by name.
    """
    from expdb.actions.pull import pull as action
    from expdb.cli import exchanged
    from expdb.cli.progress import Progress

    store = context.open_store()
    remote, words = exchanged.remote_and_runs(store, remote_or_run)
    if words and where:
        raise click.UsageError("RUN and -w exclude each other")
    with Progress(context.out, "pulling", "bytes") as progress:
        done = action(
            store,
            remote,
            words,
            where=where,
            worktree=context.worktree,
            dry_run=dry_run,
            tick=progress,
        )
    return exchanged.say(context, done, quiet=quiet, as_json=as_json)
