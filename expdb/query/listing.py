"""What `ls` shows: rows in order with their columns, each measured against the baseline.

Invariant: no Parquet is opened, but what `query.deltas` needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from expdb.index.reader import Reader
from expdb.model import RunAt
from expdb.query.deltas import with_deltas
from expdb.query.noise import noise_of
from expdb.query.results import Listing
from expdb.query.runs import (
    NEWEST_FIRST,
    baseline_row,
    default_objective,
    rows_in_order,
    run_rows,
)

if TYPE_CHECKING:
    from expdb.query.columns import Column


def listing(
    reader: Reader,
    *,
    head: RunAt | None = None,
    limit: int | None = 50,
    where: str = "",
    params: Sequence[Any] = (),
    order: str = NEWEST_FIRST,
    sort: str | None = None,
    columns: Sequence[str] = (),
) -> Listing:
    """Return the newest runs, measured against the baseline.

    Args:
        reader: the index.
        head: where this work tree came from.
        limit: how many rows; None for all.
        where: an SQL condition over `r` (runs).
        params: the values bound in `where`.
        order: an SQL order over the same.
        sort: what a person names as an order instead: `val/loss`, `-age`.
        columns: what a person names as columns: `+optim.lr,-code`.

    Raises:
        BadInput, NotFound: a name in `sort` or `columns` that the store does not have.
    """
    baseline = baseline_row(reader, head=head)
    objective = default_objective(reader, baseline)
    metric = objective.metric if objective is not None else None
    shown: Sequence[Column] = ()
    warnings: list[str] = []
    if columns:
        from expdb.query.columns import columns_of

        shown = columns_of(reader, columns, metric)
    if sort is None:
        rows = run_rows(reader, where=where, params=params, order=order, limit=limit, head=head)
    else:
        from expdb.query.columns import ordered_ids, sort_of

        by = sort_of(reader, sort, metric)
        ids = ordered_ids(reader, by, where, params, metric=metric, limit=limit)
        rows = rows_in_order(reader, ids, head=head)
    if shown:
        from expdb.query.columns import cells_of

        extra = cells_of(reader, shown, [row.id for row in rows], problems=warnings)
        rows = [replace(row, extra=extra[row.id]) for row in rows]
    condition = f" WHERE {where}" if where else ""
    num_all = reader.rows(f"SELECT count(*) FROM runs r{condition}", params)[0][0]
    noise = None
    if objective is not None and rows:
        newest = max(rows, key=lambda row: (row.created_at_ms, row.id))
        noise = noise_of(reader, baseline or newest, objective.metric, newest)
    return Listing(
        rows=tuple(with_deltas(reader, rows, baseline, noise, problems=warnings)),
        num_all=num_all,
        baseline=baseline,
        metric=metric,
        noise=noise,
        columns=tuple(column.shown for column in shown),
        warnings=tuple(warnings),
    )
