"""`expdb best`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.context import Context


@click.command()
@click.argument("metric", required=False)
@options.where
@options.since
@options.study
@options.quiet
@options.as_json
@click.pass_obj
def best(
    context: Context,
    metric: str | None,
    where: tuple[str, ...],
    since: str | None,
    study: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Name the finished run that is best by METRIC, or by the declared objective."""
    from expdb.query.rank import ranking
    from expdb.report import json
    from expdb.report import ranking as report

    out = context.out
    with context.reader() as reader:
        chosen = context.where(reader, where, since=since, study=study)
        found = ranking(
            reader,
            metric,
            limit=1,
            head=context.head(),
            where=chosen.condition,
            params=chosen.params,
            is_alone=not as_json,
        )
        for warning in found.warnings:
            out.warning(warning)
        if as_json:
            out.json(json.best(found))
        elif quiet:
            out.lines([found.rows[0].id])
        else:
            out.lines([report.best_line(found, out.style)])
            # A rollback without a word weighs all runs by the objective of the ref.
            rolls_back = metric is None and chosen.is_all and "baseline" in reader.refs
            if said := report.best_hint(found, out.talk_style, rolls_back=rolls_back):
                out.hint(said)
