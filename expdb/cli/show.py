"""`expdb show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.context import Context

if TYPE_CHECKING:
    from expdb.index.reader import Reader
    from expdb.model import Run
    from expdb.query.compare_results import Comparison


@click.command()
@click.argument("run")
@click.option("--digest", "digest_only", is_flag=True, help="What the config digest is about.")
@options.all_rows
@options.quiet
@options.as_json
@click.pass_obj
def show(
    context: Context, run: str, digest_only: bool, all_rows: bool, quiet: bool, as_json: bool
) -> None:
    """Show everything about RUN that decides something."""
    from expdb.cli.shown import lines_of_run
    from expdb.query.media import RunMedia, media_of
    from expdb.report import json

    out = context.out
    with context.reader() as reader:
        found = reader.run(context.resolve(reader, run).run)
        for problem in found.problems:
            out.warning(f"{problem} ({out.talk_style.run(found.id)})")
        media = RunMedia() if quiet or digest_only else media_of(reader.run_dir(found.id))
        for problem in media.problems:
            if problem not in found.problems:
                out.warning(f"{problem} ({out.talk_style.run(found.id)})")
        if as_json:
            out.json(json.shown(found, media))
        elif quiet:
            out.lines([found.id])
        elif digest_only:
            out.lines(_digest_lines(reader, found, context))
        else:
            path = context.shown(reader.store.root / found.path)
            style = out.style
            out.lines(lines_of_run(reader, found, style, path=path, media=media, all=all_rows))


def _digest_lines(reader: Reader, run: Run, context: Context) -> list[str]:
    from expdb.cli.shown import against_parent, digest_parts
    from expdb.report import digest_shown

    against: Comparison | None = against_parent(reader, run)
    return digest_shown.render(digest_parts(run), context.out.style, against=against)
