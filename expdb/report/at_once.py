"""The line that says that more than one thing changed, so that an effect has no one cause.

Invariant: one line that fits, with as many names as there is room for; none for a single change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from expdb.query.compare_results import Comparison
from expdb.query.history_results import History, Node
from expdb.query.things import groups_in, things_between
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.text import cells, cut_middle, plain

MAX_NAMED: Final = 3
NAME_CELLS: Final = 40


def at_once_line(things: Sequence[str], metric: str, style: Style, *, room: int) -> str:
    """Return `3 things changed at once (optim.lr, model.width, train.py): what moved val/loss
    cannot be told`; empty for fewer than two.
    """
    if len(things) < 2:
        return ""
    names = [cut_middle(plain(name), NAME_CELLS, style.signs.ellipsis) for name in things]
    said = ""
    for number in range(min(MAX_NAMED, len(names)), -1, -1):
        more = f" and {len(names) - number:,} more" if number < len(names) else ""
        named = f" ({', '.join(names[:number])}{more})" if number else ""
        said = f"{counted(len(names), 'thing')} changed at once{named}: what moved"
        said = style.say(f"{said} {metric or 'the metrics'} cannot be told")
        if cells(said) <= room:
            break
    return said


def line_of(comparison: Comparison, style: Style) -> str:
    """Return the line of two runs; empty for one change, or without a metric that moved."""
    if not any(verdict.delta for verdict in comparison.verdicts):
        return ""
    metric = comparison.objective.metric if comparison.objective else ""
    things = things_between(comparison)
    return at_once_line(things, metric, style, room=style.width)


def next_commands(comparison: Comparison, style: Style) -> list[tuple[str, str]]:
    """Return what separates the things that changed at once, as (label, command)."""
    if not line_of(comparison, style) or comparison.objective is None:
        return []
    return [_why(comparison.objective.metric, style.run(comparison.runs[1].id))]


def _why(metric: str, run: str = "") -> tuple[str, str]:
    import shlex

    return "why", f"expdb log --why {shlex.quote(metric)} {run}".rstrip()


def things_of(node: Node) -> list[str]:
    """Return what a run of a tree changed against its parent."""
    found = groups_in(change.key for change in node.config)
    if node.used is not None:
        found += node.used
    elif node.code is not None:
        found.append("code")
    found += ["environment"] if node.environment else []
    return found + (["data"] if node.data else [])


def of_history(history: History, style: Style) -> list[str]:
    """Return the line of a graph; nothing where each run changed one thing at most."""
    found = [node for node in history.nodes if node.delta and len(things_of(node)) > 1]
    if not found:
        return []
    if len(found) == 1:
        lead = f"{style.run(found[0].lead.id)}: "
        room = style.width - cells(lead)
        metric = history.metric or ""
        return [lead + at_once_line(things_of(found[0]), metric, style, room=room)]
    ids = [style.run(node.lead.id) for node in found]
    more = f" and {len(ids) - MAX_NAMED:,} more" if len(ids) > MAX_NAMED else ""
    said = f"{len(found):,} runs changed several things at once"
    tail = f": what moved {history.metric or 'the metrics'} cannot be told"
    whole = style.say(f"{said} ({', '.join(ids[:MAX_NAMED])}{more}){tail}")
    return [whole if cells(whole) <= style.width else style.say(said + tail)]


def next_of_history(history: History, style: Style) -> list[tuple[str, str]]:
    """Return what separates the things that changed at once in a graph."""
    return [_why(history.metric)] if history.metric and of_history(history, style) else []
