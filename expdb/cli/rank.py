"""`expdb rank`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from expdb.cli import options
from expdb.cli.context import Context

if TYPE_CHECKING:
    from expdb.index.reader import Reader
    from expdb.query.results import Ranking
    from expdb.query.seed_results import SeedGroups


@click.command()
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
    from expdb.query.seeds import over_seeds

    options.at_most_one(json=as_json, csv=as_csv, md=as_md, jsonl=as_jsonl)
    kinds = {"json": as_json, "csv": as_csv, "md": as_md, "jsonl": as_jsonl, "quiet": quiet}
    kind = next((name for name, is_asked in kinds.items() if is_asked), "text")
    out = context.out
    with context.reader() as reader:
        chosen = context.where(reader, where, since=since, study=study)
        asked: dict[str, Any] = {
            "mode": mode,
            "reading": reading,
            "limit": limit,
            "head": context.head(),
            "where": "" if chosen.sql == "true" else chosen.sql,
            "params": chosen.params,
        }
        if over:
            groups = over_seeds(reader, metric, **asked)
            _say(context, reader, groups)
            _print_groups(context, groups, kind)
        else:
            found = ranking(reader, metric, **asked)
            _say(context, reader, found)
            _print(context, found, kind, metric, is_whole=len(found.rows) < limit)
            if kind == "text" and len(found.rows) == limit:
                out.hint(f"the first {limit:,}; more: -n {limit * 4}")


def _say(context: Context, reader: Reader, found: Ranking | SeedGroups) -> None:
    """Say what runs are measured against, and what is doubtful."""
    from expdb.query.seed_results import SeedGroups
    from expdb.report.ranking import said_of_baseline
    from expdb.report.seeds import said_of_group

    said = said_of_baseline(found.baseline, is_ref="baseline" in reader.refs)
    if said and isinstance(found, SeedGroups):
        said += said_of_group(found)
    if said:
        context.out.resolution(said)
    for warning in found.warnings:
        context.out.warning(warning)


def _print(
    context: Context, found: Ranking, kind: str, metric: str | None, *, is_whole: bool
) -> None:
    from expdb.report import json, rows_out
    from expdb.report import ranking as report
    from expdb.report.listing import only_ids

    out = context.out
    if kind == "json":
        out.json(json.ranking(found))
    elif kind == "csv":
        out.text(rows_out.write_csv(*report.table(found)))
    elif kind == "md":
        out.lines(report.to_markdown(found, out.style))
    elif kind == "jsonl":
        out.text(rows_out.jsonl(json.run_row(row) for row in found.rows))
    elif kind == "quiet":
        out.lines(only_ids(found.rows))
    else:
        out.lines(report.render(found, out.style, is_whole=is_whole))
        out.next(report.next_commands(found, metric))


def _print_groups(context: Context, found: SeedGroups, kind: str) -> None:
    from expdb.report import listing, rows_out, seeds, seeds_json

    out = context.out
    if kind == "json":
        out.json(seeds_json.groups(found))
    elif kind == "csv":
        out.text(rows_out.write_csv(*seeds.table(found)))
    elif kind == "md":
        out.lines(listing.grid_markdown(seeds.rank_grid(found, listing.piped(out.style))))
    elif kind == "jsonl":
        out.text(rows_out.jsonl(seeds_json.group(one) for one in found.groups))
    elif kind == "quiet":
        out.lines([run for group in found.groups for run in group.runs])
    else:
        out.lines(seeds.render_rank(found, out.style))
        out.next(seeds.next_commands(found))
