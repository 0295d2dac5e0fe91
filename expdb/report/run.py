"""`expdb run`: what would be trained and why, how far it is, and what came of it.

Invariant: names and reasons are shown as plain text; a command and a path are never cut.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from expdb.report import json
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.json_status import reasons
from expdb.report.status import reason_text
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.signs import STATE_GLYPHS
from expdb.text import duration, eta, plain

if TYPE_CHECKING:
    from expdb.actions.run.results import Ended, Going, Job, RunPlan, RunResult, Source

FLAGS: Final = {
    "missing": "--missing",
    "crashed": "--missing",
    "preempted": "--missing",
    "stale": "--stale",
    "failed": "--failed",
}
FLAG_ORDER: Final = tuple(dict.fromkeys(FLAGS.values()))
SHOWN: Final = 5
"""So many jobs that are not done are told of one by one."""


def render_plan(plan: RunPlan, style: Style, *, workers: int, cost_s: float | None) -> list[str]:
    """Return a row a job, what gets none, and how long all of it takes; `cost_s` None: unknown."""
    if not plan.jobs:
        left = _left_out(plan)
        return [f"nothing to do{': ' if left else ''}{left}"]
    columns = (
        Column(head="experiment", cut="middle"),
        Column(head="seed"),
        Column(head="why", cut="end"),
        Column(head="about", right=True),
    )
    rows = tuple(
        (
            Cell(plain(job.name)),
            Cell("" if job.seed is None else str(job.seed)),
            Cell(style.say(_why(job, style))),
            Cell("" if job.estimate_s is None else duration(job.estimate_s)),
        )
        for job in plan.jobs
    )
    marks = tuple(
        style.paint(style.glyph(job.state), STATE_GLYPHS[job.state].colour) for job in plan.jobs
    )
    lines = lay_out(Grid(columns, rows, marks), style)
    took = "time not known" if cost_s is None else f"about {duration(cost_s)}"
    many = f"{counted(len(plan.jobs), 'job')}, {workers} at once, {took}"
    more = f"; {plan.more:,} more beyond -n" if plan.more else ""
    lines += ["", f"run        {many}{more}"]
    lines.append(f"first      {plain(shlex.join(plan.jobs[0].argv))}")
    if left := _left_out(plan):
        lines.append(f"left out   {left}")
    return lines


def _why(job: Job, style: Style) -> str:
    if job.reasons:
        more = f", and {len(job.reasons) - 1:,} more" if len(job.reasons) > 1 else ""
        return f"{job.state}: {reason_text(job.reasons[0], style)}{more}"
    if job.resumes is not None:
        return f"{job.state}, goes on at step {job.step}"
    if job.state in ("crashed", "preempted"):
        return f"{job.state}, no checkpoint: begins anew"
    return job.state


def _left_out(plan: RunPlan) -> str:
    flagged = {state: FLAGS[state] for state in plan.left_out if state in FLAGS}
    return ", ".join(
        f"{count:,} {state}" + (f" ({flagged[state]})" if state in flagged else "")
        for state, count in sorted(plan.left_out.items())
        if count
    )


def source_lines(source: Source, style: Style, *, where: str = "") -> list[str]:
    """Return which code the jobs run, and where their work trees are, unless in a temporary one."""
    if source.pin is None or source.commit is None:
        why = "" if source.why_in_place.startswith("--") else f"{source.why_in_place}: "
        line = f"code       {why}jobs run in this folder as it stands: edit nothing meanwhile"
        return [style.say(line)]
    what = "commit" if source.pin.snapshot is None else "snapshot"
    tree = f"tree {str(source.pin.tree)[:7]}"
    own = f"work trees of their own{f' in {where}' if where else ''}"
    lines = [style.say(f"code       {what} {source.commit[:7]}, {tree}; jobs have {own}: edit on")]
    return [*lines, *(style.say(f"           {reason}") for reason in source.pin.reasons)]


def progress_line(going: Going) -> str:
    """Return how far all jobs are, in one line that the next replaces."""
    said = f"{going.num_done}/{going.num_all} done, {_under_way(going)}"
    if going.num_failed:
        said += f", {going.num_failed} failed"
    if going.is_stopping:
        return f"{said}  stopping: they save and end; Ctrl-C again kills them"
    return f"{said}  eta {eta(going.eta_s)}"


def event_line(going: Going, style: Style) -> str:
    """Return what began or ended just now; empty for nothing."""
    if going.queued is not None:
        job, name = going.queued
        return style.say(f"{'queued':<11}{plain(job.said)}  {name}  {_counts(going)}")
    if going.begun is not None:
        return style.say(f"{'begins':<11}{plain(going.begun.said)}  {_counts(going)}")
    if going.ended is None or going.ended.end == "not begun":
        return ""
    return f"{_ended(going.ended, style)}  {_counts(going)}"


def _counts(going: Going) -> str:
    left = "" if going.eta_s is None or going.is_stopping else f", eta {eta(going.eta_s)}"
    return f"{going.num_done}/{going.num_all} done, {_under_way(going)}{left}"


def _under_way(going: Going) -> str:
    queued = f", {going.num_queued} queued" if going.num_queued else ""
    return f"{going.num_running} running{queued}"


def _ended(one: Ended, style: Style) -> str:
    run = "" if one.run is None else f"  {style.run(one.run)}"
    took = f"  {duration(one.seconds)}" if one.seconds else ""
    said = f"  {one.said}" if one.said else ""
    return style.say(f"{one.end:<11}{plain(one.job.said)}{run}{took}{said}")


def render_result(result: RunResult, style: Style, *, start: Path) -> list[str]:
    """Return what came of the jobs: the counts, then those that are not done with their logs."""
    counts = Counter[str](one.end for one in result.ended)
    order = ("done", "done before", "taken", "failed", "stopped", "not begun", "left")
    said = ", ".join(f"{counts[end]:,} {_word(end)}" for end in order if counts[end])
    lines = [f"ran        {said}, in {duration(result.seconds)}"]
    cut_off = [one for one in result.ended if one.end in ("failed", "stopped")]
    for one in cut_off[:SHOWN]:
        lines.append(_ended(one, style))
        if one.log is not None:
            lines.append(f"           log {style.say(os.path.relpath(one.log, start))}")
    if len(cut_off) > SHOWN:
        lines.append(f"           and {len(cut_off) - SHOWN:,} more: expdb status")
    return lines


def _word(end: str) -> str:
    return {
        "done before": "done by another process meanwhile",
        "taken": "with another process that trains them",
        "left": "left in the queue",
    }.get(end, end)


def warnings(result: RunResult) -> list[str]:
    """Return what is odd about jobs that went well."""
    odd = [one for one in result.ended if one.end == "done" and one.said]
    return [f"{plain(one.job.said)}: {one.said}" for one in odd]


def next_commands(result: RunResult, style: Style) -> list[tuple[str, str]]:
    """Return what to do next: look at what failed, go on with what was stopped."""
    failed = [one for one in result.ended if one.end == "failed"]
    out = []
    with_run = next((one.run for one in failed if one.run is not None), None)
    if with_run is not None:
        out.append(("look", f"expdb show {style.run(with_run)}"))
    asked = {"--missing"} | {_flag(one) for one in result.left}
    command = " ".join(["expdb run", *(flag for flag in FLAG_ORDER if flag in asked)])
    if failed:
        out.append(("again", command))
    elif not result.is_well:
        out.append(("go on", command))
    return out


def _flag(one: Ended) -> str:
    """Return what `expdb run` calls a job that is not done, as `status` sees it from now on."""
    if one.end == "failed":
        return "--failed"
    # A run that was stopped is preempted or crashed; without one nothing has changed.
    return FLAGS.get(one.job.state if one.run is None else "preempted", "--missing")


def new_runs(result: RunResult) -> list[str]:
    """Return the runs that were begun, in the order of the plan."""
    return [
        one.run
        for one in result.ended
        if one.run is not None and one.job.resumes is None and one.end != "done before"
    ]


def json_of_run(
    plan: RunPlan, result: RunResult | None, *, workers: int, cost_s: float | None
) -> dict[str, Any]:
    """Return the plan, and what came of it where it was carried out."""
    ends = {} if result is None else {one.job.key: one for one in result.ended}
    pin = None if result is None else result.source.pin
    return json.document(
        dry_run=result is None,
        workers=workers,
        estimate_s=cost_s,
        commit=None if result is None else result.source.commit,
        tree=None if pin is None else pin.tree,
        in_place=None if result is None else bool(result.source.why_in_place),
        stopped=None if result is None else result.was_stopped,
        seconds=None if result is None else round(result.seconds, 3),
        jobs=[_job(job, ends.get(job.key)) for job in plan.jobs],
        left_out=dict(plan.left_out),
        invalid=[{"experiment": name, "fault": fault} for name, fault in plan.invalid],
    )


def _job(job: Job, ended: Ended | None) -> dict[str, Any]:
    return {
        "experiment": job.experiment,
        "variant": job.variant,
        "seed": job.seed,
        "state": job.state,
        "reasons": reasons(job.reasons),
        "command": list(job.argv),
        "resumes": job.resumes,
        "step": job.step,
        "estimate_s": job.estimate_s,
        "slurm": dict(job.slurm),
        "end": None if ended is None else ended.end,
        "run": None if ended is None else ended.run,
        "said": None if ended is None else ended.said or None,
        "seconds": None if ended is None else round(ended.seconds, 3),
        "log": None if ended is None or ended.log is None else str(ended.log),
    }


def quiet_plan(jobs: Sequence[Job]) -> list[str]:
    """Return the declared runs that would be trained, one a line: `exp01:s2`."""
    return [plain(job.said) for job in jobs]
