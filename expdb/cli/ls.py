"""`expdb ls`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.context import Context


@click.command()
@click.option(
    "-n", "limit", metavar="N", type=click.IntRange(min=1), default=50, help="Rows at most (50)."
)
@options.quiet
@options.as_json
@click.pass_obj
def ls(context: Context, limit: int, quiet: bool, as_json: bool) -> None:
    """List runs, newest first.

    `*` is HEAD, `[name]` refs and tags; `7c1e88a+` means edits on top, kept as a snapshot.
    """
    from expdb.query.runs import listing
    from expdb.report import json
    from expdb.report import listing as report

    out = context.out
    with context.reader() as reader:
        found = listing(reader, head=context.head(), limit=limit)
        for warning in found.warnings:
            out.warning(warning)
        if as_json:
            out.json(json.listing(found))
        elif quiet:
            out.lines(report.only_ids(found.rows))
        elif found.rows:
            out.lines(report.render(found, out.style), page=True)
        else:
            out.talk(f"no runs yet in the store {out.talk_style.say(reader.store.name)}")
            out.hint("python train.py +exp=baseline")
        hidden = found.num_all - len(found.rows)
        if hidden > 0 and not (quiet or as_json):
            more = min(found.num_all, limit * 4)
            out.hint(f"{len(found.rows):,} of {found.num_all:,} runs; more: -n {more}")
