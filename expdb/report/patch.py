"""`compare --code` and `--stat`: what changed in the code, as people read patches.

Invariant: a control character of a file is text; a tab stays a step to the next multiple of 8 so
that code keeps its columns; colour never changes a character.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from expdb.query.compare_results import FileDiff
from expdb.query.patches import CodePatch
from expdb.report.json import Data
from expdb.report.style import Style
from expdb.report.words import code_short, counted, label
from expdb.signs import Colour
from expdb.text import cells, cut_end, cut_middle, plain

MAX_LINE: Final = 2_000
"""Characters of a line; a longer one is cut."""
LEAST_PATH: Final = 20


def render(found: Sequence[CodePatch], style: Style, *, stat: bool, text: bool) -> list[str]:
    """Return for each run: its head, its files with `stat`, its patch with `text`."""
    lines: list[str] = []
    for one in found:
        lines += [""] if lines else []
        lines.append(style.paint(_head(one, style), "bold"))
        if one.note or not one.files:
            continue
        if stat:
            lines += _stat(one.files, style)
        if text:
            lines += [*([""] if stat else []), *_patch(one, style)]
    return lines


def _head(one: CodePatch, style: Style) -> str:
    lead = f"{label(one.first, style)} {style.signs.arrow} {label(one.run, style)}"
    if one.note:
        return f"{lead}  no patch: {style.say(one.note)}"
    if not one.files:
        return f"{lead}  the same code: {style.say(code_short(one.run.pin))}"
    sides = f" {style.signs.arrow} ".join(code_short(run.pin) for run in (one.first, one.run))
    return f"{lead}  {counted(len(one.files), 'file')}  {sides}"


def _stat(files: Sequence[FileDiff], style: Style) -> list[str]:
    rows = [
        (file.status, style.say(file.path), *(_sides(file) or ("binary", ""))) for file in files
    ]
    added, removed = (max(cells(row[at]) for row in rows) for at in (2, 3))
    room = max(LEAST_PATH, style.width - 8 - added - removed)
    width = min(room, max(cells(row[1]) for row in rows))
    lines = []
    for status, path, plus, minus in rows:
        name = cut_middle(path, width, style.signs.ellipsis)
        pad = " " * (width - cells(name))
        lines.append(f"  {status} {name}{pad}  {plus:>{added}}  {minus:>{removed}}".rstrip())
    total = sum(file.num_added or 0 for file in files), sum(file.num_removed or 0 for file in files)
    return [*lines, f"{counted(len(files), 'file')}, +{total[0]:,} -{total[1]:,}"]


def _sides(file: FileDiff) -> tuple[str, str] | None:
    if file.num_added is None and file.num_removed is None:
        return None
    return (
        f"+{file.num_added:,}" if file.num_added else "",
        f"-{file.num_removed:,}" if file.num_removed else "",
    )


def _patch(one: CodePatch, style: Style) -> list[str]:
    lines = []
    in_hunk = False
    for line in one.text.removesuffix("\n").split("\n") if one.text else []:
        if line.startswith("diff --git "):
            in_hunk = False
        elif line.startswith("@@ "):
            in_hunk = True
        lines.append(style.paint(_said(line, style), _colour(line, in_hunk)))
    cut = (f"left out for its size: {style.say(path)}" for path in one.left_out)
    return [*lines, *cut]


def _said(line: str, style: Style) -> str:
    """Return a line as text; the signs of a file are never replaced, as they are its content."""
    line = line if len(line) <= MAX_LINE else cut_end(line, MAX_LINE, style.signs.ellipsis)
    # The sign in front takes a column that the file does not have.
    head, body = line[:1], "\t".join(map(plain, line[1:].removesuffix("\r").split("\t")))
    return (head if head == "\t" else plain(head)) + body.expandtabs(8)


def _colour(line: str, in_hunk: bool) -> Colour:
    if line.startswith("@@ "):
        return "cyan"
    if not in_hunk:
        return "bold"
    return {"+": "green", "-": "red", "\\": "dim"}.get(line[:1], "")  # type: ignore[return-value]


def as_json(found: Sequence[CodePatch], *, text: bool) -> list[Data]:
    """Return the files of each run with status and line counts, and with `text` the patch.

    `added` and `removed` are null for a binary file.
    """
    return [
        {
            "first": one.first.id,
            "run": one.run.id,
            "note": one.note,
            "files": [
                {
                    "status": file.status,
                    "path": file.path,
                    "added": file.num_added,
                    "removed": file.num_removed,
                }
                for file in one.files
            ],
            "patch": one.text if text and not one.note else None,
            "left_out": list(one.left_out),
        }
        for one in found
    ]
