"""`expdb rank`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.forms import Form, Forms, form_of, say_rest

if TYPE_CHECKING:
    from expdb.cli.output import Output
    from expdb.index.reader import Reader
    from expdb.query.results import Ranking
    from expdb.query.seed_results import SeedGroups


@click.command(cls=VerbCommand)
@click.argument("metric", required=False)
@click.option("--min", "mode", flag_value="min", help="Lower is better.")
@click.option("--max", "mode", flag_value="max", help="Higher is better.")
@click.option(
    "--reading",
    type=click.Choice(["last", "best", "mean_last_3"]),
    help="Which value of a series counts.",
)
@options.where
@options.since
@options.study
@options.over
@options.limit
@options.quiet
@options.as_json
@options.as_csv
@options.as_md
@options.as_jsonl
@click.pass_obj
def rank(
    context: Context,
    metric: str | None,
    mode: Literal["min", "max"] | None,
    reading: Literal["last", "best", "mean_last_3"] | None,
    where: tuple[str, ...],
    since: str | None,
    study: str | None,
    over: str | None,
    limit: int,
    quiet: bool,
    as_json: bool,
    as_csv: bool,
    as_md: bool,
    as_jsonl: bool,
) -> None:
    """Order runs by METRIC, or by the declared objective.

    Runs that noise cannot tell from the first stand above the line with the dot. Over seeds, a mean
    is better than the baseline's only beyond the 95 % half-width of their difference.
    """
    from expdb.query.rank import ranking

    form = form_of(quiet=quiet, json=as_json, csv=as_csv, md=as_md, jsonl=as_jsonl)
    out = context.out
    with context.reader() as reader:
        chosen = context.where(reader, where, since=since, study=study)
        asked: dict[str, Any] = {
            "mode": mode,
            "reading": reading,
            "limit": limit,
            "head": context.head(),
            "where": chosen.condition,
            "params": chosen.params,
        }
        if over:
            from expdb.query.seeds import over_seeds

            groups = over_seeds(reader, metric, **asked)
            _say(context, reader, groups)
            _print_groups(out, groups, form)
            say_rest(out, form, len(groups.groups), groups.num_all, limit, "groups")
        else:
            found = ranking(reader, metric, **asked)
            _say(context, reader, found)
            is_whole = len(found.rows) == found.num_all
            _print(out, found, form, metric, is_whole=is_whole)
            say_rest(out, form, len(found.rows), found.num_all, limit, "runs")


def _say(context: Context, reader: Reader, found: Ranking | SeedGroups) -> None:
    """Say what runs are measured against, and what is doubtful."""
    from expdb.query.results import Ranking
    from expdb.report.ranking import said_of_baseline

    said = said_of_baseline(found.baseline, is_ref="baseline" in reader.refs)
    if said and not isinstance(found, Ranking):
        from expdb.report.seeds import said_of_group

        said += said_of_group(found)
    if said:
        context.out.resolution(said)
    for warning in found.warnings:
        context.out.warning(warning)


def _print(out: Output, found: Ranking, form: Form, metric: str | None, *, is_whole: bool) -> None:
    from expdb.report import json
    from expdb.report import ranking as report
    from expdb.report.listing import only_ids

    forms = Forms(
        document=lambda: json.ranking(found),
        table=lambda: report.table(found),
        markdown=lambda: report.to_markdown(found, out.style),
        records=lambda: map(json.run_row, found.rows),
        ids=lambda: only_ids(found.rows),
    )
    if not forms.print(out, form):
        out.lines(report.render(found, out.style, is_whole=is_whole))
        out.next(report.next_commands(found, metric))


def _print_groups(out: Output, found: SeedGroups, form: Form) -> None:
    from expdb.report import listing, seeds, seeds_json

    forms = Forms(
        document=lambda: seeds_json.groups(found),
        table=lambda: seeds.table(found),
        markdown=lambda: listing.grid_markdown(seeds.rank_grid(found, listing.piped(out.style))),
        records=lambda: map(seeds_json.group, found.groups),
        ids=lambda: [run for group in found.groups for run in group.runs],
    )
    if not forms.print(out, form):
        out.lines(seeds.render_rank(found, out.style))
        out.next(seeds.next_commands(found))
