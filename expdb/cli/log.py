"""`expdb log`."""

from __future__ import annotations

from typing import Any

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.forms import say_rest
from expdb.cli.ls import ls


@click.command(cls=VerbCommand)
@click.option("--graph", is_flag=True, help="Trees, oldest first: what changed, and its effect.")
@options.limit
@options.where
@options.since
@options.study
@options.quiet
@options.as_json
@options.as_csv
@options.as_md
@options.as_jsonl
@click.pass_context
def log(ctx: click.Context, /, graph: bool, **asked: Any) -> None:
    """List runs as `ls` does, newest first; with --graph as trees of parents.

    Seeds of one experiment fold in a tree, and are measured against the same seeds of the parent's
    experiment where those exist. The newest N runs are shown with all their ancestors.
    """
    if not graph:
        ctx.invoke(ls, **asked)
        return
    rows = {name: asked.pop(f"as_{name}") for name in ("csv", "md", "jsonl")}
    if any(rows.values()):
        raise click.UsageError("a graph is no table: --graph goes with --json, not with --csv")
    _graph(ctx.ensure_object(Context), **asked)


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
    from expdb.report import graph, json_history

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
            out.lines(graph.render(found, out.style), page=True)
            say_rest(out, "text", found.num_shown, found.num_all, limit, "runs")
        elif chosen.is_all:
            out.talk(f"no runs yet in the store {out.talk_style.say(reader.store.name)}")
            out.hint("python train.py +exp=baseline")
        else:
            out.talk("no run is selected")
            out.hint("all runs: expdb log --graph")
