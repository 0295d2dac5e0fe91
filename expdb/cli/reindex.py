"""`expdb reindex`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode


@click.command(cls=VerbCommand)
@options.as_json
@click.pass_obj
def reindex(context: Context, as_json: bool) -> ExitCode:
    """Build the index of the store again, from the run folders alone."""
    from expdb.actions.reindex import reindex as build_again
    from expdb.report import json
    from expdb.report.words import counted
    from expdb.text import duration

    out = context.out
    done = build_again(context.open_store())
    for warning in done.warnings:
        out.warning(warning)
    if as_json:
        out.json(json.document(num_runs=done.num_runs, seconds=done.seconds))
    else:
        out.talk(f"indexed {counted(done.num_runs, 'run')} in {duration(done.seconds)}")
    return ExitCode.STORE if done.left_out else ExitCode.OK
