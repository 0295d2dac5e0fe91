"""`expdb gc`: what goes and why, what stays and why, and what was done."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from expdb.report import json
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.text import plain, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from expdb.actions.gc.results import GcItem, GcPlan, GcResult

WORDS = {
    "checkpoint": "to the trash",
    "trash": "deleted for good",
    "parts": "folded",
    "packages": "to the trash",
    "pin": "dropped",
}
SIZELESS = ("pin", "parts")
"""Kinds that free nothing as a rule."""
COMMIT_CELLS = 7


def render_plan(plan: GcPlan, style: Style, *, all: bool) -> list[str]:
    """Return what goes, a row each, and what stays: counted by its reason, or with `all` row by
    row.
    """
    going, staying = plan.going(), plan.staying
    lines = _table([*going, *staying] if all else going, style)
    if lines:
        lines.append("")
    if not all and staying:
        lines += [*_kept(staying), ""]
    lines.append(_sum(going) if going else "nothing to collect")
    return lines


def _table(items: Sequence[GcItem], style: Style) -> list[str]:
    if not items:
        return []
    columns = (
        Column(head=""),
        Column(head="what"),
        Column(head="experiment", cut="middle"),
        Column(head="size", right=True),
        Column(head="why", cut="end"),
    )
    rows = tuple(
        (
            Cell("goes" if item.goes else "stays", "yellow" if item.goes else "dim"),
            Cell(f"{item.kind} {_short(item, style)}"),
            Cell(plain(item.name)),
            Cell(size(item.bytes) if item.bytes or item.kind not in SIZELESS else ""),
            Cell(plain(item.why), "" if item.goes else "dim"),
        )
        for item in items
    )
    return lay_out(Grid(columns, rows), style)


def _short(item: GcItem, style: Style) -> str:
    if item.kind in ("pin", "packages"):
        return item.what[:COMMIT_CELLS]
    if item.kind == "parts":
        return f"of {style.run(item.run)}"
    if item.step is not None:
        return f"{style.run(item.run)}@{item.step}"
    return plain(item.what)


def _kept(items: Sequence[GcItem]) -> list[str]:
    """Return what stays, by kind and reason."""
    counts = Counter((item.kind, _reason(item)) for item in items)
    sizes: Counter[tuple[str, str]] = Counter()
    for item in items:
        sizes[item.kind, _reason(item)] += item.bytes
    return [
        f"stays  {counted(number, kind) if kind != 'trash' else f'{number:,} in the trash'}"
        f"{f', {size(sizes[kind, why])}' if kind != 'pin' else ''}"
        f"{f'  ({plain(why)})' if why else ''}"
        for (kind, why), number in counts.most_common()
    ]


def _total(items: Iterable[GcItem]) -> int:
    return sum(item.bytes for item in items)


def _reason(item: GcItem) -> str:
    """Return a reason that several items share: names of tags and ages apart."""
    if item.kind == "trash":
        return ""
    word = item.why.split(" ", 1)[0]
    return {"tag": "tagged", "ref": "named by a ref", "fork": "a fork needs it",
            "parent": "a run came from it", "eval": "evaluated"}.get(word, item.why)  # fmt: skip


def _sum(items: Sequence[GcItem]) -> str:
    parts = []
    for kind, where in WORDS.items():
        found = [item for item in items if item.kind == kind]
        if found:
            bytes = "" if kind in SIZELESS else f", {size(_total(found))}"
            parts.append(f"{_number(len(found), kind)}{bytes}, {where}")
    return "would collect " + "; ".join(parts)


def _number(number: int, kind: str) -> str:
    if kind == "trash":
        return f"{number:,} of the trash"
    if kind == "packages":
        return f"{counted(number, 'list')} of packages"
    return f"the parts of {counted(number, 'run')}" if kind == "parts" else counted(number, kind)


def render_result(result: GcResult, style: Style) -> list[str]:
    """Return what was done, and what was left with its reason."""
    if result.op is None:
        return ["nothing to collect"]
    lines = [style.paint(f"left: {plain(line)}", "yellow") for line in result.left]
    if not result.done:
        return [*lines, f"nothing collected  (op {result.op})"]
    return [*lines, f"{_sum(result.done).replace('would collect', 'collected')}  (op {result.op})"]


def next_commands(result: GcResult, plan: GcPlan) -> list[tuple[str, str]]:
    """Return what to do next."""
    moved = result.of("checkpoint")
    can_undo = moved or result.of("pin") or result.of("packages")
    commands = [("undo", "expdb undo")] if can_undo else []
    if moved or plan.trash_bytes:
        held = size(plan.trash_bytes + _total(moved))
        commands.append(("hint", f"the trash holds {held}; free it for good: expdb gc --purge 0d"))
    return commands


def document(plan: GcPlan, result: GcResult | None) -> json.Data:
    """Return a collection, or with `--dry-run` what it would do."""
    done = plan.going() if result is None else result.done
    kept = {item.path for item in done}
    return json.document(
        op=None if result is None else result.op,
        bytes=_total(item for item in done if item.kind == "trash"),
        trashed_bytes=_total(item for item in done if item.kind == "checkpoint"),
        items=[
            {
                "kind": item.kind,
                "what": item.what,
                "experiment": item.name or None,
                "path": item.path,
                "bytes": item.bytes,
                "goes": item.goes if result is None else item.path in kept,
                "why": item.why,
            }
            for item in plan.items
        ],
        left=[] if result is None else list(result.left),
        problems=list(plan.problems),
    )
