"""`expdb events`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode
from expdb.cli.forms import form_of, say_rest
from expdb.cli.watch import follow

if TYPE_CHECKING:
    from expdb.index.reader import Reader
    from expdb.query.events import Asked
    from expdb.query.history_results import EventList


@click.command(cls=VerbCommand)
@click.argument("runs", metavar="[RUN[@STEP]]...", nargs=-1)
@options.where
@click.option("--since", metavar="2d|DATE", help="Only events since then.")
@options.study
@click.option(
    "--severity", type=click.Choice(["warn", "critical"]), help="Only events at least so severe."
)
@click.option("--replay", is_flag=True, help="Let the rules look again; exit 1 if they differ.")
@click.option(
    "--rules", "rules_file", type=options.FilePath(path_type=Path), metavar="FILE",
    help="With --replay: the rules of a YAML file instead.",
)  # fmt: skip
@click.option("--ack", is_flag=True, help="Acknowledge the events of RUN, or of RUN@STEP.")
@click.option("--watch", is_flag=True, help="Go on: events of all runs, runs that die or stall.")
@click.option("--notify", "tells", is_flag=True, help="With --watch: tell the channels too.")
@click.option("--once", is_flag=True, help="With --watch --notify: look and tell once, and end.")
@options.as_jsonl
@options.limit
@options.quiet_as("the ids of runs that have events, one a line")
@options.as_json
@options.as_csv
@options.as_md
@click.pass_obj
def events(
    context: Context,
    runs: tuple[str, ...],
    where: tuple[str, ...],
    since: str | None,
    study: str | None,
    severity: Literal["warn", "critical"] | None,
    replay: bool,
    rules_file: Path | None,
    ack: bool,
    watch: bool,
    tells: bool,
    once: bool,
    as_jsonl: bool,
    limit: int,
    quiet: bool,
    as_json: bool,
    as_csv: bool,
    as_md: bool,
) -> int:
    """List what rules found in RUNS: of one run by step, of several the newest first.

    RUN@STEP shows the events of one step whole. Without RUN: of all runs that -w selects, and
    without -w and --since only those of the last day.

    --ack says that somebody has seen the warnings and critical events of one run: they no longer
    count as open. `expdb undo` takes it back.

    --replay of one run feeds its points to the rules that it had, or to those of --rules, and says
    whether they find what was recorded.

    --watch prints what happens in all runs of the store from now on, until Ctrl-C; with --notify
    the channels of expdb.notify are told, also of what nobody was told before.
    """
    from expdb.query.events import Asked, since_ms
    from expdb.report import events as report
    from expdb.report import json_history

    form = form_of(quiet=quiet, json=as_json, csv=as_csv, md=as_md)
    if (tells or as_jsonl or once) and not watch:
        raise click.UsageError("--notify, --once and --jsonl go with --watch")
    if watch:
        if runs or where or since or study or replay or ack or form != "text":
            raise click.UsageError("--watch takes --severity, --notify, --once and --jsonl alone")
        return follow(context, severity, tells=tells, once=once, as_jsonl=as_jsonl)
    if runs and (where or study):
        raise click.UsageError("name runs, or select them with -w or --study, not both")
    if (replay and (len(runs) != 1 or since)) or (rules_file is not None and not replay):
        raise click.UsageError("--replay takes one RUN and no --since; --rules goes with it")
    if ack:
        if len(runs) != 1 or replay or since or severity or form not in ("text", "quiet", "json"):
            raise click.UsageError("--ack takes one RUN or RUN@STEP, and no other choice")
        return _acknowledge(context, runs[0], quiet=quiet, as_json=as_json)
    out = context.out
    since_at = None if since is None else since_ms(since, now_ms=out.style.now_ms)
    asked = Asked(severity=severity, since_ms=since_at, limit=limit)
    with context.reader() as reader:
        if replay:
            found = _again(context, reader, runs[0], rules_file, asked)
        else:
            found = _find(context, reader, runs, where, study, asked)
        if form == "json":
            out.json(json_history.events(found))
        elif form == "csv":
            out.text(report.as_csv(found))
        elif form == "md":
            out.lines(report.as_markdown(found))
        elif form == "quiet":
            out.lines(report.ids(found))
        elif found.rows:
            out.lines(report.render(found, out.style), page=True)
            out.next(report.next_commands(found, out.talk_style))
        else:
            out.talk(report.nothing(found))
        say_rest(out, form, len(found.rows), found.num_all, limit, "events")
        if found.replay is None:
            return ExitCode.OK
        for problem in found.replay.problems:
            out.warning(problem)
        if form == "text":
            out.talk(report.compared(found.replay))
    return ExitCode.OK if found.replay.is_equal else ExitCode.CONDITION_FALSE


def _acknowledge(context: Context, word: str, *, quiet: bool, as_json: bool) -> int:
    from expdb.actions.ack import acknowledge, to_acknowledge
    from expdb.query.events import split_steps
    from expdb.report import events as report
    from expdb.report import json_history

    out = context.out
    with context.reader(warn_unfinished=False) as reader:
        words, step = split_steps([word])
        target = context.resolve_many(reader, words)[0]
        run = reader.run(target.run)
        wanted = to_acknowledge(run, target.step if step is None else step, reader.id_length)
        done = acknowledge(reader, run.id, wanted, worktree=context.worktree)
    if as_json:
        out.json(json_history.acknowledged(done))
    elif not quiet:
        out.talk(report.acknowledged(done, out.talk_style))
    return ExitCode.OK


def _again(
    context: Context, reader: Reader, run: str, rules_file: Path | None, asked: Asked
) -> EventList:
    from expdb.query.events import only_asked
    from expdb.query.replay import replayed, rules_in

    [target] = context.resolve_many(reader, [run])
    section = None if rules_file is None else rules_in(rules_file)
    return only_asked(replayed(reader, target.run, section, is_own=rules_file is None), asked)


def _find(
    context: Context,
    reader: Reader,
    runs: tuple[str, ...],
    where: tuple[str, ...],
    study: str | None,
    asked: Asked,
) -> EventList:
    from expdb.query.events import events_of, events_selected, split_steps

    if runs:
        words, step = split_steps(runs)
        return events_of(reader, context.resolve_many(reader, words), asked, step=step)
    chosen = context.where(reader, where, study=study)
    now_ms = context.out.style.now_ms
    return events_selected(reader, chosen.sql, chosen.params, asked, now_ms=now_ms)
