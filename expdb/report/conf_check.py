"""`expdb doctor --conf`: one row an experiment; `--conf EXP`: one row a key.

Invariant: what is well comes first and is cut short; what is to fix comes last, next to the count.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from expdb.report import json
from expdb.report.doctor import sign
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.json_status import reasons
from expdb.report.status import reason_text
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.text import config_value, plain

if TYPE_CHECKING:
    from pathlib import Path

    from expdb.actions.conf_check import ConfReport, ConfRow
    from expdb.actions.conf_detail import ConfDetail, KeyRow
    from expdb.query.standing import Standing

ORDER: Final = ("ok", "note", "problem")
SHOWN_OK: Final = 3
"""So many experiments that are well are named where there are more than `MANY` in all."""
MANY: Final = 10
SHOWN_KEYS: Final = 10
DIGEST_CELLS: Final = 12


def render(report: ConfReport, style: Style, *, directory: Path, everything: bool) -> list[str]:
    """Return the table of experiments, and the count of what is to do."""
    folder = os.path.relpath(report.entry.folder, directory)
    head = (
        f"{folder}/{report.group}, {counted(len(report.rows), 'file')},"
        f" base {folder}/{report.entry.name}.yaml"
    )
    lines = [style.say(head)]
    rows = sorted(report.rows, key=lambda row: (ORDER.index(row.mark), row.name))
    num_ok = sum(row.mark == "ok" for row in rows)
    left_out = 0
    if not everything and len(rows) > MANY and num_ok > SHOWN_OK:
        left_out = num_ok - SHOWN_OK
        rows = [*rows[:SHOWN_OK], *rows[num_ok:]]
    if rows:
        lines += ["", *lay_out(_grid(rows, style), style, head=False)]
    if left_out:
        one = "1 more is well" if left_out == 1 else f"{left_out:,} more are well"
        lines.append(f"{' ' * _margin(rows, style)}{one}: --all")
    lines += [style.say(f"{sign('problem', style)[0]} {remark}") for remark in report.remarks]
    return [*lines, "", _summary(report)]


def next_commands(report: ConfReport) -> list[tuple[str, str]]:
    """Return how to look at one experiment: the first that is to look at, else any."""
    rows = [row for row in report.rows if row.num_keys is not None]
    rows.sort(key=lambda row: -ORDER.index(row.mark))
    return [("where", f"expdb doctor --conf {_quoted(rows[0].name)}")] if rows else []


def _quoted(name: str) -> str:
    import shlex

    return shlex.quote(plain(name))


def _summary(report: ConfReport) -> str:
    parts = []
    if report.num_to_fix:
        parts.append(f"{report.num_to_fix:,} to fix")
    if report.num_to_see:
        parts.append(f"{report.num_to_see:,} to look at")
    return ", ".join(parts) or "nothing to fix"


def _grid(rows: Sequence[ConfRow], style: Style) -> Grid:
    columns = (
        Column(head="", min_cells=16, cut="middle"),
        Column(head="", right=True),
        Column(head="", min_cells=14, cut="middle"),
        Column(head="", cut="end"),
    )
    cells = tuple(_row(row, style) for row in rows)
    signs = [sign(row.mark, style) for row in rows]
    if style.terminal:
        return Grid(columns, cells, tuple(style.paint(text, colour) for text, colour in signs))
    words = tuple((Cell(text.strip()), *row) for (text, _), row in zip(signs, cells, strict=True))
    return Grid((Column(head=""), *columns), words)


def _row(row: ConfRow, style: Style) -> tuple[Cell, ...]:
    keys = "" if row.num_keys is None else counted(row.num_keys, "key")
    base = "" if row.num_keys is None else f"{plain(row.base)} + {len(row.changed):,}"
    what = row.remarks[0] if row.remarks else _changed(row)
    if len(row.remarks) > 1:
        what += f" (and {len(row.remarks) - 1} more)"
    return (
        Cell(plain(row.name)),
        Cell(keys),
        Cell(base),
        Cell(style.say(what), "" if row.remarks else "dim"),
    )


def _changed(row: ConfRow) -> str:
    if not row.changed:
        return ""
    more = len(row.changed) - 1
    return row.changed[0] + (f" and {more:,} more" if more else "")


def _margin(rows: Sequence[ConfRow], style: Style) -> int:
    """Return where the last column of the table begins."""
    widths = _grid(rows, style).widths()
    return sum(widths[:-1]) + 2 * (len(widths) - 1) + (2 if style.terminal else 0)


def render_detail(detail: ConfDetail, style: Style, *, everything: bool) -> list[str]:
    """Return the keys of one experiment, those that its own files say first."""
    version, _, digits = detail.digest.partition(":")
    head = (
        f"{plain(detail.name)}  {counted(detail.num_keys, 'key')}, {version}:"
        f"{digits[:DIGEST_CELLS]}, {plain(detail.base)} + {len(detail.changed):,},"
        f" {_stands(detail, style)}"
    )
    rows = detail.rows if everything else detail.rows[:SHOWN_KEYS]
    columns = (
        Column(head="key", cut="middle"),
        Column(head="value", cut="middle"),
        Column(head="from"),
        Column(head="", cut="end"),
    )
    grid = Grid(columns, tuple(_key_row(row, style) for row in rows))
    lines = [head, *(f"  {line}" for line in lay_out(grid, style))]
    left_out = len(detail.rows) - len(rows)
    if left_out:
        widths = grid.widths()
        lines.append(f"{' ' * (2 + widths[0] + widths[1] + 4)}{left_out:,} more: --all")
    return [*lines, *([""] if detail.remarks else []), *map(style.say, detail.remarks)]


def _stands(detail: ConfDetail, style: Style) -> str:
    """Return how its runs stand: `up to date (t1h6)`, `2 up to date, 1 stale: file: moe.py`."""
    if detail.stands is None:
        return "no store here"
    groups: dict[tuple[str, str], list[Standing]] = {}
    for one in detail.stands:
        why = f": {reason_text(one.reasons[0], style)}" if one.reasons else ""
        groups.setdefault((one.state, why), []).append(one)
    parts = []
    for (state, why), found in groups.items():
        number = f"{len(found):,} " if len(detail.stands) > 1 else ""
        run = f" ({style.run(found[0].run)})" if len(found) == 1 and found[0].run else ""
        parts.append(f"{number}{state}{run}{why}")
    return ", ".join(parts)


def _key_row(row: KeyRow, style: Style) -> tuple[Cell, ...]:
    was = ""
    if row.was is not None:
        value = config_value(row.was.value, ellipsis=style.signs.ellipsis)
        was = f"was {value} in {row.was.where}"
    elif row.is_added:
        was = "added"
    return (
        Cell(plain(row.key)),
        Cell(config_value(_shown(row.value), ellipsis=style.signs.ellipsis)),
        Cell(style.say(row.where)),
        Cell(style.say(was), "dim"),
    )


def _shown(value: object) -> object:
    """Return a value as config_value takes it: markers as their text."""
    is_plain = value is None or isinstance(value, (bool, int, float, str, list, tuple, dict))
    return value if is_plain else str(value)


def document(report: ConfReport) -> json.Data:
    """Return `doctor --conf` as JSON."""
    return json.document(
        base=f"{report.entry.name}.yaml",
        group=report.group,
        experiments=[
            {
                "name": row.name,
                "state": row.mark,
                "num_keys": row.num_keys,
                "base": row.base,
                "changed": list(row.changed),
                "added": list(row.added),
                "config_digest": row.digest,
                "remarks": list(row.remarks),
            }
            for row in report.rows
        ],
        remarks=list(report.remarks),
        num_to_fix=report.num_to_fix,
        num_to_see=report.num_to_see,
    )


def detail_document(detail: ConfDetail) -> json.Data:
    """Return `doctor --conf EXP` as JSON."""
    return json.document(
        name=detail.name,
        num_keys=detail.num_keys,
        config_digest=detail.digest,
        base=detail.base,
        changed=list(detail.changed),
        standing=None
        if detail.stands is None
        else [
            {
                "variant": one.variant,
                "seed": one.seed,
                "state": one.state,
                "run": one.run,
                "reasons": reasons(one.reasons),
            }
            for one in detail.stands
        ],
        remarks=list(detail.remarks),
        keys=[
            {
                "key": row.key,
                "value": _shown(row.value),
                "from": row.where,
                "added": row.is_added,
                "was": None
                if row.was is None
                else {"value": _shown(row.was.value), "from": row.was.where},
            }
            for row in detail.rows
        ],
    )
