"""`expdb tail`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context

if TYPE_CHECKING:
    from pathlib import Path

    from expdb.model import Run
    from expdb.query.tail import LogTail


@click.command(cls=VerbCommand)
@click.argument("run", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option(
    "-n", "num", metavar="N", type=options.Whole(min=0), default=20, help="Lines to begin with."
)
@click.pass_obj
def tail(context: Context, run: str | None, follow: bool, num: int) -> None:
    """Show the last lines of the log of RUN; without RUN of the newest live run, else the newest.

    With -f it goes on until the run ends, names silence, and says so when the process died.
    """
    from expdb.query.tail import LogTail, end_of, newest_run
    from expdb.report import tail as report
    from expdb.store.last_words import INDENT, MARK

    out = context.out
    with context.reader(warn_unfinished=False) as reader:
        found = newest_run(reader) if run is None else context.resolve(reader, run).run
        record = reader.run(found)
        root = reader.store.root
    log = LogTail(root / record.path)
    lines = log.last(num)
    for problem in log.problems:
        out.warning(problem)
    if follow or run is None:
        out.talk(report.head(record, log.attempt, follows=follow))
    if follow:
        _follow(context, record, log, lines, root)
        return
    end = end_of(log, root / record.path, store_root=root)
    if end is not None or log.is_closed:  # the last words of a killed process may lack their end
        lines = [*lines, *log.rest()][-num:] if num else []
    out.lines([out.style.say(line) for line in lines])
    if num and MARK not in lines and any(line.startswith(INDENT) for line in lines):
        out.hint(f"the whole traceback: expdb path {out.talk_style.run(record.id)} log")
    if end is not None:
        out.lines([report.closing(record, end, out.style)])
        out.next(report.next_commands(record, end, out.talk_style), gap=False)
    elif num and not lines:
        out.talk(f"{out.talk_style.run(record.id)} has written no line yet")


def _follow(context: Context, run: Run, log: LogTail, lines: list[str], root: Path) -> None:
    from expdb.query.tail import follow
    from expdb.report import tail as report

    out = context.out
    can_move = context.env.get("TERM", "") not in ("", "dumb")
    screen = report.Screen(run, out.style, in_place=out.style.terminal and can_move)
    out.lines(screen.lines(lines))
    out.flush()
    for told in follow(log, root / run.path, store_root=root):
        if told.end is not None:
            out.lines(screen.close(report.closing(run, told.end, out.style)))
            out.next(report.next_commands(run, told.end, out.talk_style), gap=False)
        elif told.is_lost:
            out.lines(screen.notice(report.lost(out.style)))
        elif told.silent_s is not None:
            out.lines(screen.notice(report.silence(told, out.style)))
        else:
            out.lines(screen.lines(told.lines))
        out.flush()
