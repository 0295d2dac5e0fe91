"""The lineage and the operations as rows.

Invariant: a node has the colour of its state, an edge never; chips are cut last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from expdb.actions.results import OpRow
from expdb.query.history_results import History
from expdb.signs import STATE_GLYPHS, to_ascii
from expdb.text import age, decimals_for, id_length, metric, plain, signed
from expdb_tui.history.lanes import LaneRow, Sign
from expdb_tui.history.reading import HistoryRead, Shown
from expdb_tui.ink import Piece, cut, fit, titled, width_of
from expdb_tui.marks import OUTCOME_ROLES, Marks
from expdb_tui.runs.cells import ROLES
from expdb_tui.session import now_ms

SEEDS, VALUE, DELTA, AGE = 6, 9, 7, 4
AT_DELTA, AT_SEEDS, AT_COMMIT, ROOM_FOR_FILES = 64, 50, 96, 59
EDGES: dict[Sign, str] = {
    "": "  ", "line": "│ ", "first": "├─", "join": "┴─", "end": "╯ ", "across": "──",
    "cross": "┼─", "through": "┤ ", "more": "╎ ",
}  # fmt: skip
ASCII_EDGES: dict[Sign, str] = {
    "": "  ", "line": "| ", "first": "|-", "join": "+-", "end": "' ", "across": "--",
    "cross": "|-", "through": "| ", "more": ": ",
}  # fmt: skip
BEGUN = ("running", "paused", "pending")
CUT_OFF = ("failed", "crashed", "lost", "preempted")
UNDOING = ("rollback", "undo", "worktree")


class LineageLines:
    """The rows of the graph; those of edges alone hold no run."""

    def __init__(self, found: HistoryRead, marks: Marks, *, ascii: bool) -> None:
        self.found, self._marks, self._ascii = found, marks, ascii
        self._columns = max((len(row.signs) for row in found.graph), default=1)
        self._folds = any(row.num_folded for row in found.graph)
        values = [one.node.value for one in found.nodes if _is_of(one, found.history)]
        self._decimals = decimals_for(values)
        self.is_active = True

    def __len__(self) -> int:
        return len(self.found.graph)

    def node(self, at: int) -> int | None:
        """Return the node of a row."""
        return self.found.graph[at].node if 0 <= at < len(self.found.graph) else None

    def row_of(self, node: int | None) -> int | None:
        """Return the row of a node."""
        if node is None:
            return None
        return next((at for at, row in enumerate(self.found.graph) if row.node == node), None)

    @property
    def _graph_cells(self) -> int:
        return 2 * self._columns + (2 if self._folds else 0) + 1

    def head(self, width: int) -> Sequence[Piece]:
        """Return the heads of the columns."""
        role = "accent+bold" if self.is_active else "dim"
        # The cursor's cell at the left, and one of air at the right.
        width -= 1
        name = self._room(width - 1)
        left = [*fit([(" lineage", role)], self._graph_cells + 1 + name)]
        right: list[Piece] = []
        for text, cells, since in self._heads():
            if width - 1 >= since:
                right += [("  ", ""), *fit([(text, "dim")], cells, right=True)]
        return [*left, *right]

    def _heads(self) -> list[tuple[str, int, int]]:
        history = self.found.history
        key = plain(history.metric or "objective")[-VALUE:]
        delta = "d parent" if self._ascii else "Δ parent"
        return [
            ("commit", 8, AT_COMMIT), ("seeds", SEEDS, AT_SEEDS), (key, VALUE, 0),
            (delta, DELTA + 2, AT_DELTA), ("age", AGE, 0),
        ]  # fmt: skip

    def _room(self, width: int) -> int:
        taken = sum(cells + 2 for _, cells, since in self._heads() if width >= since)
        return max(8, width - self._graph_cells - taken)

    def line(self, at: int, width: int) -> Sequence[Piece]:
        """Return one row."""
        row = self.found.graph[at]
        width -= 1
        out = fit(self._graph(row), self._graph_cells)
        if row.node is None:
            return out
        one = self.found.nodes[row.node]
        lead = one.lead
        out += fit(self._name(one, self._room(width)), self._room(width))
        if width >= AT_COMMIT:
            commit = (lead.commit or "")[:7] + ("+" if lead.dirty else "")
            out += [("  ", ""), *fit([(commit, "faint")], 8, right=True)]
        if width >= AT_SEEDS:
            out += [("  ", ""), *fit([(seeds_of(one), "dim")], SEEDS, right=True)]
        out += [("  ", ""), *fit(self._value(one), VALUE, right=True)]
        if width >= AT_DELTA:
            out += [("  ", ""), *self._delta(one)]
        when = [(age(max(r.created_at_ms for r in one.rows), now_ms()), "dim")]
        return [*out, ("  ", ""), *fit(when, AGE, right=True)]

    def _graph(self, row: LaneRow) -> list[Piece]:
        edges = ASCII_EDGES if self._ascii else EDGES
        out: list[Piece] = []
        for sign in row.signs:
            if sign == "node" and row.node is not None:
                out += [self._glyph(self.found.nodes[row.node]), (" ", "")]
            else:
                out.append((edges[sign], "rule2"))
        if row.num_folded:
            out[-1] = (out[-1][0].rstrip() + f"+{row.num_folded}", "dim")
        return out

    def _glyph(self, one: Shown) -> Piece:
        if any(row.is_head for row in one.rows):
            return ("@" if self._ascii else "◉", "accent+bold")
        state = one.lead.state.value
        if state == "finished":
            return ("o" if self._ascii else "●", "text")
        look = STATE_GLYPHS[state]
        return (look.ascii if self._ascii else look.glyph, ROLES[look.colour])

    def _name(self, one: Shown, room: int) -> list[Piece]:
        """Return the name, what it is a fork of, and its chips, which are cut last."""
        lead = one.lead
        refs = list(dict.fromkeys(ref for row in one.rows for ref in row.refs))
        is_head = any(row.is_head for row in one.rows)
        bold = "+bold" if refs or is_head or lead.state.is_alive else ""
        name: list[Piece] = [(plain(lead.experiment), f"text{bold}"), (plain(lead.variant), "dim")]
        if one.node.fork is not None and room >= 30:
            step = "" if one.node.fork.step is None else f"@{one.node.fork.step}"
            name.append((f"  fork of {one.node.fork.run[:4]}{step}", "dim"))
        chips: list[Piece] = []
        if is_head:
            chips += [(" ", ""), ("[HEAD]" if self._ascii else " HEAD ", "bg+bold+on-accent")]
        for ref in refs:
            chip = f"[{plain(ref)}]" if self._ascii else f" {plain(ref)} "
            chips += [(" ", ""), (chip, "accent+on-surface")]
        left = max(6, room - width_of(chips))
        return cut([*cut(name, left, self._marks.ellipsis), *chips], room, self._marks.ellipsis)

    def _value(self, one: Shown) -> list[Piece]:
        lead = one.lead
        state = lead.state.value
        if state in BEGUN or (state in CUT_OFF and lead.max_steps and state != "failed"):
            most = f"/{lead.max_steps}" if lead.max_steps else ""
            return [(f"{lead.last_step or 0}{most}", "accent" if state in BEGUN else "warn")]
        if state in CUT_OFF:
            return [(f"@{lead.last_step}" if lead.last_step is not None else "", "fail")]
        value = one.node.value if len(one.rows) > 1 else lead.value
        if value is None or not _is_of(one, self.found.history):
            return []
        said = metric(value, self._decimals, key=self.found.history.metric or "")
        return [(said, "text" if math.isfinite(value) else "fail")]

    def _delta(self, one: Shown) -> list[Piece]:
        delta = one.node.delta
        if delta is None or len(one.rows) < len(one.node.rows):
            return [(" " * (DELTA + 2), "")]
        said = signed(delta.value, self._decimals, key=self.found.history.metric or "")
        role = OUTCOME_ROLES[delta.outcome] if delta.outcome is not None else "dim"
        sign = self._marks.outcomes[delta.outcome] if delta.outcome is not None else " "
        return [*fit([(said, role)], DELTA, right=True), (" ", ""), (sign, role)]


def _is_of(one: Shown, history: History) -> bool:
    objective = one.lead.objective
    return objective is not None and objective.metric == history.metric


def seeds_of(one: Shown) -> str:
    """Return the seeds of a node: `s0`, `s0-2`, `s0,4`."""
    seeds = sorted(row.seed for row in one.rows if row.seed is not None)
    if not seeds:
        return ""
    if len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"s{seeds[0]}-{seeds[-1]}"
    return "s" + ",".join(map(str, seeds))


class OpLines:
    """The operations, the newest first."""

    def __init__(self, ops: Sequence[OpRow], marks: Marks) -> None:
        self.ops, self._marks = ops, marks
        self._id_cells = id_length(op.id for op in ops) if ops else 4
        self.is_active = False

    def __len__(self) -> int:
        return len(self.ops)

    def head(self, width: int) -> Sequence[Piece]:
        """Return the title with a rule."""
        role = "accent+bold" if self.is_active else "text+bold"
        title: list[Piece] = [(" Operations", role), ("  u undoes the newest", "dim")]
        return titled(title, width - 1, self._marks.rule)

    def line(self, at: int, width: int) -> Sequence[Piece]:
        """Return one operation; what is undone is struck through."""
        op = self.ops[at]
        width -= 1
        kind, what = _split(op, is_ascii=self._marks.rule == "-")
        is_off = op.undone_by is not None or op.state == "aborted"
        ground = "faint+strike" if is_off else ""
        is_marked = op.is_here and not is_off
        out: list[Piece] = [
            ("*" if is_marked else " ", "accent"),
            (op.id[: self._id_cells], "faint"),
        ]
        role = ground or ("accent" if op.kind in UNDOING else "text")
        out += [(" ", ""), *_struck(kind, 9, role), (" ", "")]
        tail = (
            "" if op.num_paths is None else f"{op.num_paths} file{'' if op.num_paths == 1 else 's'}"
        )
        if op.state == "unfinished":
            tail, ground = "stopped", "warn"
        when = [("  ", ""), *fit([(age(op.created_at_ms, now_ms()), "dim")], 4, right=True)]
        has_tail = bool(tail) and width >= ROOM_FOR_FILES
        tails: list[Piece] = [("  ", ""), (tail, ground or "dim")] if has_tail else []
        room = width - width_of(out) - width_of(when) - width_of(tails)
        said = cut([(what, ground or "text")], room, self._marks.ellipsis)
        return [*said_fit(out, said, room), *tails, *when]


def said_fit(out: list[Piece], said: list[Piece], room: int) -> list[Piece]:
    """Return pieces with a text behind them that fills `room` cells."""
    return [*out, *said, (" " * max(0, room - width_of(said)), "")]


def _struck(text: str, cells: int, role: str) -> list[Piece]:
    """Return a text with the cells up to its width; a line through it ends with it."""
    return [(text, role), (" " * max(0, cells - len(text)), "")]


def _split(op: OpRow, *, is_ascii: bool) -> tuple[str, str]:
    """Return the verb of an operation, and what it was about."""
    what = to_ascii(plain(op.what)) if is_ascii else plain(op.what)
    first, _, rest = what.partition(" ")
    if first == op.kind:
        for word in ("to ", "of ", "→ ", "-> "):
            rest = rest.removeprefix(word)
        return op.kind, rest
    return op.kind, what
