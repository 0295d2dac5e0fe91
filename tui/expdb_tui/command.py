"""`expdb tui`: the click command; textual is imported inside it."""

from __future__ import annotations

import os
import sys
from typing import Literal

import click

from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.errors import BadInput

PORT = 8400


@click.command(cls=VerbCommand)
@click.argument("run", required=False)
@click.option("--light", is_flag=True, help="Draw on a light ground; or set EXPDB_GROUND=light.")
@click.option("--serve", is_flag=True, help="Show it in a browser of this machine.")
@click.option("--port", default=PORT, show_default=True, help="The port of --serve.")
@click.pass_obj
def tui(context: Context, run: str | None, light: bool, serve: bool, port: int) -> None:
    """Browse runs in the terminal, or open RUN: `?` lists the keys, `q` quits.

    With --serve the address has a token: only who has it reaches the app.
    """
    store = context.open_store()
    found = None
    if run is not None:
        with context.reader() as reader:
            found = context.resolve(reader, run).run
    is_light = light or context.env.get("EXPDB_GROUND") == "light"
    if serve:
        from expdb_tui.serve import serve as serve_apps

        words = ["--store", str(store.root.resolve()), "tui", *([found] if found else [])]
        words += ["--light"] if is_light else []
        serve_apps(words, port=port, say=context.out.talk)
        return
    is_served = "WebDriver" in context.env.get("TEXTUAL_DRIVER", "")
    if not is_served:
        _take_terminal(context.env.get("TERM", ""))
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
    ground: Literal["dark", "light"] = "light" if is_light else "dark"
    app = ExpdbApp(
        session,
        ascii=context.out.style.ascii and not is_served,
        ground=ground,
        depth="true" if is_served else depth_of(context.env),
        run=found,
    )
    app.run()


def _take_terminal(term: str) -> None:
    """Refuse to draw where nothing can be drawn, and go by the size of the terminal itself.

    Raises:
        BadInput: there is no terminal, or one that knows no commands.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("the terminal app needs a terminal", hint="expdb ls")
    if term in ("dumb", "unknown"):
        raise BadInput(f"the terminal app needs a terminal, and TERM is {term}", hint="expdb ls")
    # A size that a parent has exported holds only until somebody resizes the window.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
