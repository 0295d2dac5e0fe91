"""`expdb tag`."""

from __future__ import annotations

import shlex

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand, Wrong
from expdb.cli.context import Context


@click.command(cls=VerbCommand)
@click.argument("name", required=False)
@click.argument("run", required=False)
@click.option("-d", "--delete", is_flag=True, help="Remove the tag NAME; its run stays.")
@options.quiet_as("names, or the id of the run")
@options.as_json
@click.pass_obj
def tag(
    context: Context, name: str | None, run: str | None, delete: bool, quiet: bool, as_json: bool
) -> None:
    """Give RUN or RUN@STEP the name NAME, which never moves; without arguments list all tags.

    A checkpoint that a tag names is kept.
    """
    if (delete and (name is None or run is not None)) or (not delete and name and run is None):
        said = f"expdb tag NAME {shlex.quote(name)}" if name and not delete else ""
        raise Wrong("it wants NAME RUN, -d NAME, or nothing", hint=said)
    if name is None:
        _list(context, quiet=quiet, as_json=as_json)
        return
    from expdb.actions import tag as action
    from expdb.report import naming

    out = context.out
    with context.reader(warn_unfinished=False) as reader:
        if run is None:
            done = action.remove_tag(reader, name, worktree=context.worktree)
        else:
            done = action.add_tag(
                reader,
                name,
                context.resolve(reader, run, swapped=(name, ("expdb tag", run, name))),
                worktree=context.worktree,
                declared=context.declared(),
            )
        if as_json:
            out.json(naming.json_of_tag(done))
        elif quiet:
            at = done.after or done.before
            out.lines([at.run] if at else [])
        else:
            for line in naming.render_tag(done, out.talk_style):
                out.talk(line)


def _list(context: Context, *, quiet: bool, as_json: bool) -> None:
    from expdb.actions.tag import tag_rows
    from expdb.report import naming
    from expdb.text import plain

    out = context.out
    with context.reader() as reader:
        rows = tag_rows(reader)
        if as_json:
            out.json(naming.json_of_tags(rows))
        elif quiet:
            out.lines([plain(row.name) for row in rows])
        elif rows:
            out.lines(naming.render_tags(rows, out.style), page=True)
        else:
            out.talk("no tags")
            out.hint("make one: expdb tag NAME RUN")
