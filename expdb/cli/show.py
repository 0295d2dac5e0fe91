"""`expdb show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context

if TYPE_CHECKING:
    from expdb.index.reader import Reader
    from expdb.model import Run


@click.command(cls=VerbCommand)
@click.argument("run")
@click.option("--digest", "digest_only", is_flag=True, help="What the config digest is about.")
@click.option("--health", is_flag=True, help="What is wrong with it, why, and what to do.")
@options.all_rows
@options.quiet_id
@options.as_json
@click.pass_obj
def show(
    context: Context,
    run: str,
    digest_only: bool,
    health: bool,
    all_rows: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Show everything about RUN that decides something.

    --health says what rules found and what looked fine, the likely causes with the reason for the
    place of each, and what to type: repeat it, then look at the data, then at hyper-parameters.
    """
    from expdb.cli.shown import gates_of, lines_of_run
    from expdb.query.kin import against_base
    from expdb.query.media import RunMedia, media_of
    from expdb.report import at_once, json

    out = context.out
    with context.reader() as reader:
        found = reader.run(context.resolve(reader, run).run)
        for problem in found.problems:
            out.warning(f"{problem} ({out.talk_style.run(found.id)})")
        if health and not quiet:
            _health(context, reader, found, as_json)
            return
        media = RunMedia() if quiet or digest_only else media_of(reader.run_dir(found.id))
        for problem in media.problems:
            if problem not in found.problems:
                out.warning(f"{problem} ({out.talk_style.run(found.id)})")
        if as_json:
            out.json(json.shown(found, media, gates_of(reader, found)))
        elif quiet:
            out.lines([found.id])
        elif digest_only:
            out.lines(_digest_lines(reader, found, context))
        else:
            path = context.shown(reader.store.root / found.path)
            based = against_base(reader, found)
            lines = lines_of_run(
                reader, found, out.style, path=path, media=media, based=based, all=all_rows
            )
            out.lines(lines)
            if based is not None:
                out.next(at_once.next_commands(based[1], out.talk_style))


def _health(context: Context, reader: Reader, run: Run, as_json: bool) -> None:
    from expdb.query.health import health_of
    from expdb.report import health as report

    found = health_of(reader, run)
    if as_json:
        context.out.json(report.json_of_health(found))
        return
    context.out.lines(report.render(found, context.out.style))
    context.out.next(report.next_commands(found))


def _digest_lines(reader: Reader, run: Run, context: Context) -> list[str]:
    from expdb.cli.shown import digest_parts
    from expdb.query.kin import against_base
    from expdb.report import digest_shown

    _, against = against_base(reader, run) or (None, None)
    return digest_shown.render(digest_parts(run), context.out.style, against=against)
