"""`c`: which columns the list of runs has: the usual ones, and metrics, config keys and fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from expdb.index.reader import Reader
from expdb.query.filters.suggest import known_of
from expdb_tui.runs.cells import OPTIONAL
from expdb_tui.widgets.chooser import Choice, Chooser

FIELDS = ("study", "label", "commit", "host", "size")
"""Facts about a run that no usual column shows."""
USUAL = "column"


def choices_of(reader: Reader) -> list[Choice]:
    """Return what can be a column: the usual ones, then what tells runs apart, then the rest."""
    known = known_of(reader)
    sql = "SELECT key FROM params GROUP BY key HAVING count(DISTINCT text) > 1"
    varied = {str(row[0]) for row in reader.rows(sql)}
    keys = sorted(known.keys, key=lambda key: (key not in varied, key))
    out = [Choice(name=name, label=label, kind=USUAL) for name, label in OPTIONAL.items()]
    out += [Choice(name=key, kind="config, differs") for key in keys if key in varied]
    metrics = [one for one in sorted(known.metrics) if not one.startswith(("layer/", "sys/"))]
    out += [Choice(name=one, kind="metric") for one in metrics]
    out += [Choice(name=one, kind="field") for one in FIELDS]
    out += [Choice(name=key, kind="config") for key in keys if key not in varied]
    return out


def ask_columns(
    choices: Sequence[Choice],
    hidden: frozenset[str],
    extra: tuple[str, ...],
    then: Callable[[frozenset[str], tuple[str, ...]], None],
) -> tuple[Chooser, Callable[[tuple[str, ...] | None], None]]:
    """Return the list to choose from, and what takes its answer."""
    names = {one.name for one in choices}
    choices = [*choices, *(Choice(name=one, kind="gone") for one in extra if one not in names)]
    chosen = [name for name in OPTIONAL if name not in hidden] + list(extra)

    def answered(found: tuple[str, ...] | None) -> None:
        if found is not None:
            off = frozenset(OPTIONAL) - set(found)
            then(off, tuple(name for name in found if name not in OPTIONAL))

    return Chooser("Columns", choices, chosen), answered
