"""What is said of the node under the cursor: its code, what it changed, where it leads."""

from __future__ import annotations

from collections.abc import Sequence

from expdb.query.results import ABSENT
from expdb.text import config_value, plain
from expdb_tui.history.lines import seeds_of
from expdb_tui.history.reading import Facts
from expdb_tui.ink import Piece, cut, fit, titled
from expdb_tui.marks import Marks

LABEL = 13


def detail_rows(facts: Facts, width: int, height: int, marks: Marks) -> list[Sequence[Piece]]:
    """Return what is to be said of a node, in `height` rows at most."""
    run, node = facts.run, facts.node.node
    title: list[Piece] = [(f" {plain(run.name)}", "text+bold")]
    title += [(f"  {seeds_of(facts.node)}", "text"), (f"  {run.id}", "faint")]
    out: list[Sequence[Piece]] = [titled(title, width - 1, marks.rule)]
    pin = run.pin
    if pin.commit is not None:
        how = f"with {pin.num_edits} edits, kept" if pin.dirty else "clean"
        out.append(_pair("commit", [(pin.commit[:7], "text"), (f"  {how}", "dim")]))
    out.append(_pair("config", [(run.digest.rpartition(":")[2][:8], "text")]))
    arrow = "->" if marks.rule == "-" else "→"
    for at, change in enumerate(node.config[:6]):
        old, new = (
            "-" if value is ABSENT else config_value(value, 16)
            for value in (change.before, change.after)
        )
        moved: list[Piece] = [(f"{plain(change.key)} ", "text"), (f"{plain(old)} {arrow} ", "dim")]
        out.append(_pair("changed" if at == 0 else "", [*moved, (plain(new), "text+bold")]))
    if len(node.config) > 6:
        out.append(_pair("", [(f"and {len(node.config) - 6} more keys", "dim")]))
    if node.code is not None:
        count = node.code.num_files
        said = "other code" if count is None else f"{count} file{'' if count == 1 else 's'}"
        out.append(_pair("code", [(said, "text")]))
    if facts.parent:
        out.append(_pair("parent", [(plain(facts.parent), "text")]))
    if facts.children:
        out.append(_pair("children", [(plain(" ".join(facts.children)), "text")]))
    steps = [item.step for item in run.usable]
    if steps:
        some = " ".join(map(str, steps[-6:]))
        out.append(_pair("checkpoints", [(f"{'.. ' if len(steps) > 6 else ''}{some}", "text")]))
    if run.reason:
        out.append(_pair("ended", [(plain(run.reason), "fail")]))
    for note in run.notes[-2:]:
        out.append(_pair("note", [(plain(note), "text")]))
    return [cut(row, width - 1, marks.ellipsis) for row in out[:height]]


def _pair(label: str, value: Sequence[Piece]) -> list[Piece]:
    return [*fit([(f"   {label}", "dim")], LABEL + 2), *value]
