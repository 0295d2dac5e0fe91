"""`expdb remote`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand, Words, Wrong
from expdb.cli.context import Context


@click.command(cls=VerbCommand)
@click.argument("action", type=Words(["add", "rm"]), required=False)
@click.argument("remote", required=False, metavar="[NAME]")
@click.argument("folder", required=False, metavar="[DIR]")
@options.quiet_as("names, one a line")
@options.as_json
@click.pass_obj
def remote(
    context: Context,
    action: str | None,
    remote: str | None,
    folder: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """List the remotes of this store; add NAME DIR names a folder, rm NAME forgets one.

    DIR is any folder that this machine can write to: of another disk, mounted, or copied on with
    rsync. It has to be empty, or a remote already. What others named there is NAME/ref here.
    """
    words = [word for word in (remote, folder) if word is not None]
    if len(words) != {"add": 2, "rm": 1}.get(action or "", 0):
        raise Wrong("it wants add NAME DIR, rm NAME, or nothing")
    from expdb.actions import remote as actions
    from expdb.report import remotes as report

    out = context.out
    store = context.open_store()
    if action is None:
        rows = actions.remote_rows(store)
        if as_json:
            out.json(report.json_of_remotes(rows))
        elif quiet:
            out.lines([out.style.say(row.remote.name) for row in rows])
        elif rows:
            out.lines(report.render_remotes(rows, out.style), page=True)
        else:
            out.talk("no remotes")
            out.hint("name one: expdb remote add NAME DIR")
        return
    assert remote is not None
    if action == "add":
        done = actions.add(store, remote, context.directory / (folder or ""))
    else:
        done = actions.remove(store, remote)
    if as_json:
        out.json(report.json_of_remote(done))
    elif quiet:
        out.lines([out.style.say(done.name)])
    else:
        out.talk(report.said_of(done, out.talk_style, is_new=action == "add"))
    if action == "add" and not as_json:
        out.next([("next", f"expdb push {done.name}      or: expdb pull {done.name}")], gap=False)
