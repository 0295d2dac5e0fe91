"""`expdb run`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.declaration import declaration_here
from expdb.cli.exit import ExitCode
from expdb.cli.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from expdb.actions.run.go import On
    from expdb.actions.run.results import Going, RunPlan, RunResult, Source, Which

MAX_JOBS = 10_000


@click.command(cls=VerbCommand)
@click.argument("experiments", nargs=-1, metavar="[EXP...]")
@click.option("--missing", is_flag=True, help="What has no run, or was cut off; without a flag.")
@click.option("--stale", is_flag=True, help="What has a run of another config or other code.")
@click.option("--failed", is_flag=True, help="What has failed.")
@click.option("--all", "everything", is_flag=True, help="Everything, also what is up to date.")
@click.option(
    "-j",
    "workers",
    metavar="N",
    type=options.Whole(1, 1000),
    help="So many processes at once (1), each with a GPU of its own; in SLURM's queue (all).",
)
@click.option(
    "--on",
    type=click.Choice(["local", "slurm"]),
    default="local",
    help="Where: on this machine, or through SLURM (extra `slurm`).",
)
@click.option(
    "--slurm",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="What to ask of SLURM, by submitit's names: partition=gpu, time=120 (minutes).",
)
@click.option(
    "-n",
    "most",
    metavar="N",
    type=options.Whole(1, MAX_JOBS),
    help="So many jobs at most.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and stop.")
@click.option(
    "--in-place", is_flag=True, help="Run in this work tree itself; edit nothing meanwhile."
)
@options.quiet_as("the ids of the new runs, one a line; with --dry-run the names")
@options.as_json
@click.pass_obj
def run(
    context: Context,
    experiments: tuple[str, ...],
    missing: bool,
    stale: bool,
    failed: bool,
    everything: bool,
    workers: int | None,
    on: On,
    settings: tuple[str, ...],
    most: int | None,
    dry_run: bool,
    in_place: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Train what is declared and has no run that counts: all of it, or EXP (exp01, exp01:s2).

    The code is pinned now, as it stands, and each job runs in a work tree of
    that pin, so that this one is free to edit. A run that was cut off is gone
    on with. One that fails stops no other; Ctrl-C lets those that run save and
    end, and the same command goes on later. With --on slurm the work trees lie
    in the store (.expdb/jobs), and Ctrl-C takes what waits out of the queue;
    without this process (its terminal is closed, it is killed) the jobs go on.
    """
    flags: dict[Which, bool] = {
        "missing": missing,
        "stale": stale,
        "failed": failed,
        "all": everything,
    }
    which = [name for name, is_asked in flags.items() if is_asked] or ["missing"]
    if settings and on != "slurm":
        raise click.UsageError("--slurm goes with --on slurm")
    return _run(
        context, experiments, which, workers, on, _settings(settings), most, dry_run, in_place,
        "json" if as_json else "quiet" if quiet else "",
    )  # fmt: skip


def _settings(given: tuple[str, ...]) -> dict[str, str | int]:
    """Return NAME=VALUE as a mapping; whole numbers are such."""
    found: dict[str, str | int] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise click.UsageError(f"--slurm {text!a} is not NAME=VALUE")
        is_whole = value.isascii() and value.isdigit() and len(value) < 19
        found[name] = int(value) if is_whole else value
    return found


def _run(
    context: Context,
    words: tuple[str, ...],
    which: list[Which],
    asked: int | None,
    on: On,
    settings: dict[str, str | int],
    most: int | None,
    dry_run: bool,
    in_place: bool,
    form: str,
) -> int:
    from expdb.actions.run.go import run_jobs
    from expdb.actions.run.plan import plan_run
    from expdb.actions.run.results import cost
    from expdb.report import run as report

    out = context.out
    with context.reader() as reader:
        store = reader.store
        declared = declaration_here(context, store)
        plan = plan_run(
            reader, declared, places=context.places, words=words, which=which, most=most,
            slurm=settings if on == "slurm" else None,
        )  # fmt: skip
    most_at_once = asked or (1 if on == "local" else MAX_JOBS)
    workers = min(most_at_once, max(1, len(plan.jobs)))
    cost_s = cost([job.estimate_s for job in plan.jobs], workers)
    _say_plan(out, plan, workers, cost_s, dry_run=dry_run, form=form)
    if dry_run or not plan.jobs:
        if form == "json":
            out.json(report.json_of_run(plan, None, workers=workers, cost_s=cost_s))
        return _code(ExitCode.OK, words, plan)
    told = _Told(out, form, places=_shown(store.layout.jobs, context) if on == "slurm" else "")
    result = run_jobs(
        store, plan, workers=workers, in_place=in_place, on=on, announce=told.source,
        tell=told.going,
    )  # fmt: skip
    return _code(_end(context, plan, result, workers, cost_s, form), words, plan)


def _code(code: int, words: tuple[str, ...], plan: RunPlan) -> int:
    """Return the exit code: what was asked for by name and cannot be trained is not done."""
    is_short = bool(words) and bool(plan.invalid)
    return ExitCode.CONDITION_FALSE if is_short and code == ExitCode.OK else code


def _say_plan(
    out: Output, plan: RunPlan, workers: int, cost_s: float | None, *, dry_run: bool, form: str
) -> None:
    from expdb.report import run as report

    for name, fault in plan.invalid:
        out.warning(f"{name} is left out: {fault}")
    if plan.invalid:
        out.hint("expdb doctor --conf")
    if dry_run and form == "quiet":
        out.lines(report.quiet_plan(plan.jobs))
    elif dry_run and not form:
        out.lines(report.render_plan(plan, out.style, workers=workers, cost_s=cost_s))
        out.talk("nothing started")
    elif not form:
        for line in report.render_plan(plan, out.talk_style, workers=workers, cost_s=cost_s):
            out.talk(line)


def _shown(path: Path, context: Context) -> str:
    return os.path.relpath(path, context.directory)


class _Told:
    """Says which code is run, and how far it is: one line that is redrawn, or a line an event."""

    def __init__(self, out: Output, form: str, *, places: str) -> None:
        self._out, self._form, self._places = out, form, places

    def source(self, source: Source) -> None:
        """Say which code the jobs run."""
        from expdb.report.run import source_lines

        if not self._form:
            for line in source_lines(source, self._out.talk_style, where=self._places):
                self._out.talk(line)

    def going(self, going: Going) -> None:
        """Say how far it is."""
        from expdb.report.run import event_line, progress_line

        if self._form:
            return
        if self._out.talk_style.terminal:
            if going.ended is not None and going.ended.end == "failed":
                self._out.passing("")
                self._out.talk(event_line(going, self._out.talk_style))
            self._out.passing(progress_line(going))
        elif line := event_line(going, self._out.talk_style):
            self._out.talk(line)


def _end(
    context: Context,
    plan: RunPlan,
    result: RunResult,
    workers: int,
    cost_s: float | None,
    form: str,
) -> int:
    from expdb.report import run as report

    out = context.out
    out.passing("")
    for warning in report.warnings(result):
        out.warning(warning)
    for line in report.render_result(result, out.talk_style, start=context.directory):
        out.talk(line)
    if form == "json":
        out.json(report.json_of_run(plan, result, workers=workers, cost_s=cost_s))
    elif form == "quiet":
        out.lines(report.new_runs(result))
    out.next(report.next_commands(result, out.talk_style))
    if result.was_stopped:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if result.is_well else ExitCode.CONDITION_FALSE
