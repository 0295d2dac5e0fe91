"""`expdb show`: one run, everything about it that decides something.

Invariant: a line stands only where there is something to say; the outcome against the parent is
last.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from expdb.model import Attempt, Checkpoint, Event, Run, RunState
from expdb.query.compare_results import Comparison
from expdb.query.media import RunMedia
from expdb.query.results import Outcome
from expdb.report import media_shown
from expdb.report.at_once import line_of
from expdb.report.metrics_table import metric_lines
from expdb.report.rollback import change
from expdb.report.style import Style
from expdb.report.verdict import seeds_differ
from expdb.report.words import (
    OUTCOME_COLOURS,
    OUTCOME_WORDS,
    code_line,
    counted,
    environment_line,
    label,
    noise_band,
    short_digest,
    step_of,
)
from expdb.signs import STATE_GLYPHS
from expdb.text import ago, cut_end, decimals_for, duration, plain, signed, size

if TYPE_CHECKING:
    from expdb.query.gates import GateResult

MAX_EVENTS = 10
MAX_CHECKPOINTS = 8
MAX_TRACEBACK = 8
SEVERITY_COLOURS = {"critical": "red", "warn": "yellow", "info": "dim"}


def render(
    run: Run,
    style: Style,
    *,
    path: str,
    num_keys: int,
    refs: Sequence[str] = (),
    parent: str | None = None,
    against: Comparison | None = None,
    media: RunMedia | None = None,
    gates: Sequence[GateResult] = (),
    last_words: Sequence[str] = (),
    all: bool = False,
) -> list[str]:
    """Return a run: head, facts, metrics, events, outcome.

    Args:
        run: the run.
        style: how to draw.
        path: the run folder as shown to the user.
        num_keys: how many keys its config has.
        refs: the refs and tags on it.
        parent: the id of what it comes from; None for the recorded parent.
        against: the comparison with what it is measured against, which has the config of the
            parent; None without a parent in this store.
        media: its media and artifacts.
        gates: how it stands to the gates that it declares.
        last_words: the traceback of the error that ended it.
        all: list every metric, event, and key of media.
    """
    lines = [head(run, style)]
    media = media or RunMedia()
    named = _parent(run, parent, against, style)
    facts = _facts(run, style, path=path, num_keys=num_keys, refs=refs, parent=named)
    place = [name for name, _ in facts].index("checkpoints") + 1
    facts[place:place] = media_shown.facts(media)
    lines += [f"  {name:<11}  {style.say(text)}" for name, text in facts if text]
    lines += _gates(gates, run, style)
    for block in (
        metric_lines(run, style, all=all),
        media_shown.lines(media, style) if all else [],
        _events(run.events, style, all=all),
        _last_words(last_words, run, style, all=all),
        _outcome(against, style),
    ):
        if block:
            lines += ["", *block]
    return lines


def head(run: Run, style: Style) -> str:
    """Return the line that names a run, its state and how far it came."""
    seed = "" if run.seed is None else f"  seed {run.seed}"
    state = style.paint(style.state(run.state.value), STATE_GLYPHS[run.state.value].colour)
    name = style.paint(plain(run.name), "bold")
    return f"{name}  {run.id}{seed}  {state}{style.say(_how_far(run, style))}"


def _how_far(run: Run, style: Style) -> str:
    since = ago(run.created_at_ms, style.now_ms)
    at = step_of(run.last_step, run.max_steps)
    if run.state.value == "finished":
        took = "" if run.duration_s is None else f" in {duration(run.duration_s)}"
        return f", {counted(run.last_step or 0, 'step')}{took}, {since}"
    if run.state.is_live:
        return f", {at}, started {since}" if at else f", started {since}"
    reason = f": {run.reason}" if run.reason else ""
    return (f" at {at}" if at else "") + f"{reason}, started {since}"


def _facts(
    run: Run,
    style: Style,
    *,
    path: str,
    num_keys: int,
    refs: Sequence[str],
    parent: str,
) -> list[tuple[str, str]]:
    attempt = run.attempt
    pin = run.pin
    tree = f", tree {pin.tree[:7]}" if pin.tree else ""
    used = f", {counted(len(pin.used), 'file')} used" if pin.used else ""
    fork = ""
    if run.fork is not None:
        at = "" if run.fork.step is None else f"@{run.fork.step}"
        fork = f"{style.run(run.fork.run)}{at}"
    return [
        ("path", path),
        ("command", shlex.join(run.command)),
        ("parent", parent),
        ("fork", fork),
        ("code", f"{code_line(pin)}{tree}{used}"),
        ("config", f"{counted(num_keys, 'key')}, {run.digest[:15]}"),
        ("data", _data(attempt)),
        ("environment", environment_line(attempt.environment) if attempt else ""),
        ("attempts", _attempts(run.attempts)),
        ("checkpoints", _checkpoints(run)),
        ("tags", " ".join(refs)),
        ("labels", " ".join(run.labels)),
        ("notes", "; ".join(run.notes)),
        ("reproducible", "" if pin.reproducible else f"no: {'; '.join(pin.reasons)}"),
        ("skipped", _skipped(pin.skipped)),
        ("dropped", f"{run.num_dropped:,} points were lost" if run.num_dropped else ""),
        ("requires", _requires(run)),
    ]


def _gates(gates: Sequence[GateResult], run: Run, style: Style) -> list[str]:
    if not gates:
        return []
    from expdb.report.gates import lines  # few runs have gates

    is_over = run.state is RunState.FINISHED
    return [f"  {'gate':<11}  {line}" for line in lines(gates, style, is_over=is_over)]


def _requires(run: Run) -> str:
    """Return what a finished run requires and lacks; an unfinished one does not count anyway."""
    if not run.lacks or run.state is not RunState.FINISHED:
        return ""
    return f"{', '.join(run.lacks)}, which it lacks: the run does not count"


def _skipped(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more


def _parent(run: Run, found: str | None, against: Comparison | None, style: Style) -> str:
    if run.parent is None:
        return "none"
    if against is None:
        return f"{style.run(run.parent.run)}, which is not in this store"
    parent = f"{style.run(found or run.parent.run)} {plain(against.runs[0].name)}"
    differ = [diff for diff in against.config if diff.differs]
    if not differ:
        return f"{parent}, nothing differs"
    if len(differ) == 1:
        return f"{parent}, 1 key differs: {change(differ[0], style)}"
    groups = len({diff.key.split(".")[0] for diff in differ})
    return f"{parent}, {len(differ):,} keys in {counted(groups, 'group')} differ"


def _data(attempt: Attempt | None) -> str:
    if attempt is None or not attempt.data:
        return ""
    names = dict.fromkeys(str(item["name"]) for item in attempt.data.values() if item.get("name"))
    sizes = [f"{_bytes(item)} {split}" for split, item in attempt.data.items() if "bytes" in item]
    digests = dict.fromkeys(short_digest(item.get("digest")) for item in attempt.data.values())
    parts = [", ".join(names)]
    if sizes:
        parts.append(" and ".join(sizes) + " bytes")
    return ", ".join([part for part in [*parts, *digests] if part])


def _bytes(item: Any) -> str:
    value = item["bytes"]
    return f"{value:,}" if isinstance(value, int) else str(value)


def _attempts(attempts: Sequence[Attempt]) -> str:
    if not attempts:
        return ""
    last = attempts[-1]
    resumed = "" if last.resumed_from is None else f", resumed at {last.resumed_from}"
    return f"{len(attempts)}{resumed}{_changed(attempts)}"


def _changed(attempts: Sequence[Attempt]) -> str:
    """Return what was changed where attempts went on, on the run's own way to its end."""
    out = ""
    for attempt in attempts:
        later = (one.resumed_from for one in attempts if one.number > attempt.number)
        if any(start is not None and start <= (attempt.resumed_from or 0) for start in later):
            continue
        known = attempt.intervention
        skipped, scale = known.get("skipped"), known.get("lr_scale")
        back = known.get("rewind")
        if isinstance(back, Mapping):
            rule, at, start, num = (
                plain(str(back.get(name, "?"))) for name in ("rule", "step", "from", "try")
            )
            to = attempt.resumed_from or 0
            out += f", went back from {start} to {to} for {rule} at {at} (try {num})"
        if isinstance(skipped, list) and len(skipped) == 2:
            out += f", batches {plain(str(skipped[0]))}-{plain(str(skipped[1]))} skipped"
        if scale is not None:
            out += f", learning rate times {plain(str(scale))} from {attempt.resumed_from or 0}"
    return out


