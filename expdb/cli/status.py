"""`expdb status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.declaration import declaration_here
from expdb.cli.exit import ExitCode

if TYPE_CHECKING:
    from expdb.query.declared_results import Declaration
    from expdb.store.store import Store


@click.command(cls=VerbCommand)
@options.quiet_as("the experiments that need a run, one a line")
@click.option("--exit-code", is_flag=True, help="Exit with 1 unless all that is declared is done.")
@options.as_json
@click.pass_obj
def status(context: Context, quiet: bool, exit_code: bool, as_json: bool) -> int:
    """Show the work tree against HEAD, and what is declared: done, stale, missing.

    Every file of conf/exp is composed as training composes it, with the seeds
    that it sweeps over. A run is stale if its config, or a file of the
    repository that it used, is another one now; the row says which.
    """
    from expdb.query.status import store_status
    from expdb.report import json_status
    from expdb.report import status as report

    out = context.out
    with context.reader(warn_unfinished=False) as reader:
        head = context.head()
        found = store_status(
            reader,
            cwd=context.directory,
            head=head,
            declared=_declared(context, reader.store),
            deltas=as_json,
        )
        for warning in found.warnings:
            out.warning(warning)
        if as_json:
            out.json(json_status.status(found))
        elif quiet:
            out.lines(report.need_a_run(found))
        else:
            out.lines(report.render(found, out.style))
            out.next(report.next_commands(found, out.style))
    is_well = not exit_code or report.is_up_to_date(found)
    return ExitCode.OK if is_well else ExitCode.CONDITION_FALSE


def _declared(context: Context, store: Store) -> Declaration | None:
    """Return what is declared here; None where there is no config."""
    from expdb.errors import NotFound

    try:
        return declaration_here(context, store)
    except NotFound:
        return None
