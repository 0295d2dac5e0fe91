"""`expdb init`."""

from __future__ import annotations

from pathlib import Path

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context


@click.command(cls=VerbCommand)
@click.argument("folder", required=False, metavar="[DIR]")
@options.quiet_as("the folder of the store")
@options.as_json
@click.pass_obj
def init(context: Context, folder: str | None, quiet: bool, as_json: bool) -> None:
    """Make an empty store: `runs` at the top of the repository, or DIR.

    A DIR that has other files in it gets the store as DIR/runs. A store that is there stays.
    """
    from expdb.actions.init import init_store
    from expdb.report import json
    from expdb.text import plain

    out = context.out
    explicit = context.explicit_store or context.env.get("EXPDB_STORE") or None
    done = init_store(context.directory, folder, explicit=explicit)
    shown = plain(context.shown(Path(done.path)))
    if as_json:
        out.json(json.document(store=shown, id=done.id, created=done.created))
    elif quiet:
        out.lines([shown])
    elif not done.created:
        out.talk(f"there is a store already: {shown}")
    else:
        out.talk(f"made the store {shown}")
        out.talk()
        out.talk("in your training script:")
        for line in (
            "import expdb",
            "run = expdb.start(cfg)",
            'run.log({"train/loss": loss}, step)',
        ):
            out.talk(f"    {line}")
        out.next([("run", "python train.py"), ("look", "expdb ls")])
