"""`expdb fsck`: what was looked at, and one row for each thing that is not as it should be.

Invariant: a row says what is wrong with which file; the last line counts the problems, and says
whether points are lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from expdb.report import json
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.signs import Colour
from expdb.text import duration, plain

if TYPE_CHECKING:
    from expdb.actions.fsck import FsckResult
    from expdb.store.fsck.report import Finding

COLOURS: dict[str, Colour] = {
    "damaged": "red",
    "missing": "red",
    "stray": "dim",
    "leftover": "dim",
    "unfinished": "yellow",
    "newer": "yellow",
    "mended": "green",
    "set aside in trash": "yellow",
    "kept": "red",
}
WHO_CELLS = 16


def render(result: FsckResult, style: Style) -> list[str]:
    """Return the rows and the counts, or one line where all is sound."""
    looked = _looked(result)
    if not result.findings:
        return [f"sound: {looked} checked in {duration(result.seconds)}"]
    lines = [f"checked {looked} in {duration(result.seconds)}", ""]
    lines += lay_out(_grid(result, style), style, head=False)
    if not result.problems:
        return [*lines, "", "sound: nothing is damaged"]
    lines += ["", _summary(result, style)]
    if result.trash is not None:
        lines.append(f"set aside in {style.say(f'{result.store}/{result.trash}')}")
    return lines


def talk(result: FsckResult, style: Style) -> list[str]:
    """Return what is worth a word beside the result."""
    lines = []
    if result.live:
        what = "its open files were" if len(result.live) == 1 else "their open files were"
        runs = " ".join(style.run(run) for run in result.live[:5])
        more = f" and {len(result.live) - 5} more" if len(result.live) > 5 else ""
        lines.append(f"being written: {runs}{more}; {what} not looked at")
    if result.sealed:
        lines.append(f"sealed the journals of {counted(len(result.sealed), 'killed run')}")
    return lines


def next_commands(result: FsckResult) -> list[tuple[str, str]]:
    """Return what to do next."""
    if not result.is_repair and any(item.can_mend for item in result.problems):
        runs = {item.run for item in result.problems}
        one = f" {runs.pop()}" if len(runs) == 1 and "" not in runs else ""
        return [("mend", f"expdb fsck{one} --repair")]
    return []


def quiet(result: FsckResult) -> list[str]:
    """Return the runs that have problems now, each once."""
    return list(dict.fromkeys(item.run for item in result.left if item.run))


def _looked(result: FsckResult) -> str:
    counts = result.counts
    parts = [counted(counts.runs, "run"), counted(counts.checkpoints, "checkpoint")]
    if counts.refs or counts.ops:
        parts += [counted(counts.refs, "ref"), counted(counts.ops, "op")]
    return ", ".join([*parts, counted(counts.files, "file")])


def _grid(result: FsckResult, style: Style) -> Grid:
    columns = (
        Column(head=""),
        Column(head="", min_cells=WHO_CELLS, cut="middle"),
        Column(head="", cut="end"),
    )
    rows = []
    for item in result.findings:
        word = item.result or item.kind
        rows.append(
            (Cell(word, COLOURS[word]), Cell(_who(item, result, style)), _what(item, style))
        )
    return Grid(columns, tuple(rows))


def _who(item: Finding, result: FsckResult, style: Style) -> str:
    if item.run:
        return plain(f"{style.run(item.run)} {item.experiment}".rstrip())
    return plain(f"ref {item.ref}" if item.ref else f"{result.store}/{item.path}")


def _what(item: Finding, style: Style) -> Cell:
    return Cell(style.say(item.what), "" if item.is_problem else "dim")


def _summary(result: FsckResult, style: Style) -> str:
    problems = result.problems
    number = counted(len(problems), "problem")
    if not result.is_repair:
        num_mended = sum(item.can_mend for item in problems)
        can = f"{num_mended:,} can be mended" if num_mended else "none can be mended"
        if num_mended == len(problems) == 1:
            can = "it can be mended"
        return style.paint(f"{number}, {can}, {_lost(problems)}", "bold")
    found = Counter(item.result for item in problems)
    done = [f"{found[word]:,} {word}" for word in ("mended", "set aside in trash", "kept")
            if found[word]]  # fmt: skip
    left = f"; {counted(len(result.left), 'problem')} left" if result.left else "; sound now"
    return style.paint(f"{number}: {', '.join(done)}; {_lost(problems)}{left}", "bold")


def _lost(problems: Sequence[Finding]) -> str:
    number = sum(item.points_lost for item in problems)
    if not number:
        return "no point lost"
    least = "at least " if any(item.is_least for item in problems) else ""
    return f"{least}{counted(number, 'point')} lost"


def document(result: FsckResult) -> json.Data:
    """Return `fsck` as JSON."""
    counts = result.counts
    return json.document(
        sound=not result.left,
        repaired=result.is_repair,
        runs=counts.runs,
        checkpoints=counts.checkpoints,
        refs=counts.refs,
        ops=counts.ops,
        files=counts.files,
        findings=[_finding(item) for item in result.findings],
        left=[_finding(item) for item in result.left],
        points_lost=sum(item.points_lost for item in result.problems),
        live=list(result.live),
        sealed=list(result.sealed),
        trash=result.trash,
        seconds=result.seconds,
    )


def _finding(item: Finding) -> json.Data:
    return {
        "kind": item.kind,
        "run": item.run or None,
        "experiment": item.experiment or None,
        "ref": item.ref or None,
        "path": item.path,
        "what": item.what,
        "is_problem": item.is_problem,
        "can_mend": item.can_mend,
        "points_lost": item.points_lost,
        "result": item.result or None,
        "trash": item.trash or None,
    }
