"""`expdb undo`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context


@click.command(cls=VerbCommand)
@click.argument("op", required=False)
@click.option("--force", is_flag=True, help="Save single files in the way first, and go on.")
@options.quiet_as("the id of the op")
@options.as_json
@click.pass_obj
def undo(context: Context, op: str | None, force: bool, quiet: bool, as_json: bool) -> None:
    """Take back OP, or the newest change of this work tree that is not undone yet."""
    from expdb.actions.undo import undo as take_back
    from expdb.report import json
    from expdb.report import ops as report
    from expdb.store.ops import read_ops
    from expdb.text import id_length

    out = context.out
    with context.reader(warn_unfinished=False) as reader:
        problems: list[str] = []
        try:
            found = take_back(reader, context.worktree, op, force=force, problems=problems)
        finally:
            for problem in problems:
                out.warning(problem)
        if as_json:
            out.json(json.document(op=found.op, undone=found.undone.id, paths=found.num_paths))
        elif quiet:
            out.lines([found.op])
        else:
            for line in report.render_undo(found, out.talk_style):
                out.talk(line)
            short = id_length(op.id for op in read_ops(reader.store.layout, problems=[]))
            out.next([("again", f"expdb undo {found.op[:short]}")], gap=False)
