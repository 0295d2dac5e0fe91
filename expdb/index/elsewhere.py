"""A reader over runs that lie in no store: those of a remote.

Invariant: nothing is written, and nothing but the run folders is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from expdb.errors import ExpdbError
from expdb.index.build import build_in_memory
from expdb.index.overlay import lay_over
from expdb.index.reader import Reader
from expdb.index.rows import rows_of
from expdb.index.scan import Scan
from expdb.index.schema import no_tables
from expdb.store.files import reason
from expdb.store.runs import read_run
from expdb.store.store import Store


def open_runs(root: Path, place_id: str, folders: Mapping[str, Path]) -> Reader:
    """Open some runs for queries; those that cannot be read are left out, with a warning.

    Args:
        root: the folder that the runs lie below.
        place_id: its id.
        folders: run -> its folder.
    """
    store, tables, warnings = Store(root, place_id), no_tables(), []
    for run, folder in folders.items():
        try:
            rows = rows_of(read_run(folder, store_root=root))
        except (ExpdbError, OSError) as error:
            why = error.message if isinstance(error, ExpdbError) else reason(error)
            warnings.append(f"{run} is left out: {why}")
            continue
        for name, found in rows.items():
            tables[name].extend(found)
    con = build_in_memory(store, tables)
    lay_over(con, (), (), {})
    seen = Scan({run: str(folder.parent) for run, folder in folders.items()}, frozenset(), 0, ())
    return Reader(
        store, con, refs={}, seen=seen, warnings=tuple(warnings), left_out=tuple(warnings)
    )
