"""What another baseline would mean, as a dialog shows it before it is set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from expdb.actions.baseline import show_baseline
from expdb.index.reader import Reader
from expdb.model import RunAt
from expdb.query.results import RunRow
from expdb.query.runs import baseline_row, run_rows
from expdb.text import decimals_for, metric, plain
from expdb_tui.ink import Piece
from expdb_tui.widgets.dialog import Deed, PlanShown


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineChange:
    """The baseline as it is, and as it would be."""

    before: RunRow | None
    after: RunRow
    is_set: bool
    """The ref is on the run already."""


def read_change(reader: Reader, run: str, *, head: RunAt | None) -> BaselineChange:
    """Return what making `run` the baseline would change.

    Raises:
        NotFound: the run is gone.
    """
    reader.run(run)
    after = run_rows(reader, where="r.id = ?", params=[run], head=head)[0]
    at = show_baseline(reader).after
    return BaselineChange(
        before=baseline_row(reader, head=head),
        after=after,
        is_set=at is not None and at.run == run and at.step is None,
    )


def baseline_shown(change: BaselineChange) -> PlanShown:
    """Return the plan: whose place it takes, and what is measured against it from then on."""
    before, after = change.before, change.after
    title: list[Piece] = [
        ("Make ", "text+bold"), (plain(after.name), "text+bold"), (" the baseline", "text+bold"),
    ]  # fmt: skip
    pairs: list[tuple[str, Sequence[Piece]]] = [("from now", _said(after))]
    if before is not None and before.id != after.id:
        pairs.append(("until now", _said(before)))
    pairs += [
        ("means", [("differences of all lists are against it", "text")]),
        ("undo", [("expdb undo", "accent"), (" makes it as before", "text")]),
    ]
    return PlanShown(title=title, pairs=pairs, deeds=[Deed(label="Set it", is_grave=False)])


def _said(row: RunRow) -> list[Piece]:
    out: list[Piece] = [(plain(row.name), "text+bold"), (f"  {row.id}", "dim")]
    if row.value is not None and row.objective is not None:
        key = row.objective.metric
        said = metric(row.value, decimals_for([row.value]), key=key)
        out.append((f"  {plain(key)} {said}", "dim"))
    return out
