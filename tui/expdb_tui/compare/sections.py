"""What differs besides the metrics, as rows: config, code with its first change, environment.

Invariant: the first run's value is dim, the other's is what one reads; nothing wraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from expdb.query.compare_results import FileDiff, NamedDiff
from expdb.query.patches import CodePatch
from expdb.query.results import ABSENT
from expdb.text import config_value, cut_middle, plain
from expdb_tui.compare.reading import Compared
from expdb_tui.compare.tables import eval_rows, metric_rows
from expdb_tui.ink import Piece, fit, width_of
from expdb_tui.marks import Marks

NAME = 20
VALUE_CELLS = 24
MAX_FILES = 12
HUNK = 14
DIGEST = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of a comparison, under a title with a rule."""

    name: str
    said: str
    """Behind the name: how much differs."""
    rows: Sequence[Sequence[Piece]]


def sections(
    shown: Compared, width: int, marks: Marks, *, is_all: bool, first: int = 1
) -> dict[str, Section]:
    """Return the parts of a comparison by name; those that say nothing have no rows."""
    metrics = [one for one in shown.metrics if is_all or not one.is_equal]
    hidden = len(shown.metrics) - len(metrics)
    said = f"{len(metrics)}, beyond noise first" + (f", {hidden} more with a" if hidden else "")
    table = metric_rows(shown, metrics, width, marks, first=first)
    found = [
        Section(name="Metrics", said=said, rows=table),
        _config(shown, width, marks, is_all=is_all),
        _code(shown, width, marks),
        _environment(shown, width, marks),
    ]
    if shown.evals:
        how = "difference, 95 % interval" if len(shown.places) == 2 else f"{len(shown.evals)}"
        found.append(Section(name="Evals", said=how, rows=eval_rows(shown, width, marks)))
    return {one.name: one for one in found}


