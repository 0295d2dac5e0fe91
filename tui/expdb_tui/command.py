"""`expdb tui`: the click command; textual is imported inside it."""

from __future__ import annotations

import sys

import click

from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.errors import BadInput


@click.command(cls=VerbCommand)
@click.pass_obj
def tui(context: Context) -> None:
    """Browse runs in the terminal: Enter opens a run, r refreshes, q quits."""
    store = context.open_store()
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or context.env.get("TERM") == "dumb":
        raise BadInput("the terminal app needs a terminal", hint="expdb ls")
    from expdb_tui.app import RunsApp
    from expdb_tui.load import Source

    source = Source(store=store, head=context.head(), directory=context.directory)
    RunsApp(source, ascii=context.out.style.ascii).run()
