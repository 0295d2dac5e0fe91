"""`expdb tui`: the click command; textual is imported inside it."""

from __future__ import annotations

import sys
from typing import Literal

import click

from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.errors import BadInput


@click.command(cls=VerbCommand)
@click.pass_obj
def tui(context: Context) -> None:
    """Browse runs in the terminal: ? lists the keys, q quits."""
    store = context.open_store()
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or context.env.get("TERM") == "dumb":
        raise BadInput("the terminal app needs a terminal", hint="expdb ls")
    from expdb_tui.app import ExpdbApp
    from expdb_tui.palette import depth_of
    from expdb_tui.session import Session

    session = Session(
        store=store,
        directory=context.directory,
        head_of=context.head,
        worktree_of=lambda: context.worktree,
        declared_of=lambda: list(context.declared()),
    )
    ground: Literal["dark", "light"] = (
        "light" if context.env.get("EXPDB_GROUND") == "light" else "dark"
    )
    ExpdbApp(
        session, ascii=context.out.style.ascii, ground=ground, depth=depth_of(context.env)
    ).run()