def _checkpoints(run: Run) -> str:
    complete = run.usable
    saving = ", ".join(f"{step} in progress" for step in run.saving)
    if not run.checkpoints:
        return saving or "none"
    total = f"; {size(sum(item.bytes for item in run.checkpoints))}"
    damaged = sum(not item.complete for item in run.checkpoints)
    bad = f"; {damaged:,} damaged" if damaged else ""
    left = len(run.checkpoints) - len(complete) - damaged
    bad += f"; {left:,} left behind by a later attempt" if left else ""
    bad += f"; {saving}" if saving else ""
    if len(complete) > MAX_CHECKPOINTS:
        named = f"{len(complete):,}, from {complete[0].step} to {complete[-1].step}"
    else:
        named = ", ".join(_checkpoint(item, run, complete) for item in complete)
    return f"{named}{total}{bad}".removeprefix("; ")


def _checkpoint(item: Checkpoint, run: Run, complete: Sequence[Checkpoint]) -> str:
    marks = [
        *(["best"] if item.step == run.best_step() else []),
        *(["last"] if item.step == complete[-1].step else []),
    ]
    return f"{item.step} ({', '.join(marks)})" if marks else str(item.step)


def _events(events: Sequence[Event], style: Style, *, all: bool) -> list[str]:
    if not events:
        return []
    shown = events if all else events[-MAX_EVENTS:]
    width = max(len("step"), *(len(str(event.step)) for event in shown))
    words = max(len(event.severity) for event in shown)
    lines = [style.paint(f"  {'step':>{width}}  event", "dim")]
    for event in shown:
        rule = style.say(f"{event.rule}: {event.message}")
        lines.append(f"  {event.step:>{width}}  {event.severity:<{words}}  {rule}")
    if len(shown) < len(events):
        lines.append(f"  {len(events) - len(shown):,} earlier: --all")
    return lines


