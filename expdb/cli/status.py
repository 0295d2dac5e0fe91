"""`expdb status`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context


@click.command(cls=VerbCommand)
@options.quiet_as("the experiments that need a run, one a line")
@options.as_json
@click.pass_obj
def status(context: Context, quiet: bool, as_json: bool) -> None:
    """Show the work tree against HEAD, and the newest run of every experiment and seed."""
    from expdb.query.status import store_status
    from expdb.report import json
    from expdb.report import status as report

    out = context.out
    with context.reader(warn_unfinished=False) as reader:
        head = context.head()
        found = store_status(reader, cwd=context.directory, head=head, deltas=as_json)
        for warning in found.warnings:
            out.warning(warning)
        if as_json:
            out.json(json.status(found))
        elif quiet:
            out.lines(report.need_a_run(found))
        else:
            out.lines(report.render(found, out.style))
            out.next(report.next_commands(found, out.style))
