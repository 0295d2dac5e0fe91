"""`expdb path`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand, Words
from expdb.cli.context import Context


@click.command(cls=VerbCommand)
@click.argument("run")
@click.argument(
    "what",
    required=False,
    type=Words(["run", "config", "points", "checkpoint", "log"], steps=True),
)
@options.quiet_id
@options.as_json
@click.pass_obj
def path(context: Context, run: str, what: str | None, quiet: bool, as_json: bool) -> None:
    """Print the absolute path of RUN, or of a part of it; RUN@STEP is a checkpoint."""
    from expdb.query.path import run_path
    from expdb.report import json

    out = context.out
    with context.reader() as reader:
        resolved = context.resolve(reader, run)
        found = run_path(reader, resolved, what)
        if as_json:
            out.json(json.document(run=resolved.run, step=resolved.step, path=str(found)))
        elif quiet:
            out.lines([resolved.run])
        else:
            out.lines([str(found)])
