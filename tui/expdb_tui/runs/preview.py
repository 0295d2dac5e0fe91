"""What is shown of the run under the cursor: its curve, what it changed, its last words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from expdb.errors import ExpdbError
from expdb.index.reader import Reader
from expdb.query.config_changes import config_changes
from expdb.query.diffs import rules_in
from expdb.query.history_results import KeyChange
from expdb.query.noise import settings_of
from expdb.query.paging import PageRow, RunOrder, page_of
from expdb.query.results import ABSENT
from expdb.query.tail import LogTail
from expdb.signs import to_ascii
from expdb.text import config_value, plain
from expdb_tui.ink import Piece, titled
from expdb_tui.marks import OUTCOME_ROLES, Marks
from expdb_tui.plotting.axis import is_log_by_nature
from expdb_tui.plotting.draw import Line, Plot
from expdb_tui.plotting.reading import line_of_run
from expdb_tui.plotting.smooth import default_window

TRAIN = "train/loss"
LOG_LINES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What was read of one run."""

    row: PageRow
    key: str
    lines: tuple[Line, ...]
    changes: tuple[KeyChange, ...]
    log: tuple[str, ...]
    base: str | None


def read_preview(reader: Reader, order: RunOrder, run: str, *, columns: int) -> Preview | None:
    """Return what a preview shows of a run; None where it is gone."""
    rows = page_of(reader, order, [run], head=None)
    if not rows:
        return None
    row, base = rows[0], order.baseline
    found = reader.rows(
        "SELECT key FROM series WHERE run = ? AND key IN (?, ?) ORDER BY key = ? DESC",
        [run, TRAIN, order.metric or TRAIN, TRAIN],
    )
    key = str(found[0][0]) if found else TRAIN
    lines = [
        line_of_run(reader, run, key, columns=columns, place=1 if base and base.id != run else 0)
    ]
    changes: tuple[KeyChange, ...] = ()
    if base is not None and base.id != run:
        lines.append(_reference(reader, base.id, key, columns))
        ignore, seed_key = rules_in(settings_of(reader, row.row))
        changes = config_changes(reader, [(run, base.id)], ignore=ignore, seed_key=seed_key)[run]
    return Preview(
        row=row,
        key=key,
        lines=tuple(line for line in lines if line is not None),
        changes=changes,
        log=tuple(LogTail(reader.run_dir(run)).last(LOG_LINES)),
        base=None if base is None else base.id,
    )


def _reference(reader: Reader, run: str, key: str, columns: int) -> Line | None:
    try:
        return line_of_run(reader, run, key, columns=columns, place=0)
    except (ExpdbError, OSError):
        return None


def plot_of(preview: Preview) -> Plot:
    """Return the plot of a preview."""
    own = preview.lines[0] if preview.lines else None
    window = default_window(own.num_points if own is not None else 0)
    run = preview.row.row
    x_high = max((float(line.x[-1]) for line in preview.lines), default=1.0)
    if run.state.is_alive and run.max_steps:
        x_high = max(x_high, float(run.max_steps))
    name: list[Piece] = [(plain(preview.key), "text")]
    return Plot(
        key=preview.key,
        lines=preview.lines,
        is_log=is_log_by_nature(preview.key),
        title=[*name, (f"  smooth {window}" if window > 1 else "", "dim")],
        window=window,
        x_high=x_high,
    )


def title_of(preview: Preview, marks: Marks) -> tuple[list[Piece], list[Piece]]:
    """Return what stands above a preview: the run at the left, how it stands at the right."""
    run = preview.row.row
    title: list[Piece] = [(plain(run.name), "text+bold")]
    if run.seed is not None:
        title.append((f"  s{run.seed}", "dim"))
    title.append((f"  {run.id}", "faint"))
    outcome = run.delta.outcome if run.delta is not None else None
    if outcome is None or run.id == preview.base:
        return title, []
    word = outcome.value.replace("_", " ")
    return title, [(f"{marks.outcomes[outcome]} {word}".strip(), OUTCOME_ROLES[outcome])]


def change_rows(
    preview: Preview, width: int, height: int, marks: Marks, *, ascii: bool
) -> list[Sequence[Piece]]:
    """Return what the run changed from the baseline, and its last log lines, in `height` rows."""
    changes = preview.changes
    arrow = "->" if ascii else "→"
    if preview.base == preview.row.row.id:
        title, said = "This is the baseline", ""
    elif preview.base is None:
        title, said = "No baseline yet", "b on a run makes it the baseline"
    else:
        title = "Changed from baseline"
        said = f"{len(changes)} key{'' if len(changes) == 1 else 's'}"
    out: list[Sequence[Piece]] = [
        titled([(title, "text+bold"), (f"  {said}" if said else "", "dim")], width, marks.rule)
    ]
    room = max(1, (height - 3) // 2)
    out += [_change(change, arrow) for change in changes[:room]]
    if len(changes) > room:
        out.append([(f" and {len(changes) - room} more: d compares", "dim")])
    out += [[], titled([("Log", "text+bold")], width, marks.rule)]
    left = max(0, height - len(out))
    log = [plain(line) for line in preview.log[-left:]] if left else []
    out += [[(f" {to_ascii(line) if ascii else line}", "dim")] for line in log]
    return out[:height]


def _change(change: KeyChange, arrow: str) -> Sequence[Piece]:
    old = "-" if change.before is ABSENT else config_value(change.before, 30)
    new = "-" if change.after is ABSENT else config_value(change.after, 30)
    return [
        (f" {plain(change.key)}  ", "text"),
        (f"{plain(old)} {arrow} ", "dim"),
        (plain(new), "text+bold"),
    ]
