"""`expdb ctl`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand, Words
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode
from expdb.store.control import VERBS

if TYPE_CHECKING:
    from expdb.actions.results import ControlResult


@click.command(cls=VerbCommand)
@click.argument("run")
@click.argument("verb", type=Words(VERBS, swaps_with="run"))
@click.option(
    "--wait",
    "wait_s",
    metavar="S",
    type=options.Seconds(min=0, max=86_400),
    default=0.0,
    help="Wait up to S seconds for the answer; exit 1 if it was not done.",
)
@options.quiet_id
@options.as_json
@click.pass_obj
def ctl(context: Context, run: str, verb: str, wait_s: float, quiet: bool, as_json: bool) -> int:
    """Ask a live RUN to save a checkpoint, evaluate, pause, go on, or stop.

    It does so between two updates; stop saves first, as SIGTERM does.
    """
    from expdb.actions.ctl import ask
    from expdb.report import control

    out = context.out

    def say(asked: ControlResult) -> None:
        if not (quiet or as_json):
            out.talk(control.asked_line(asked, out.talk_style))

    with context.reader(warn_unfinished=False) as reader:
        done = ask(reader, context.resolve(reader, run), verb, wait_s=wait_s, on_asked=say)
    if as_json:
        out.json(control.json_of_control(done))
    elif quiet:
        out.lines([done.run.id])
    else:
        out.talk(control.answer_line(done, out.talk_style, waited=wait_s > 0))
    answered = done.ok or (verb == "stop" and bool(done.ended))
    return ExitCode.CONDITION_FALSE if wait_s > 0 and not answered else ExitCode.OK