def _config(shown: Compared, width: int, marks: Marks, *, is_all: bool) -> Section:
    config = shown.found.config
    differ = [one for one in config if one.differs]
    count = f"{len(differ)} of {len(config)} keys differ{'s' if len(differ) == 1 else ''}"
    name_cells = min(max([NAME, *(len(one.key) + 3 for one in differ)]), max(NAME, width // 2))
    rows = [
        _change(
            one.key,
            ["-" if v is ABSENT else config_value(v, VALUE_CELLS) for v in one.values],
            name_cells,
            shown,
            marks,
            is_same=not one.differs,
        )
        for one in (config if is_all else differ)
    ]
    return Section(name="Config", said=count if differ else f"same, {len(config)} keys", rows=rows)


def _change(
    name: str,
    values: Sequence[str],
    name_cells: int,
    shown: Compared,
    marks: Marks,
    *,
    is_same: bool = False,
) -> list[Piece]:
    """Return how a value moves from the first run to the other; of more the runs of each value."""
    label = fit([(f" {plain(name)}", "text")], name_cells, ellipsis=marks.ellipsis)
    if is_same:
        return [*label, (plain(values[0]), "dim")]
    if len(values) == 2:
        arrow = "->" if marks.rule == "-" else "→"
        return [*label, (f"{plain(values[0])} {arrow} ", "dim"), (plain(values[1]), "text+bold")]
    out, same = list(label), dict[str, list[int]]()
    for value, place in zip(values, shown.places, strict=True):
        same.setdefault(value, []).append(place)
    for value, places in same.items():
        out += [(marks.series[place], f"series{place}") for place in places]
        out.append((f" {plain(value)}  ", "dim" if value == values[0] else "text"))
    return out


def _environment(shown: Compared, width: int, marks: Marks) -> Section:
    found = [*shown.found.environment, *shown.found.data]
    differ = [one for one in found if len(set(one.values)) > 1]
    name_cells = min(max([NAME, *(len(one.name) + 3 for one in differ)]), max(NAME, width // 2))
    rows = [
        _change(
            one.name, [_named(one, at) for at in range(len(one.values))], name_cells, shown, marks
        )
        for one in differ
    ]
    count = f"{len(differ)} difference{'' if len(differ) == 1 else 's'}"
    said = count if differ else "same" if found else "none recorded"
    return Section(name="Environment", said=said, rows=rows)


def _named(one: NamedDiff, at: int) -> str:
    value = one.values[at]
    if value is None:
        return "-"
    if value.startswith(DIGEST):
        return value[: len(DIGEST) + 8]
    return cut_middle(plain(value), VALUE_CELLS)


def _code(shown: Compared, width: int, marks: Marks) -> Section:
    code = shown.found.code
    if code.same_tree is None:
        return Section(name="Code", said=f"unknown: {plain(code.note)}", rows=())
    if code.same_tree:
        return Section(name="Code", said=f"same, {_commit(shown, 0)}", rows=())
    files = code.files
    arrow = " -> " if marks.rule == "-" else " → "
    moved = arrow.join(_commit(shown, at) for at in range(min(2, len(shown.places))))
    said = f"{len(files)} file{'' if len(files) == 1 else 's'}" if files else "differs"
    rows: list[Sequence[Piece]] = []
    if code.note:
        rows.append([(f" {plain(code.note)}", "dim")])
    name_cells = min(max([NAME, *(len(one.path) + 3 for one in files)]), max(NAME, width // 2))
    for at, one in enumerate(files[:MAX_FILES]):
        line = file_row(one, name_cells, marks)
        rows.append([*line, ("   ", ""), (moved, "dim")] if at == 0 else line)
    if len(files) > MAX_FILES:
        rows.append([(f" and {len(files) - MAX_FILES:,} more", "dim")])
    patch = next((one for one in shown.patches if one.text), None)
    if patch is not None:
        rows += [[(f" {marks.divider} ", "rule2"), *line] for line in first_hunk(patch, width - 4)]
    return Section(name="Code", said=said, rows=rows)


def _commit(shown: Compared, at: int) -> str:
    pin = shown.found.runs[at].pin
    if pin.commit is None:
        return "no commit"
    return (pin.pinned or pin.commit)[:7] + ("+" if pin.dirty else "")


def file_row(one: FileDiff, name_cells: int, marks: Marks) -> list[Piece]:
    """Return a file with how many lines came and went."""
    name = fit([(f" {plain(one.path)}", "text")], name_cells, ellipsis=marks.ellipsis)
    if one.num_added is None and one.num_removed is None:
        return [*name, ("binary", "dim")]
    word: list[Piece] = [
        (f"+{one.num_added or 0}", "better"),
        (f" -{one.num_removed or 0}", "worse"),
    ]
    if one.status in "AD":
        word.append((" new" if one.status == "A" else " removed", "dim"))
    return [*name, *word, (" " * max(0, 8 - width_of(word)), "")]


def first_hunk(patch: CodePatch, width: int) -> list[list[Piece]]:
    """Return the first change of a patch, a few lines of it."""
    lines = patch.text.split("\n")
    start = next((at for at, line in enumerate(lines) if line.startswith("@@")), None)
    if start is None:
        return []
    found: list[str] = []
    for line in lines[start + 1 :]:
        if line.startswith(("@@", "diff ")):
            break
        found.append(line)
    changed = next((at for at, line in enumerate(found) if line[:1] in ("+", "-")), 0)
    some = found[max(0, changed - 1) : changed - 1 + HUNK]
    last = max((at for at, line in enumerate(some) if line[:1] in ("+", "-")), default=0)
    return [_patch_line(line) for line in some[: last + 2] if line]


def _patch_line(line: str) -> list[Piece]:
    text = plain(line.replace("\t", "    "))
    role = {"+": "better", "-": "worse"}.get(line[:1], "dim")
    return [(text, role)]


def patch_rows(found: Sequence[CodePatch], marks: Marks) -> list[Sequence[Piece]]:
    """Return whole patches: the files, then their lines in colour."""
    out: list[Sequence[Piece]] = []
    for patch in found:
        out.append(
            [
                (f" {plain(patch.run.name)} {patch.run.id[:4]}", "text+bold"),
                ("  against ", "dim"),
                (plain(patch.first.name), "text"),
                (f"   {plain(patch.note)}", "warn"),
            ]
        )
        width = max([NAME, *(len(one.path) + 3 for one in patch.files)])
        out += [file_row(one, width, marks) for one in patch.files]
        out += [
            [(f" {plain(path)}", "text"), ("  too large to be shown", "dim")]
            for path in patch.left_out
        ]
        out.append([])
        for line in patch.text.split("\n"):
            if line.startswith("diff "):
                out += [[], [(f" {plain(line.rpartition(' b/')[2])}", "accent+bold")]]
            elif line.startswith("@@"):
                out.append([(f" {plain(line)}", "accent")])
            elif not line.startswith(("index ", "--- ", "+++ ")):
                out.append([(" ", ""), *_patch_line(line)])
    return out
