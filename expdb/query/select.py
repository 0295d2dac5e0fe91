"""Which runs a verb is about: `-w`, `--since`, `--study`.

Invariant: the condition is over `r` (runs) alone and joins nothing, so any query over runs takes
it; no text of the user stands in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from expdb import text
from expdb.errors import BadInput, NotFound
from expdb.index.reader import Reader
from expdb.query.runs import NEWEST_FIRST

ALL: Final = "true"


class Selection(NamedTuple):
    """What a person asked for; empty is every run."""

    where: str | Sequence[str] | None = None
    """A filter, or several that must all hold."""
    since: str | None = None
    """A duration back from now (`2d`), or a local date or time in ISO form."""
    study: str | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing was asked for."""
        return not (self.filters or self.since or self.study)

    @property
    def filters(self) -> tuple[str, ...]:
        """The filters, however they were given."""
        if self.where is None:
            return ()
        return (self.where,) if isinstance(self.where, str) else tuple(self.where)


class Where(NamedTuple):
    """An SQL condition over `r` (runs), the values bound in it, and what it passes over."""

    sql: str
    params: tuple[object, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        """Whether every run meets it."""
        return self.sql == ALL

    @property
    def condition(self) -> str:
        """The condition, empty where every run meets it."""
        return "" if self.is_all else self.sql


def where_of(reader: Reader, selection: Selection, *, now_ms: int) -> Where:
    """Return the condition of a selection; `true` when nothing was asked for.

    Raises:
        BadInput: a filter that does not follow the grammar, or a time that is none.
        NotFound: a name, a state or a study that does not exist.
    """
    if selection.is_all:
        return Where(ALL)
    from expdb.query.filters.compile import condition
    from expdb.query.filters.sql import Sql, joined

    warnings: list[str] = []
    parts = [
        condition(reader, source, now_ms=now_ms, warnings=warnings) for source in selection.filters
    ]
    if selection.since is not None:
        parts.append(Sql("r.created_at_ms >= ?", (_since_ms(selection.since, now_ms),)))
    if selection.study is not None:
        parts.append(Sql("r.study = ?", (_study(reader, selection.study),)))
    found = joined("AND", parts)
    return Where(found.text, found.params, tuple(dict.fromkeys(warnings)))


def selected(reader: Reader, selection: Selection, *, now_ms: int) -> list[str]:
    """Return the ids of the selected runs, newest first.

    Raises:
        BadInput, NotFound: as `where_of`.
    """
    where = where_of(reader, selection, now_ms=now_ms)
    sql = f"SELECT r.id FROM runs r WHERE {where.sql} ORDER BY {NEWEST_FIRST}"
    return [row[0] for row in reader.rows(sql, where.params)]


def _since_ms(said: str, now_ms: int) -> int:
    from expdb.query.filters.durations import duration_ms, moment_ms

    back = duration_ms(said)
    if back is not None:
        return now_ms - back
    moment = moment_ms(said)
    if moment is None:
        raise BadInput(
            f"--since {text.plain(said)} is no time", hint="one of: 2d, 5h, 30m, 2026-11-28"
        )
    return moment


def _study(reader: Reader, said: str) -> str:
    from expdb.query.filters.names import nearest, readable

    study = readable(said)
    found = dict(
        reader.rows("SELECT study, count(*) FROM runs WHERE study IS NOT NULL GROUP BY study")
    )
    if study in found:
        return study
    near = nearest(study, {name: f"{n:,} run{'' if n == 1 else 's'}" for name, n in found.items()})
    hint = near or ("" if found else "a run's study is set by expdb.study")
    raise NotFound(f"no run is of a study {text.plain(study)}", hint=hint or "expdb ls")
