"""`expdb best`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context

if TYPE_CHECKING:
    from expdb.index.reader import Reader
    from expdb.query.select import Where


@click.command(cls=VerbCommand)
@click.argument("metric", required=False)
@options.where
@options.since
@options.study
@options.over
@options.quiet_id
@options.as_json
@click.pass_obj
def best(
    context: Context,
    metric: str | None,
    where: tuple[str, ...],
    since: str | None,
    study: str | None,
    over: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Name the finished run that is best by METRIC, or by the declared objective.

    Over seeds, name the experiment with the best mean; -q gives the ids of its runs.
    """
    from expdb.query.rank import ranking
    from expdb.report import json
    from expdb.report import ranking as report

    out = context.out
    with context.reader() as reader:
        chosen = context.where(reader, where, since=since, study=study)
        if over:
            _over_seeds(context, reader, metric, chosen, quiet=quiet, as_json=as_json)
            return
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


def _over_seeds(
    context: Context,
    reader: Reader,
    metric: str | None,
    chosen: Where,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    from expdb.query.seeds import over_seeds
    from expdb.report import seeds, seeds_json

    out = context.out
    found = over_seeds(
        reader,
        metric,
        limit=1,
        head=context.head(),
        where=chosen.condition,
        params=chosen.params,
    )
    for warning in found.warnings:
        out.warning(warning)
    if as_json:
        out.json(seeds_json.best(found))
    elif quiet:
        out.lines(found.groups[0].runs)
    else:
        out.lines([seeds.best_line(found, out.style)])
        if said := seeds.best_hint(found, out.talk_style):
            out.hint(said)
