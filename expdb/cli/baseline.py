"""`expdb baseline`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.errors import NotFound


@click.command(cls=VerbCommand)
@click.argument("run", required=False)
@options.quiet_id
@options.as_json
@click.pass_obj
def baseline(context: Context, run: str | None, quiet: bool, as_json: bool) -> None:
    """Set the baseline to RUN, the run that others are measured against, or show it."""
    from expdb.actions.baseline import set_baseline, show_baseline
    from expdb.report import json
    from expdb.report import ops as report

    out = context.out
    with context.reader(warn_unfinished=run is None) as reader:
        if run is None:
            found = show_baseline(reader)
            if found.after is None:
                raise NotFound("no baseline is set", hint="set one: expdb baseline RUN")
        else:
            found = set_baseline(reader, context.resolve(reader, run), worktree=context.worktree)
        if as_json:
            before, after = json.run_at(found.before), json.run_at(found.after)
            out.json(json.document(before=before, after=after, op=found.op))
        elif quiet:
            out.lines([found.after.run] if found.after else [])
        elif run is None:
            out.lines([report.named_baseline(found)])
        else:
            for line in report.render_baseline(found, out.talk_style):
                out.talk(line)
