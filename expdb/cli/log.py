"""`expdb log`."""

from __future__ import annotations

from typing import Any

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand, too_many
from expdb.cli.context import Context
from expdb.cli.forms import say_rest
from expdb.cli.ls import ls


@click.command(cls=VerbCommand)
@click.argument("runs", nargs=-1, metavar="[RUN]")
@click.option("--graph", is_flag=True, help="Trees, oldest first: what changed, and its effect.")
@click.option("--why", metavar="METRIC", help="Which change moved METRIC, on the way to RUN.")
@options.limit
@options.where
@options.since
@options.study
@options.quiet_as("ids, one a line; with --why the names of what moved it")
@options.as_json
@options.as_csv
@options.as_md
@options.as_jsonl
@click.pass_context
def log(
    ctx: click.Context, /, runs: tuple[str, ...], graph: bool, why: str | None, **asked: Any
) -> None:
    """List runs as `ls` does, newest first; with --graph as trees of parents.

    Seeds of one experiment fold in a tree, and are measured against the same seeds of the parent's
    experiment where those exist. The newest N runs are shown with all their ancestors.

    With --why, a change has an effect by the runs that differ in it alone: on the way from the root
    to RUN, beside it, or without RUN in the whole store. What changed together with something else
    is confounded, and has none.
    """
    if len(runs) > (why is not None):
        raise too_many(ctx, runs)
    if not graph and why is None:
        ctx.invoke(ls, **asked)
        return
    rows = {name: asked.pop(f"as_{name}") for name in ("csv", "md", "jsonl")}
    if any(rows.values()):
        raise click.UsageError("a graph is no table: --graph goes with --json, not with --csv")
    context = ctx.ensure_object(Context)
    if why is None:
        _graph(context, **asked)
        return
    if graph or asked["where"] or asked["since"] or asked["study"]:
        raise click.UsageError("--why looks at all runs: it goes without --graph, -w and --since")
    run = runs[0] if runs else None
    _why(context, why, run, asked["limit"], quiet=asked["quiet"], as_json=asked["as_json"])


def _why(
    context: Context, metric: str, run: str | None, limit: int, *, quiet: bool, as_json: bool
) -> None:
    from expdb.query.why import why
    from expdb.report import json_why
    from expdb.report import why as report

    out = context.out
    with context.reader() as reader:
        target = None if run is None else context.resolve(reader, run).run
        found = why(reader, metric, run=target, head=context.head())
        for warning in found.warnings:
            out.warning(warning)
        if as_json:
            out.json(json_why.why(found))
        elif quiet:
            out.lines(report.names_moved(found))
        else:
            out.lines(report.render(found, out.style, limit=limit), page=True)
            out.next(report.next_commands(found, out.talk_style))


def _graph(
    context: Context,
    *,
    limit: int,
    where: tuple[str, ...],
    since: str | None,
    study: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    from expdb.query.history import history
    from expdb.report import at_once, graph, json_history

    out = context.out
    with context.reader() as reader:
        chosen = context.where(reader, where, since=since, study=study)
        found = history(
            reader,
            cwd=context.directory,
            head=context.head(),
            limit=limit,
            where=chosen.sql,
            params=chosen.params,
        )
        for warning in found.warnings:
            out.warning(warning)
        if as_json:
            out.json(json_history.history(found))
        elif quiet:
            out.lines([row.id for node in found.nodes for row in node.rows])
        elif found.nodes:
            lines = graph.render(found, out.style)
            apart = at_once.of_history(found, out.style)
            out.lines([*lines, *(["", *apart] if apart else [])], page=True)
            out.next(at_once.next_of_history(found, out.talk_style))
            say_rest(out, "text", found.num_shown, found.num_all, limit, "runs")
        elif chosen.is_all:
            out.talk(f"no runs yet in the store {out.talk_style.say(reader.store.name)}")
            out.hint("python train.py +exp=baseline")
        else:
            out.talk("no run is selected")
            out.hint("all runs: expdb log --graph")
