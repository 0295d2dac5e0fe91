"""`expdb show --health`: what was found, what may be behind it, and what could not be judged.

Invariant: what decides stands last; texts of rules, scripts and configs are shown as plain text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from expdb.model import Event
from expdb.query.health_results import Around, Cause, Health, Looked
from expdb.report import json
from expdb.report.events import SEVERITY_COLOURS
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.shown import head
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.text import cut_end, metric, plain

LABEL_CELLS: Final = 11
KEYS_SHOWN: Final = 6
MAX_FOUND: Final = 12
MAX_LAYERS: Final = 6
NO_METRIC: Final = "no such metric is logged"


def render(found: Health, style: Style) -> list[str]:
    """Return the health of a run: found, around, causes, what looked, and the line that decides."""
    blocks = (
        _found(found.found, found.run.id, style),
        _around(found, style),
        _causes(found.causes, style),
        _looked(found, style),
        [_verdict(found, style)],
    )
    lines = [head(found.run, style)]
    for block in blocks:
        if block:
            lines += ["", *block]
    return lines


def _found(events: Sequence[Event], run: str, style: Style) -> list[str]:
    if not events:
        return []
    warned = [one for one in events if one.severity != "info"]
    shown = (warned or list(events))[:MAX_FOUND]
    columns = (
        Column(head="step", right=True),
        Column(head="severity"),
        Column(head="rule"),
        Column(head="what", cut="end"),
        Column(head="now", leaves=0),
    )
    rows = tuple(
        (
            Cell(str(one.step)),
            Cell(one.severity, SEVERITY_COLOURS[one.severity]),
            Cell(style.say(one.rule)),
            Cell(style.say(one.message)),
            Cell(style.say(one.now), "dim" if one.now.startswith("over") else ""),
        )
        for one in shown
    )
    lines = lay_out(Grid(columns, rows, (" ",) * len(rows)), style)
    more = len(events) - len(shown)
    if more:
        lines.append(f"  {more:,} more: expdb events {style.run(run)}")
    return lines


def _around(found: Health, style: Style) -> list[str]:
    around = found.around
    if around is None:
        return []
    columns = (
        Column(head="around"),
        *(
            Column(head=str(step), right=True, leaves=-abs(step - around.step) or None)
            for step in around.steps
        ),
    )
    rows = tuple(
        (
            Cell(style.say(key)),
            *(Cell("" if one is None else metric(one, key=key)) for one in values),
        )
        for key, values in around.values.items()
    )
    lines = lay_out(Grid(columns, rows, (" ",) * len(rows)), style) if rows else []
    return [*lines, *_facts(_beside(found, around, style), style)]


def _beside(found: Health, around: Around, style: Style) -> list[tuple[str, str]]:
    batches, healthy = around.batches, found.healthy
    good = "none before it" if found.good is None else f"checkpoint {found.good}"
    facts = [("good", good)]
    if batches is not None:
        first, last = batches
        facts.append(("batches", f"{first}-{last}" if first != last else str(first)))
    if around.layers:
        more = len(around.layers) - MAX_LAYERS
        said = " ".join(around.layers[:MAX_LAYERS])
        facts.append(("layers", said + (f" and {more:,} more" if more > 0 else "")))
    facts += [("not finite", note) for note in around.notes]
    if healthy is not None:
        keys = " ".join(healthy.keys[:KEYS_SHOWN]) or "nothing in the config"
        more = len(healthy.keys) - KEYS_SHOWN
        keys += f" and {more:,} more" if more > 0 else ""
        facts.append(("differs", f"{keys} from {style.run(healthy.run)} {healthy.name}"))
    return [*facts, ("repeated", _repeated(found, style))]


def _repeated(found: Health, style: Style) -> str:
    if not found.repeats:
        return "by nobody: the same seed twice comes first"
    return "; ".join(
        f"{style.run(one.run)} {one.name} has {'it too' if one.same else 'it not'}"
        for one in found.repeats
    )


def _causes(causes: Sequence[Cause], style: Style) -> list[str]:
    lines = []
    for place, one in enumerate(causes, 1):
        said = _cut(f"  {place}  {one.said}  ({one.area})", style)
        lines.append(style.paint(said, "bold") if place == 1 else said)
        lines += [_cut(f"       {reason}", style) for reason in one.reasons]
        lines += [_cut(f"       against it: {reason}", style) for reason in one.against]
    return [style.paint("  likely causes", "dim"), *lines] if lines else []


def _looked(found: Health, style: Style) -> list[str]:
    fine = [one.rule for one in found.looked if one.outcome == "fine"]
    facts = []
    if fine:
        facts.append(("fine", f"{counted(len(fine), 'rule')}: {' '.join(fine)}"))
    for why, rules in _by_reason(found.looked).items():
        facts.append(("not judged", f"{' '.join(rules)}: {why}"))
    facts += [("damaged", problem) for problem in found.problems]
    return _facts(facts, style)


def _by_reason(looked: Sequence[Looked]) -> dict[str, list[str]]:
    """Return what could not be judged by what is lacking; all without a metric together."""
    out: dict[str, list[str]] = {}
    for one in looked:
        if one.outcome == "not judged":
            why = NO_METRIC if one.why.startswith("no metric") else one.why
            out.setdefault(why, []).append(one.rule)
    return dict(sorted(out.items(), key=lambda item: item[0] == NO_METRIC))


def _facts(facts: Sequence[tuple[str, str]], style: Style) -> list[str]:
    """Return labelled facts, wrapped under their text; a label stands once."""
    lines, last = [], ""
    room = max(30, style.width - LABEL_CELLS - 4)
    for label, said in facts:
        for number, part in enumerate(_wrapped(style.say(said), room)):
            head = label if number == 0 and label != last else ""
            lines.append(f"  {head:<{LABEL_CELLS}}  {part}")
        last = label
    return lines


def _wrapped(text: str, room: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]


def _cut(line: str, style: Style) -> str:
    return cut_end(style.say(line), style.width, style.signs.ellipsis)


def _verdict(found: Health, style: Style) -> str:
    outcomes = [one.outcome for one in found.looked]
    looked, lacking = len(outcomes) - outcomes.count("not judged"), outcomes.count("not judged")
    when = " now" if found.looked_by == "today" else ""
    rest = f"; {lacking:,} could not judge" if lacking else ""
    so_far = " so far" if found.run.state.is_live else ""
    if found.causes:
        word = style.paint("likely", "yellow", "bold")
        first = found.causes[0]
        alike = [one.said for one in found.causes if one.score == first.score]
        return f"{word}  {style.say('; or '.join(alike[:2]))}{_so_far(so_far)}"
    if found.warned:
        word = style.paint("unclear", "yellow", "bold")
        return f"{word}  {counted(len(found.warned), 'event')}, and no cause that fits"
    if found.is_broken:
        word = style.paint(found.run.state.value, "red", "bold")
        return f"{word}  {style.say(found.run.reason) or 'it says no reason'}"
    if not looked:
        word = style.paint("not judged", "yellow", "bold")
        return f"{word}  no rule has what it needs"
    word = style.paint("healthy", "green", "bold")
    rest += "; none is known to have looked while it trained" if when else ""
    return f"{word}  {counted(looked, 'rule')} looked{when}, none warned{so_far}{rest}"


def _so_far(said: str) -> str:
    return f", seen{said}" if said else ""


def next_commands(found: Health) -> list[tuple[str, str]]:
    """Return what to type next, as (label, command)."""
    return list(found.commands)


def json_of_health(found: Health) -> json.Data:
    """Return `show --health` for programs."""
    around, healthy = found.around, found.healthy
    return json.document(
        **json.run(found.run),
        reason=found.run.reason,
        verdict=verdict(found),
        looked_by=found.looked_by,
        events=[_event(one) for one in found.found],
        around=None if around is None else _around_json(around),
        good_checkpoint=found.good,
        healthy=None
        if healthy is None
        else {"run": healthy.run, "name": healthy.name, "keys": list(healthy.keys)},
        repeats=[{"run": one.run, "name": one.name, "same": one.same} for one in found.repeats],
        causes=[
            {
                "cause": one.name,
                "area": one.area,
                "said": one.said,
                "score": one.score,
                "reasons": list(one.reasons),
                "against": list(one.against),
                "command": one.command or None,
            }
            for one in found.causes
        ],
        rules=[
            {"rule": one.rule, "outcome": one.outcome, "why": one.why or None}
            for one in found.looked
        ],
        commands=[{"label": label, "command": command} for label, command in found.commands],
        problems=list(found.problems),
    )


def verdict(found: Health) -> str:
    """Return one word: `healthy`, `likely` (there is a cause), `unclear`, `not judged`, or the
    state of a run that ended badly.
    """
    if found.causes:
        return "likely"
    if found.warned:
        return "unclear"
    if found.is_broken:
        return found.run.state.value
    return "healthy" if any(one.outcome != "not judged" for one in found.looked) else "not judged"


def _event(event: Event) -> Mapping[str, Any]:
    return {
        "step": event.step,
        "severity": event.severity,
        "rule": event.rule,
        "key": event.key or None,
        "message": event.message,
        "now": event.now or None,
    }


def _around_json(around: Around) -> Mapping[str, Any]:
    return {
        "step": around.step,
        "steps": list(around.steps),
        "values": {key: list(values) for key, values in around.values.items()},
        "batches": None if around.batches is None else list(around.batches),
        "layers": list(around.layers),
        "notes": [plain(note) for note in around.notes],
    }
