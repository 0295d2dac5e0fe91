"""`expdb ops`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context


@click.command(cls=VerbCommand)
@click.option("--all", "all_trees", is_flag=True, help="Also the ops of other work trees.")
@options.quiet_as("the ids of ops, one a line")
@options.as_json
@click.pass_obj
def ops(context: Context, all_trees: bool, quiet: bool, as_json: bool) -> None:
    """List what was changed, newest first; `*` is where this work tree stands."""
    from expdb.actions.ops import op_rows
    from expdb.report import json
    from expdb.report import ops as report

    out = context.out
    problems: list[str] = []
    store = context.open_store()
    rows = op_rows(store, context.worktree, all_trees=all_trees, problems=problems)
    for problem in problems:
        out.warning(problem)
    if as_json:
        out.json(json.ops(rows))
    elif quiet:
        out.lines([row.id for row in rows])
    elif rows:
        out.lines(report.render_ops(rows, out.style))
    else:
        out.talk("nothing was changed yet")
