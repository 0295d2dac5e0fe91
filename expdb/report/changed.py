"""What a run changed against its parent, in as many cells as there are.

Invariant: the first key is named whatever the width; its values stand where they fit.
"""

from __future__ import annotations

from expdb.query.history_results import CodeChange, KeyChange, Node
from expdb.query.results import ABSENT
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.text import cells, config_value, cut_end, plain


def changed(node: Node, style: Style, room: int) -> str:
    """Return what a node changed: `optim.lr 0.003 → 0.01; code 4 files`; of a root its code."""
    texts = [_whole(node, style, with_values=True), _whole(node, style, with_values=False)]
    found = next((text for text in texts if cells(text) <= room), texts[-1])
    return cut_end(found, room, style.signs.ellipsis) or ("" if style.terminal else "-")


def _whole(node: Node, style: Style, *, with_values: bool) -> str:
    if node.is_cycle:
        return "damaged: its parents go in a circle"
    if node.lost_parent is not None:
        return f"parent {style.say(style.run(node.lost_parent))} is not in this store"
    if node.parent is None:
        return style.say(node.code_at)
    if node.is_same:
        seed = "" if node.lead.seed is None else f", seed {node.lead.seed}"
        return f"the same{seed}"
    parts = [
        _config(node.config, style, with_values=with_values),
        _code(node.code, node.code_at, style),
        f"environment {style.say(', '.join(node.environment))}" if node.environment else "",
        f"data {style.say(', '.join(node.data))}" if node.data else "",
        _seed(node),
    ]
    said = "; ".join(part for part in parts if part)
    return said or ("seed" if node.seed_differs else "nothing: a repeat")


def _seed(node: Node) -> str:
    """Return the seed where it is one more change: nothing of that seed to measure against."""
    is_more = (
        bool(node.config or node.code or node.data or node.environment) and len(node.rows) == 1
    )
    if not (is_more and node.seed_differs and node.against == (node.lead.parent,)):
        return ""
    return f"seed {node.lead.seed}"


def _config(changes: tuple[KeyChange, ...], style: Style, *, with_values: bool) -> str:
    if not changes:
        return ""
    first = changes[0]
    said = plain(first.key)
    if with_values:
        before, after = (
            "-" if value is ABSENT else config_value(value, ellipsis=style.signs.ellipsis)
            for value in (first.before, first.after)
        )
        said += f" {before} {style.signs.arrow} {after}"
    return said + (f" and {len(changes) - 1:,} more" if len(changes) > 1 else "")


def _code(code: CodeChange | None, code_at: str, style: Style) -> str:
    if code is None:
        return ""
    if code.num_files is None:
        return f"code {style.say(code_at)}".rstrip()
    return f"code {counted(code.num_files, 'file')}"
