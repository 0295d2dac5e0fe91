"""`expdb log --why`: the way to a run, what each change did, and the pairs of runs it rests on.

Invariant: the answer stands last, in one line; a number without its half-width is never called
better or worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from expdb.query.results import ABSENT, Outcome
from expdb.query.seed_results import MeanDelta
from expdb.query.why_results import Cause, Change, Pair, Step, Why
from expdb.report.grid import GAP, Cell, Column, Grid, lay_out, left, right
from expdb.report.style import Style
from expdb.report.words import OUTCOME_COLOURS, counted
from expdb.text import (
    band,
    cells,
    config_value,
    cut_end,
    cut_middle,
    decimals_for,
    metric,
    plain,
    signed,
)

WORDS: Final = {
    Outcome.BETTER: "better",
    Outcome.WORSE: "worse",
    Outcome.NO_DIFFERENCE: "within noise",
    Outcome.INCONCLUSIVE: "?",
}
NOUNS: Final = {"config": "key", "file": "file", "start": "start"}
SHORT: Final = 7
MAX_NAMED: Final = 3
LEAST_CHANGE: Final = 16
BESIDE_CHANGE: Final = 55
"""Cells that the numbers, the word and one pair of runs take beside the name of a change."""
LEAST_PAIRS: Final = 13


def render(found: Why, style: Style, *, limit: int | None = None) -> list[str]:
    """Return the way, the tables of changes, what is confounded, and the answer."""
    decimals = _decimals(found)
    lines = [_title(found, style, decimals)]
    if found.run is not None and found.steps:
        lines += ["", *_way(found, style, decimals)]
    head = "change" if found.run is None else "on the way"
    for title, causes in ((head, found.causes), ("beside it", found.beside)):
        shown = causes if limit is None else causes[:limit]
        if shown:
            lines += ["", *_table(found, title, shown, style, decimals)]
        if len(shown) < len(causes):
            lines.append(f"{len(causes) - len(shown):,} more: -n {len(causes)}")
    confounded = [step for step in found.steps if step.is_confounded]
    shown_steps = confounded if limit is None else confounded[:limit]
    if shown_steps:
        lines += ["", *(_confounded(step, style) for step in shown_steps)]
    if len(shown_steps) < len(confounded):
        lines.append(f"{len(confounded) - len(shown_steps):,} more: -n {len(confounded)}")
    return [*lines, "", *_answer(found, style, decimals)]


def _decimals(found: Why) -> int:
    values = [found.root_value, *(step.value for step in found.steps)]
    values += [c.effect.value for c in (*found.causes, *found.beside) if c.effect is not None]
    return max(3, decimals_for(values))


def _title(found: Why, style: Style, decimals: int) -> str:
    key = found.objective.metric
    noise = "noise not known"
    if found.noise is not None:
        noise = f"noise {band(found.noise.band, decimals, pm=style.signs.pm, key=key)}"
    if found.run is None:
        number = len(found.causes)
        return style.say(
            f"{key}, {counted(number, 'change')} that a pair of runs isolates; {noise}"
        )
    number = sum(len(step.changes) for step in found.steps)
    root = style.run(found.root or found.run)
    way = f"from {root} {found.root_name} to {style.run(found.run)}"
    return cut_end(
        style.say(f"{key} along {counted(number, 'change')}, {way}; {noise}"),
        style.width,
        style.signs.ellipsis,
    )


def _way(found: Why, style: Style, decimals: int) -> list[str]:
    """Return the walk from the root to the run, a line a step, and the sum."""
    key = found.objective.metric
    last = found.steps[-1]
    rows: list[tuple[str, str, str, MeanDelta | None]] = [
        (metric(found.root_value, decimals, key=key), style.run(found.root or ""), "", None)
    ]
    rows += [
        (
            signed(None if step.delta is None else step.delta.value, decimals, key=key),
            style.run(step.run),
            _changes(step, style),
            step.delta,
        )
        for step in found.steps
    ]
    end = metric(last.value, decimals, key=key)
    width = max(cells(end), *(cells(row[0]) for row in rows))
    words = [_beyond(delta, style, decimals, key) for *_, delta in rows]
    taken = max(cells(f"  {'':{width}}  {run}    ") for _, run, *_ in rows)
    room = max(style.width - taken - max(map(cells, words)), LEAST_CHANGE)
    texts = [cut_end(said, room, style.signs.ellipsis) for _, _, said, _ in rows]
    widest = max(map(cells, texts))
    lines = []
    for (number, run, *_), said, word in zip(rows, texts, words, strict=True):
        line = f"  {right(number, width)}  {run}  {left(said, widest)}  {word}"
        lines.append(line.rstrip())
    lines.append(style.paint("  " + style.signs.line * width, "dim"))
    total = found.total
    since = ""
    if total is not None:
        since = f"{signed(total.value, decimals, key=key)} since {style.run(found.root or '')}"
        since += f"  {_beyond(total, style, decimals, key)}"
    return [*lines, f"  {right(end, width)}  {style.run(found.run or '')}  {since}".rstrip()]


def _beyond(delta: MeanDelta | None, style: Style, decimals: int, key: str) -> str:
    if delta is None or delta.outcome is None:
        return ""
    if delta.half_width is None or delta.outcome is Outcome.INCONCLUSIVE:
        return "inconclusive"
    width = band(delta.half_width, decimals, pm=style.signs.pm, key=key)
    if delta.outcome is Outcome.NO_DIFFERENCE:
        return f"within noise {width}"
    return f"{WORDS[delta.outcome]}, beyond noise {width}"


def _changes(step: Step, style: Style) -> str:
    """Return one change whole, and more than one by their number."""
    if len(step.changes) == 1 and not step.unknown:
        return _change(step.changes[0], style)
    word = "confounded: " if step.is_confounded else ""
    return f"{word}{_kinds(step)}"


def _kinds(step: Step) -> str:
    """Return how many of what changed: `2 keys, 1 file, environment`."""
    parts = []
    for kind, noun in NOUNS.items():
        number = sum(change.kind == kind for change in step.changes)
        if number:
            parts.append("weights" if kind == "start" else counted(number, noun))
    parts += [change.kind for change in step.changes if change.kind not in NOUNS]
    return ", ".join([*parts, *(f"{name} not recorded" for name in step.unknown)])


def change_name(change: Change) -> str:
    """Return what a change is of: a key or a file by its name, else the kind with its names."""
    if change.kind in ("config", "file"):
        return change.name
    return change.name if change.kind == "code" else f"{change.kind} {change.name}"


def _change(change: Change, style: Style) -> str:
    before, after = (_value(change, value, style) for value in (change.before, change.after))
    said = f"{style.say(change_name(change))} {style.say(before)}"
    return f"{said} {style.signs.arrow} {style.say(after)}"


def _value(change: Change, value: object, style: Style) -> str:
    if value is ABSENT:
        return "-"
    if change.kind in ("file", "code"):
        return ", ".join(part[:SHORT] for part in str(value).split(", "))
    if change.kind == "config":
        return config_value(value, ellipsis=style.signs.ellipsis)
    return cut_end(plain(str(value)), 24, style.signs.ellipsis)


def _table(
    found: Why, title: str, causes: Sequence[Cause], style: Style, decimals: int
) -> list[str]:
    key = found.objective.metric
    columns: tuple[Column, ...] = (
        Column(head=title, cut="middle"),
        Column(head=style.say(key), right=True),
        Column(head=style.signs.pm),
        Column(head=""),
    )
    rows = tuple(_row(cause, key, style, decimals) for cause in causes)
    taken = Grid(columns, rows).width(style) + len(GAP)
    if style.width - taken < LEAST_PAIRS:
        return lay_out(Grid(columns, rows), style)
    columns = (*columns, Column(head="pairs of runs"))
    pairs = (Cell(_pairs(cause.pairs, style, style.width - taken)) for cause in causes)
    rows = tuple((*row, cell) for row, cell in zip(rows, pairs, strict=True))
    return lay_out(Grid(columns, rows), style)


def _row(cause: Cause, key: str, style: Style, decimals: int) -> tuple[Cell, ...]:
    effect = cause.effect
    room = max(LEAST_CHANGE, style.width - BESIDE_CHANGE)
    name = Cell(cut_middle(_change(cause.change, style), room, style.signs.ellipsis))
    if effect is None:
        return name, Cell(), Cell(), Cell("not told", "yellow")
    number = signed(effect.value, decimals, key=key)
    half = ""
    if effect.half_width is not None:
        half = band(effect.half_width, decimals, pm=style.signs.pm, key=key)
    outcome = effect.outcome or Outcome.INCONCLUSIVE
    word = "pairs disagree" if cause.disagree else WORDS[outcome]
    colour = OUTCOME_COLOURS[outcome]
    return name, Cell(number, colour), Cell(half), Cell(word, colour)


def _pairs(pairs: Sequence[Pair], style: Style, room: int) -> str:
    """Return as many pairs as fit, and the number of the others."""
    said = [_pair(pair, style) for pair in pairs]
    for number in range(len(said), 1, -1):
        text = ", ".join(said[:number]) + _more(len(said) - number)
        if cells(text) <= room:
            return text
    more = _more(len(said) - 1)
    return cut_end(said[0], room - cells(more), style.signs.ellipsis) + more if said else ""


def _more(number: int) -> str:
    return f" +{number:,}" if number > 0 else ""


def _pair(pair: Pair, style: Style) -> str:
    sides = (" ".join(map(style.run, side)) for side in (pair.before, pair.after))
    return f" {style.signs.arrow} ".join(sides)


def _confounded(step: Step, style: Style) -> str:
    names = [change_name(change) for change in step.left]
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    lead = f"{style.run(step.parent)} {style.signs.arrow} {style.run(step.run)}"
    said = f"confounded: {_kinds(step)} ({', '.join(names[:MAX_NAMED])}{more})"
    return cut_end(f"{lead}  {style.say(said)}", style.width, style.signs.ellipsis)


def _answer(found: Why, style: Style, decimals: int) -> list[str]:
    """Return what moved the metric, and how many others did nothing."""
    key = found.objective.metric
    everything = (*found.causes, *found.beside)
    moved = [one for one in everything if _has_moved(one)]
    still = sum(
        one.effect is not None and one.effect.outcome is Outcome.NO_DIFFERENCE for one in everything
    )
    if not moved:
        word = style.paint("no cause", "bold")
        why = "no single change moved it beyond noise"
        if not any(one.effect for one in everything):
            why = "no two runs differ in one thing alone"
        elif found.noise is None and not still:
            why = "the noise is not known: 3 seeds of one config, or a declared one, would tell"
        return [f"{word}  {style.say(f'{key}: {why}')}"]
    lines = [_cause_line(found, one, style, decimals) for one in moved[:MAX_NAMED]]
    rest = [f"{len(moved) - MAX_NAMED:,} more beyond noise"] if len(moved) > MAX_NAMED else []
    rest += [f"{still:,} within noise"] if still else []
    return [*lines, *([f"others  {', '.join(rest)}"] if rest else [])]


def _cause_line(found: Why, cause: Cause, style: Style, decimals: int) -> str:
    effect = cause.effect
    outcome = (effect.outcome if effect else None) or Outcome.INCONCLUSIVE
    key = found.objective.metric
    number = signed(effect.value if effect else None, decimals, key=key)
    beside = "" if found.run is None or cause in found.causes else ", beside the way"
    said = style.say(f"{key} {number}, {WORDS[outcome]}{beside}")
    word = style.paint("cause", OUTCOME_COLOURS[outcome], "bold")
    room = max(style.width - cells(f"cause     {said}"), LEAST_CHANGE)
    name = cut_end(_change(cause.change, style), room, style.signs.ellipsis)
    return f"{word}   {name}  {said}"


def _has_moved(cause: Cause) -> bool:
    effect = cause.effect
    return effect is not None and effect.outcome in (Outcome.BETTER, Outcome.WORSE)


def next_commands(found: Why, style: Style) -> list[tuple[str, str]]:
    """Return how to see what is confounded, and how to look at the whole store."""
    step = next((one for one in found.steps if one.is_confounded), None)
    if step is None:
        return []
    return [("compare", f"expdb compare {style.run(step.parent)} {style.run(step.run)} --code")]


def names_moved(found: Why) -> list[str]:
    """Return the names of what moved the metric beyond noise, the largest effect first."""
    moved = [one for one in (*found.causes, *found.beside) if _has_moved(one)]
    return list(dict.fromkeys(plain(change_name(one.change)) for one in moved))