def _last_words(lines: Sequence[str], run: Run, style: Style, *, all: bool) -> list[str]:
    """Return the end of the traceback, and where the rest is."""
    if not lines:
        return []
    shown = lines if all else lines[-MAX_TRACEBACK:]
    rest = f"  traceback, last {len(shown)} lines; the log: expdb path {style.run(run.id)} log"
    head = "  traceback" if len(shown) == len(lines) else rest
    width, ellipsis = style.width - 4, style.signs.ellipsis
    said = (cut_end(style.say(line), width, ellipsis) for line in shown)
    return [style.paint(head, "dim"), *(f"    {line}".rstrip() for line in said)]


def _outcome(against: Comparison | None, style: Style) -> list[str]:
    if against is None or not against.verdicts:
        return []
    verdict = against.verdicts[0]
    parent = label(against.runs[0], style)
    word = style.paint(OUTCOME_WORDS[verdict.outcome], OUTCOME_COLOURS[verdict.outcome], "bold")
    objective = next((diff for diff in against.metrics if diff.is_objective), None)
    other = seeds_differ(against)
    note = [style.say(other)] if other else []
    if said := line_of(against, style):
        note.append(said)
    if (
        verdict.outcome is Outcome.INCONCLUSIVE
        or verdict.delta is None
        or objective is None
        or against.ends
        or against.spread is not None
    ):
        return [f"{word}  against {parent}: {style.say(verdict.reason)}", *note]
    delta = signed(verdict.delta, decimals_for(objective.values), key=objective.key)
    noise = against.noise
    band = "" if noise is None else f" {noise_band(noise, list(objective.values), style)}"
    if verdict.outcome is Outcome.NO_DIFFERENCE:
        return [f"{word}  from {parent}: {delta}, inside noise{band}", *note]
    return [f"{word}  than {parent} by {delta}, beyond noise{band}", *note]
