"""What is said of one event: what the rule found and advises, the values at the step, what differs.

Invariant: pure; what a rule recorded is text of anybody's and is shown as plain text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from expdb.text import ago, decimals_for, metric, percent, plain
from expdb_tui.ink import Piece, fit, titled
from expdb_tui.marks import Marks
from expdb_tui.run.config import value_text
from expdb_tui.run.curve_plots import WEIGHTS
from expdb_tui.run.event_around import BATCH, BEFORE, Around, Moment
from expdb_tui.run.facts import Facts
from expdb_tui.run.texts import wrapped
from expdb_tui.session import now_ms

TABLE = "At the step"
ADVICE = ("cause", "checks", "action")
MOST_KEYS = 8


def event_rows(
    around: Around, facts: Facts, width: int, signs: Marks, *, ascii: bool
) -> list[Sequence[Piece]]:
    """Return what is known of an event, in rows of `width` cells."""
    return [
        *_event(around, facts, width),
        *_advice(around, width, signs),
        *_values(around, width, signs),
        *_healthy(around, facts, width, signs),
        *_against(around, width, signs, ascii=ascii),
    ]


def _event(around: Around, facts: Facts, width: int) -> list[Sequence[Piece]]:
    """Return the event itself, its batches, and where one can go back to."""
    event, run = around.event, facts.run
    role = WEIGHTS[event.severity][0]
    out: list[Sequence[Piece]] = [
        [(f"{plain(event.rule)} ", "text+bold"), (f"step {event.step:,}  ", "text"),
         (event.severity, f"{role}+bold"), (f"  {ago(event.created_at_ms, now_ms())}", "dim")],
    ]  # fmt: skip
    out += [[(part, "dim")] for part in wrapped(plain(event.message), width - 1)]
    state = [plain(event.now)] if event.now else []
    state += ["acknowledged"] if event.is_acknowledged else []
    if state:
        out.append([("now  ", "dim"), (", ".join(state), "text")])
    batches = event.facts.get("batches")
    if isinstance(batches, list | tuple) and len(batches) == 2:
        first, last = batches
        said = f"{first}-{last}" if first != last else f"{first}"
        out.append([("micro-batches of the step  ", "dim"), (plain(said), "text")])
    named = [one for one in around.moments if any(word in one.key for word in BATCH)]
    out += [[(f"{plain(one.key)}  ", "dim"), (f"{one.value:g}", "text")] for one in named]
    out.append([])
    if around.good is not None:
        out.append([("last healthy checkpoint  ", "dim"), (f"step {around.good:,}", "text")])
    else:
        out.append([("no checkpoint before it", "dim")])
    command = event.facts.get("command")
    if not isinstance(command, str) or not command:
        at = f"{run.id[:6]}@{around.good}"
        command = f"expdb resume {at} --skip-batches 1" if around.good is not None else ""
    return [*out, [(plain(command), "accent")]] if command else out


def _advice(around: Around, width: int, signs: Marks) -> list[Sequence[Piece]]:
    """Return what the rule advises: its runbook and its decision."""
    facts = around.event.facts
    runbook = facts.get("runbook")
    pairs = [
        (name, str(runbook[name]))
        for name in ADVICE
        if isinstance(runbook, dict) and runbook.get(name)
    ]
    if facts.get("decision"):
        pairs.append(("decision", str(facts["decision"])))
    if not pairs:
        return []
    out: list[Sequence[Piece]] = [[], titled([("Runbook", "text+bold")], width, signs.rule)]
    cells = max(len(name) for name, _ in pairs) + 2
    for name, said in pairs:
        for at, part in enumerate(wrapped(plain(said), max(8, width - cells - 1))):
            out.append([(f"{name if at == 0 else '':<{cells}}", "dim"), (part, "text")])
    return out


def _values(around: Around, width: int, signs: Marks) -> list[Sequence[Piece]]:
    """Return the metrics at the step, those that moved most first."""
    out: list[Sequence[Piece]] = []
    out += [[], titled([(TABLE, "text+bold"), (f"  against {BEFORE} points before", "dim")],
                       width, signs.rule)]  # fmt: skip
    moved = sorted(around.moments, key=lambda one: -_change(one))
    for one in moved:
        pct = 100 * (one.value / one.before - 1) if one.before else math.nan
        decimals = decimals_for([one.value, one.before])
        before, value = (metric(v, decimals, key=one.key) for v in (one.before, one.value))
        tail = f"{before:>9} {value:>9}{percent(pct):>10}"
        name = fit([(plain(one.key), "text")], max(6, width - len(tail)))
        is_far = _change(one) > 0.5
        out.append([*name, (tail, "text" if is_far else "dim")])
    return out


def _healthy(around: Around, facts: Facts, width: int, signs: Marks) -> list[Sequence[Piece]]:
    """Return in which keys the run differs from the last one without a warning."""
    healthy = around.healthy
    if healthy is None:
        return []
    head: list[Piece] = [("Last run without a warning", "text+bold")]
    out: list[Sequence[Piece]] = [[], titled(head, width, signs.rule)]
    out.append([(plain(healthy.name), "text"), (f"  {healthy.run}", "faint")])
    keys = [plain(key) for key in healthy.keys]
    said = " ".join(keys[:MOST_KEYS]) or "nothing in the config"
    said += f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
    return [*out, *([(part, "dim")] for part in wrapped(f"differs in {said}", width - 1))]


def _against(around: Around, width: int, signs: Marks, *, ascii: bool) -> list[Sequence[Piece]]:
    """Return what the config changed from the run that it comes from or is measured against."""
    arrow = "->" if ascii else "→"
    out: list[Sequence[Piece]] = []
    if around.against:
        count = len(around.changes)
        said = f"  {count} key{'' if count == 1 else 's'}" if count else "  nothing"
        head: list[Piece] = [(f"Changed from the {around.against}", "text+bold"), (said, "dim")]
        out += [[], titled(head, width, signs.rule)]
        for change in around.changes:
            after = value_text(change.after)
            out.append(
                [
                    (f"{plain(change.key)}  ", "dim"),
                    (f"{value_text(change.before)} {arrow} ", "dim"),
                    (after, "text"),
                ]
            )
    return out


def _change(one: Moment) -> float:
    if not math.isfinite(one.value):
        return math.inf
    if not math.isfinite(one.before) or one.before == 0:
        return 0.0
    return abs(one.value / one.before - 1)
