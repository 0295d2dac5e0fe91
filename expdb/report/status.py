"""`expdb status`: the work tree against HEAD, then experiments x seeds with their states.

Invariant: seeds of one experiment in the same state and for the same reason are one row; the states
of an experiment are ordered strongest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from expdb.query.entry import NAME_IT
from expdb.query.status_results import Reason, StatusRow, StoreStatus, WorkTreeStatus
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.report.words import counted, label, step_of
from expdb.signs import STATE_GLYPHS
from expdb.text import config_value, decimals_for, first_of, metric, plain, size

STRONGEST_FIRST = (
    "running",
    "paused",
    "pending",
    "failed",
    "crashed",
    "lost",
    "preempted",
    "invalid",
    "missing",
    "stale",
    "up to date",
    "finished",
    "variant",
)
NEEDS_A_RUN = frozenset(["missing", "stale", "failed", "crashed", "lost", "preempted"])
MAX_EDITS = 6


def render(status: StoreStatus, style: Style) -> list[str]:
    """Return the work tree, the store, the table and the counts."""
    runs = counted(status.num_runs, "run")
    lines = _work_tree(status.work_tree, style)
    lines.append(f"store      {style.say(status.store)}: {runs}, {size(status.bytes)}")
    if not status.rows:
        return lines
    return [*lines, "", *lay_out(_grid(status, style), style), "", _counts_line(status)]


def _counts_line(status: StoreStatus) -> str:
    """Return how many stand how: of what is declared, else of all runs."""
    if status.entry is None:
        counts: Mapping[str, int] = status.counts
    else:
        counts = Counter(row.state for row in status.rows if row.is_declared)
    said = [f"{counts[word]:,} {word}" for word in reversed(STRONGEST_FIRST) if counts.get(word)]
    line = ", ".join(said) or "nothing is declared"
    lacking = sum(bool(row.lacks) for row in status.rows)
    missed = sum(any(gate.is_missed for gate in row.gates) for row in status.rows)
    line += f"; {_those(lacking, 'lack')} a metric" if lacking else ""
    return line + (f"; {_those(missed, 'fail')} a gate" if missed else "")


def _those(number: int, verb: str) -> str:
    return f"{number:,} {verb}s" if number == 1 else f"{number:,} {verb}"


def _work_tree(tree: WorkTreeStatus, style: Style) -> list[str]:
    if not tree.in_git:
        reason = tree.reason or "not a git repository"
        return [f"work tree  {style.say(reason)}: runs keep config and weights, not code"]
    at = "no commit yet" if tree.commit is None else f"{tree.branch} {tree.commit[:7]}"
    if tree.branch == "detached" and tree.commit:
        at = f"detached at {tree.commit[:7]}"
    lines = [f"work tree  {style.say(at)}, {_against_head(tree, style)}"]
    if tree.edits:
        shown = [f"{letter} {plain(path)}" for letter, path in tree.edits[:MAX_EDITS]]
        more = len(tree.edits) - len(shown)
        lines.append(" " * 13 + "   ".join(shown) + (f"   and {more:,} more" if more > 0 else ""))
    if tree.unfinished:
        say = f"{style.say(tree.unfinished)}: --continue or --abort"
        lines.append(f"{style.paint('unfinished', 'yellow')} {say}")
    return lines


def _against_head(tree: WorkTreeStatus, style: Style) -> str:
    edited = counted(len(tree.edits), "file")
    if tree.head is None:
        state = f"{edited} edited" if tree.edits else "clean"
        parent = "has none" if tree.baseline is None else f"is {label(tree.baseline, style)}"
        return f"{state}; no rollback yet: the next run's parent {parent}"
    head = label(tree.head, style) + ("" if tree.head_step is None else f"@{tree.head_step}")
    if tree.equals_head:
        return f"clean, equals HEAD {head}"
    if tree.edits:
        return f"rolled back to {head}; since then {edited} edited"
    return f"clean, at another commit than HEAD {head}"


def _grid(status: StoreStatus, style: Style) -> Grid:
    columns = (
        Column(head="experiment", cut="middle"),
        Column(head="seed"),
        Column(head="state"),
        Column(head=style.say(status.metric or "objective"), right=True, leaves=0),
        Column(head="why", cut="end"),
    )
    groups = _groups(status.rows, style)
    decimals = decimals_for(_value(row, status) for row in status.rows)
    rows, marks = [], []
    before = ""
    for group in groups:
        first = group[0]
        look = STATE_GLYPHS[first.state]
        name = plain(first.name)
        shown = name if name != before or not style.terminal else ""
        before = name
        values = [value for row in group if (value := _value(row, status)) is not None]
        mean = fmean(values) if values else None
        rows.append(
            (
                Cell(shown),
                Cell(seeds([row.seed for row in group])),
                Cell(first.state, look.colour if not style.terminal else ""),
                Cell(metric(mean, decimals, key=status.metric or "", absent="")),
                Cell(style.say(why(first, style))),
            )
        )
        marks.append(style.paint(style.glyph(first.state), look.colour))
    return Grid(columns, tuple(rows), tuple(marks))


def _value(row: StatusRow, status: StoreStatus) -> float | None:
    run = row.run
    if run is None or run.objective is None or run.objective.metric != status.metric:
        return None
    return run.value


def _groups(rows: Sequence[StatusRow], style: Style) -> list[list[StatusRow]]:
    groups: dict[tuple[str, str, str, str], list[StatusRow]] = {}
    for row in rows:
        alike = (row.experiment, row.variant, row.state, why(row, style))
        groups.setdefault(alike, []).append(row)
    order = {state: at for at, state in enumerate(STRONGEST_FIRST)}
    return sorted(
        groups.values(),
        key=lambda group: (group[0].experiment, group[0].variant, order[group[0].state]),
    )


def why(row: StatusRow, style: Style) -> str:
    """Return why a row stands as it does, in one line; empty where there is nothing to say."""
    if row.fault:
        return row.fault
    if row.reasons:
        more = f", and {len(row.reasons) - 1:,} more" if len(row.reasons) > 1 else ""
        return f"{reason_text(row.reasons[0], style)}{more}"
    run = row.run
    at = "" if run is None else step_of(run.last_step, run.max_steps)
    match row.state:
        case "up to date":
            return _judged(row)
        case "missing":
            return ""
        case "running" | "paused" | "pending":
            said = at
        case "failed":
            said = (run.reason if run is not None else "") or f"at {at}"
        case "finished" | "variant":
            said = ""
        case _:
            said = f"at {at}" if at or run is None else run.reason
    return said if row.is_declared or row.state != "variant" else "not declared"


def _judged(row: StatusRow) -> str:
    """Return what a run that is up to date lacks, and how it stands to its gates."""
    said = [f"lacks {first_of(row.lacks)}"] if row.lacks else []
    gates = [one for one in row.gates if one.gate.metric not in row.lacks]
    if gates:
        from expdb.report.gates import in_few_words  # few runs have gates

        said.append(in_few_words(gates))
    return "; ".join(said)


def reason_text(reason: Reason, style: Style) -> str:
    """Return one reason: `config: optim.lr 0.003 → 0.01`, `file: expdb/demo/moe.py`."""
    name = plain(reason.name)
    if reason.kind == "file":
        return f"file: {name}"
    old, new = (style.say(config_value(value)) for value in (reason.old, reason.new))
    values = f"{old} {style.signs.arrow} {new}"
    where = f" ({plain(reason.key)})" if reason.key else ""
    return f"{reason.kind}: {name} {values}{where}"


def seeds(values: Sequence[int | None]) -> str:
    """Return seeds with ranges folded: `0-2`, `0,2-4`; empty where a run has none."""
    known = sorted({value for value in values if value is not None})
    if not known:
        return ""
    ranges = [[known[0], known[0]]]
    for left, right in pairwise(known):
        if right == left + 1:
            ranges[-1][1] = right
        else:
            ranges.append([right, right])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def need_a_run(status: StoreStatus) -> list[str]:
    """Return what needs a run: missing, stale, or not come to its end: `exp06_moe:s1`."""
    return [
        plain(row.name) + ("" if row.seed is None else f":s{row.seed}")
        for row in status.rows
        if row.state in NEEDS_A_RUN
    ]


def is_up_to_date(status: StoreStatus) -> bool:
    """Tell whether everything that is declared has an up-to-date run that keeps to its gates."""
    return all(row.is_well for row in status.rows if row.is_declared)


def next_commands(status: StoreStatus, style: Style) -> list[tuple[str, str]]:
    """Return what to do next: train what is missing or stale, take up what was cut off."""
    out = []
    need = [row for row in status.rows if row.is_declared and row.state in ("missing", "stale")]
    if need and status.entry is not None and status.entry.fault:
        out.append(("entry", NAME_IT))
    elif need and status.entry is not None:
        states = {row.state for row in need}
        flags = [f"--{state}" for state in ("missing", "stale") if state in states]
        out.append(("run", " ".join(["expdb run", *flags])))
    if any(row.state == "invalid" for row in status.rows):
        out.append(("look", "expdb doctor --conf"))
    cut_off = [
        row.run
        for row in status.rows
        if row.run is not None and row.run.state.value in ("crashed", "preempted")
    ]
    if cut_off:
        newest = max(cut_off, key=lambda run: run.created_at_ms)
        out.append(("resume", f"expdb resume {style.run(newest.id)}"))
    return out
