"""`expdb help`."""

from __future__ import annotations

import click

from expdb.cli.command import VerbCommand
from expdb.cli.context import Context


@click.command(cls=VerbCommand)
@click.argument("verb", required=False)
@click.pass_context
def help_(ctx: click.Context, verb: str | None) -> None:
    """List the verbs, or say what VERB does: as `expdb VERB --help`."""
    root = ctx.find_root()
    if verb is not None and isinstance(root.command, click.Group):
        name, command, _ = root.command.resolve_command(root, [verb])
        if command is not None:
            root = click.Context(command, info_name=name, parent=root)
    ctx.ensure_object(Context).out.lines(root.get_help().splitlines())
