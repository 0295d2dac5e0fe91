"""`expdb ls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.forms import Form, Forms, form_of, say_rest

if TYPE_CHECKING:
    from expdb.cli.output import Output
    from expdb.index.reader import Reader
    from expdb.query.results import Listing
    from expdb.query.select import Where


@click.command(cls=VerbCommand)
@options.where
@options.since
@options.study
@click.option(
    "--sort", metavar="NAME", help="Order by a field, config key or metric; -NAME: greatest first."
)
@click.option(
    "--cols",
    metavar="NAMES",
    multiple=True,
    help="Columns: +optim.lr,-code adds and removes; run,val/loss is a list of its own.",
)
@options.over
@options.limit
@options.quiet
@options.as_json
@options.as_csv
@options.as_md
@options.as_jsonl
@click.pass_obj
def ls(
    context: Context,
    where: tuple[str, ...],
    since: str | None,
    study: str | None,
    sort: str | None,
    cols: tuple[str, ...],
    over: str | None,
    limit: int,
    quiet: bool,
    as_json: bool,
    as_csv: bool,
    as_md: bool,
    as_jsonl: bool,
) -> None:
    """List runs, newest first.

    `*` is HEAD, `[name]` refs and tags; `7c1e88a+` means edits on top, kept as a snapshot. A filter
    compares fields (state seed step max_steps size label study age commit host experiment variant
    name run), config keys (optim.lr) and metrics (val/loss.best): -w 'optim.lr >= 1e-3 and state in
    (running, failed)'. A name or value with spaces stands in quotes.
    """
    from expdb.query.listing import listing

    form = form_of(quiet=quiet, json=as_json, csv=as_csv, md=as_md, jsonl=as_jsonl)
    if over and (sort or cols):
        raise click.UsageError("--sort and --cols are about runs, not about groups over seeds")
    with context.reader() as reader:
        chosen = context.where(reader, where, since=since, study=study)
        if over:
            _over_seeds(context, reader, chosen, limit, form)
            return
        found = listing(
            reader,
            head=context.head(),
            limit=limit,
            where=chosen.sql,
            params=chosen.params,
            sort=sort,
            columns=cols,
        )
        for warning in found.warnings:
            context.out.warning(warning)
        _print(context.out, found, form)
        if not found.rows and form in ("text", "md"):
            _say_nothing(context, reader)
        fewer = ", or filter: -w 'state = failed'" if chosen.is_all else ""
        say_rest(context.out, form, len(found.rows), found.num_all, limit, "runs", fewer)


def _print(out: Output, found: Listing, form: Form) -> None:
    from expdb.report import json
    from expdb.report import listing as report

    forms = Forms(
        document=lambda: json.listing(found),
        table=lambda: report.table(found),
        markdown=lambda: report.to_markdown(found, out.style),
        records=lambda: map(json.run_row, found.rows),
        ids=lambda: report.only_ids(found.rows),
    )
    if not forms.print(out, form):
        out.lines(report.render(found, out.style), page=True)


def _say_nothing(context: Context, reader: Reader) -> None:
    out = context.out
    is_empty = not reader.rows("SELECT 1 FROM runs LIMIT 1")
    store = out.talk_style.say(reader.store.name)
    out.talk(f"no runs yet in the store {store}" if is_empty else "no run is selected")
    out.hint("python train.py +exp=baseline" if is_empty else "all runs: expdb ls")


def _over_seeds(context: Context, reader: Reader, chosen: Where, limit: int, form: Form) -> None:
    from expdb.query.seeds import over_seeds
    from expdb.report import listing, seeds, seeds_json

    out = context.out
    found = over_seeds(
        reader,
        limit=limit,
        head=context.head(),
        where=chosen.sql,
        params=chosen.params,
        newest_first=True,
    )
    forms = Forms(
        document=lambda: seeds_json.groups(found),
        table=lambda: seeds.table(found),
        markdown=lambda: listing.grid_markdown(seeds.list_grid(found, listing.piped(out.style))),
        records=lambda: map(seeds_json.group, found.groups),
        ids=lambda: [run for group in found.groups for run in group.runs],
    )
    if not forms.print(out, form):
        out.lines(seeds.render_list(found, out.style), page=True)
    say_rest(out, form, len(found.groups), found.num_all, limit, "groups")
