"""`expdb log --graph`: runs as trees, what changed in each, and the effect against its parent.

Invariant: a tree is drawn whole, an id is never cut. Where the column of changes does not fit, it
moves to a line of its own under the run; then names are cut in the middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from expdb.model import RunState
from expdb.query.history_results import History, Node
from expdb.report.changed import changed
from expdb.report.grid import GAP, right
from expdb.report.style import Style
from expdb.report.words import OUTCOME_COLOURS, SHORT_WORDS, step_of
from expdb.signs import STATE_GLYPHS, Colour
from expdb.text import cells, cut_middle, decimals_for, metric, plain, signed

LEAST_CHANGED: Final = 24
"""Cells that the column of changes needs to stand beside the run."""
LEAST_WIDTH: Final = 80
GOOD_NAME: Final = 20
"""Cells that a name keeps before the changes leave its line."""
LEAST_NAME: Final = 10
MAX_INDENT: Final = 36
MAX_IDS: Final = 5

Piece = tuple[str, Colour]


@dataclass(frozen=True, slots=True)
class _Row:
    """One node with its texts, but for what changed."""

    node: Node
    indent: str
    below: str
    """What stands in front of a further line of the same node."""
    value: str
    delta: str
    colour: Colour


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """What has to give way for the lines to fit."""

    is_beside: bool = False
    """The changes stand beside the runs."""
    with_word: bool = True
    """A state has its word."""
    name_cells: int | None = None
    """How many cells a name may take; None for all."""


def render(history: History, style: Style) -> list[str]:
    """Return the trees, one line a node; nothing for an empty history."""
    if not history.nodes:
        return []
    rows = _rows(history, style)
    head = style.say(history.metric or "objective")
    numbers = max(cells(head), *(cells(row.value) for row in rows))
    deltas = max(cells("vs parent"), *(cells(row.delta) for row in rows))
    margin = 2 if style.terminal else 0
    taken = margin + len(GAP) + numbers + len(GAP) + deltas
    fit = _fit(rows, style, style.width - taken)
    leads = [_lead(row, style, fit) for row in rows]
    width = max(_cells(lead) for lead in leads)
    room = style.width - taken - width - len(GAP)
    tail = f"{GAP}changed" if fit.is_beside else ""
    first = f"{'':{margin + width}}{GAP}{right(head, numbers)}{GAP}{'vs parent':<{deltas}}{tail}"
    lines = [style.paint(first.rstrip(), "dim")]
    for row, lead in zip(rows, leads, strict=True):
        mark = "* " if any(one.is_head for one in row.node.rows) else "  "
        line = (mark if style.terminal else "") + _painted(lead, style)
        line += " " * (width - _cells(lead)) + GAP + right(row.value, numbers)
        pad = " " * (deltas - cells(row.delta))
        line += GAP + style.paint(row.delta, row.colour) + pad
        if fit.is_beside:
            lines.append(f"{line}{GAP}{changed(row.node, style, room)}".rstrip())
        else:
            under = " " * margin + style.paint(row.below, "dim")
            text = changed(row.node, style, style.width - margin - cells(row.below))
            lines += [line.rstrip(), f"{under}{text}".rstrip()]
    return lines


def _fit(rows: Sequence[_Row], style: Style, room: int) -> _Fit:
    """Return how the lines give way; `room` is what tree and changes have together."""
    for fit in (_Fit(is_beside=True), _Fit(), _Fit(with_word=False)):
        wanted = LEAST_CHANGED + len(GAP) if fit.is_beside else 0
        limit = _name_limit(rows, style, fit, room - wanted)
        if (limit is None or limit >= GOOD_NAME) and (not wanted or style.width >= LEAST_WIDTH):
            return replace(fit, name_cells=limit)
    return _Fit(with_word=False, name_cells=max(LEAST_NAME, limit or 0))


def _name_limit(rows: Sequence[_Row], style: Style, fit: _Fit, room: int) -> int | None:
    """Return to how many cells names are cut so that every tree line fits; None: they fit whole."""
    found = [(cells(_name(row.node, style)), _cells(_lead(row, style, fit))) for row in rows]
    return min((name - (full - room) for name, full in found if full > room), default=None)


def _rows(history: History, style: Style) -> list[_Row]:
    nodes = history.nodes
    shown = [node.value if _is_of(node, history) else None for node in nodes]
    decimals = decimals_for(shown)
    key = history.metric or ""
    numbers = [
        signed(node.delta.value, decimals, key=key)
        if node.delta is not None and _is_of(node, history)
        else ""
        for node in nodes
    ]
    width = max(map(cells, numbers), default=0)
    empty = "" if style.terminal else "-"
    rows, trunks = [], list[str]()
    for node, value, number in zip(nodes, shown, numbers, strict=True):
        indent, trunk = _indent(node, trunks, style)
        trunks.append(trunk)
        word, colour = _word(node)
        rows.append(
            _Row(
                node=node,
                indent=_short(indent, style),
                below=_short(trunk + (f"{style.signs.trunk}  " if node.children else "   "), style),
                value=metric(value, decimals, key=key, absent=empty),
                delta=f"{right(number, width)} {word}".rstrip() if number else empty,
                colour=colour if number else "",
            )
        )
    return rows


def _is_of(node: Node, history: History) -> bool:
    objective = node.lead.objective
    return objective is not None and objective.metric == history.metric


def _indent(node: Node, trunks: Sequence[str], style: Style) -> tuple[str, str]:
    """Return what stands in front of a node, and in front of all below it."""
    if node.parent is None:
        return "", ""
    above = trunks[node.parent]
    sign = style.signs.last_branch if node.is_last else style.signs.branch
    return f"{above}{sign} ", above + ("   " if node.is_last else f"{style.signs.trunk}  ")


def _short(indent: str, style: Style) -> str:
    if cells(indent) <= MAX_INDENT:
        return indent
    ellipsis = style.signs.ellipsis
    return ellipsis + indent[len(indent) - (MAX_INDENT - cells(ellipsis)) :]


def _word(node: Node) -> tuple[str, Colour]:
    if node.delta is None:
        return "", ""
    if node.delta.outcome is None:
        return f"@{node.delta.at_step}", "dim"
    return SHORT_WORDS[node.delta.outcome], OUTCOME_COLOURS[node.delta.outcome]


def _lead(row: _Row, style: Style, fit: _Fit) -> list[Piece]:
    """Return tree, ids, name, refs, state and fork of a node."""
    node = row.node
    ids = [style.run(one.id) for one in node.rows]
    if len(ids) > MAX_IDS:
        ids = [*ids[: MAX_IDS - 1], f"+{len(ids) - MAX_IDS + 1}"]
    pieces: list[Piece] = [(row.indent, "dim"), (" ".join(ids), "dim")]
    name = _name(node, style)
    if fit.name_cells is not None:
        name = cut_middle(name, fit.name_cells, style.signs.ellipsis)
    if name:
        pieces.append((GAP + name, "bold" if any(one.is_head for one in node.rows) else ""))
    heads = ["HEAD"] if any(one.is_head for one in node.rows) and not style.terminal else []
    refs = [*heads, *(ref for one in node.rows for ref in one.refs)]
    pieces.append(("".join(f" [{style.say(ref)}]" for ref in refs), ""))
    if node.seed_differs and node.repeats_name:
        pieces.append((GAP + seeds(node), ""))
    if node.lead.state is not RunState.FINISHED:
        state = _state(node, style, with_word=fit.with_word)
        pieces.append((GAP + state, STATE_GLYPHS[node.lead.state.value].colour))
    if node.fork is not None:
        source = "" if node.fork.run == node.lead.parent else style.say(style.run(node.fork.run))
        source += "" if node.fork.step is None else f"@{node.fork.step}"
        pieces.append((f"{GAP}(fork {source})" if source else f"{GAP}(fork)", "dim"))
    return [piece for piece in pieces if piece[0]]


def _name(node: Node, style: Style) -> str:
    """Return the name of a node; a terminal leaves it out where it repeats the parent's."""
    return (
        "" if style.terminal and node.repeats_name and node.seed_differs else plain(node.lead.name)
    )


def seeds(node: Node) -> str:
    """Return the seeds of a node: `seed 1`, `seeds 0-2,5`."""
    found = sorted(row.seed for row in node.rows if row.seed is not None)
    starts = [at for at, _ in enumerate(found) if not at or found[at] != found[at - 1] + 1]
    spans = [found[start:stop] for start, stop in pairwise([*starts, len(found)])]
    said = ",".join(str(s[0]) if len(s) == 1 else f"{s[0]}-{s[-1]}" for s in spans)
    return f"seed {said}" if len(found) == 1 else f"seeds {said}"


def _state(node: Node, style: Style, *, with_word: bool) -> str:
    row = node.lead
    at = step_of(row.last_step, row.max_steps)
    if style.terminal and (row.state.is_alive or not with_word):
        return f"{style.glyph(row.state.value)} {at}".rstrip()
    return f"{style.state(row.state.value)} {at}".rstrip()


def _cells(pieces: Sequence[Piece]) -> int:
    return sum(cells(text) for text, _ in pieces)


def _painted(pieces: Sequence[Piece], style: Style) -> str:
    return "".join(style.paint(text, colour) for text, colour in pieces)
