"""`expdb rank`."""

from __future__ import annotations

from typing import Literal

import click

from expdb.cli import options
from expdb.cli.context import Context


@click.command()
@click.argument("metric", required=False)
@click.option("--min", "mode", flag_value="min", help="Lower is better.")
@click.option("--max", "mode", flag_value="max", help="Higher is better.")
@click.option(
    "--reading",
    type=click.Choice(["last", "best", "mean_last_3"]),
    help="Which value of a series counts.",
)
@click.option(
    "-n", "limit", metavar="N", type=click.IntRange(min=1), default=50, help="Rows at most (50)."
)
@options.quiet
@options.as_json
@click.pass_obj
def rank(
    context: Context,
    metric: str | None,
    mode: Literal["min", "max"] | None,
    reading: Literal["last", "best", "mean_last_3"] | None,
    limit: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Order runs by METRIC, or by the declared objective.

    Runs that noise cannot tell from the first stand above the line with the dot.
    """
    from expdb.query.rank import ranking
    from expdb.report import json
    from expdb.report import ranking as report
    from expdb.report.listing import only_ids

    out = context.out
    with context.reader() as reader:
        found = ranking(
            reader, metric, mode=mode, reading=reading, limit=limit, head=context.head()
        )
        for warning in found.warnings:
            out.warning(warning)
        if as_json:
            out.json(json.ranking(found))
        elif quiet:
            out.lines(only_ids(found.rows))
        else:
            out.lines(report.render(found, out.style, is_whole=len(found.rows) < limit))
            out.next(report.next_commands(found))
            if len(found.rows) == limit:
                out.hint(f"the first {limit:,}; more: -n {limit * 4}")
