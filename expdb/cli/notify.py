"""`expdb notify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand, Words, Wrong
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode
from expdb.errors import NotFound

if TYPE_CHECKING:
    from expdb.notify.address import Reach
    from expdb.notify.channel import Channel


@click.command(cls=VerbCommand)
@click.argument("action", type=Words(["test"]), required=False)
@click.argument("channel", required=False)
@options.quiet_as("names, one a line")
@options.as_json
@click.pass_obj
def notify(
    context: Context, action: str | None, channel: str | None, quiet: bool, as_json: bool
) -> int:
    """List the channels of expdb.notify, what each is told and needs; test CHANNEL sends a message.

    `test` sends one that says it is a test, through CHANNEL or all, and prints what the other side
    answered; exit 1 if one did not take it. Addresses are secrets: they stand in variables or files
    that the config names.
    """
    from expdb.query.channels import channel_rows, declared_channels, one_of
    from expdb.report import notify as report

    if channel is not None and action is None:
        raise Wrong("it wants test CHANNEL, test, or nothing")
    out = context.out
    try:
        store = context.open_store()
    except NotFound:
        store = None
    declared = declared_channels(context.places, store, context.env)
    if declared.note:
        out.warning(declared.note)
    if action == "test":
        return _test(context, one_of(declared, channel), declared.reach, quiet, as_json)
    rows = channel_rows(declared, store)
    if as_json:
        out.json(report.json_of_channels(declared, rows))
    elif quiet:
        out.lines([out.style.say(row.channel.name) for row in rows])
    elif rows:
        out.lines(report.render_channels(rows, out.style))
        out.next([("test", "expdb notify test")])
    else:
        line, hint = report.nothing(declared)
        out.talk(line)
        out.hint(hint)
    return ExitCode.OK


def _test(
    context: Context, channels: tuple[Channel, ...], reach: Reach, quiet: bool, as_json: bool
) -> int:
    from expdb.actions.watch import tested
    from expdb.report import notify as report

    out, found = context.out, []
    for channel, answer in tested(channels, reach, reach.base.name):
        found.append((channel, answer))
        if not (quiet or as_json):
            out.lines([report.answered(channel, answer, out.style)])
            out.flush()
    if as_json:
        out.json(report.json_of_tests(found))
    elif quiet:
        out.lines([out.style.say(one.name) for one, answer in found if answer.is_taken])
    is_taken = all(answer.is_taken for _, answer in found)
    return ExitCode.OK if is_taken else ExitCode.CONDITION_FALSE
