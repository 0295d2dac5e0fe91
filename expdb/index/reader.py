"""Reading the index: the newest generation, brought up to date, with live runs laid over it.

A reader's connection has the tables `runs params series attempts files checkpoints evals events
used_files refs`: those of the generation, joined with the runs that it may not hold: those that
live, and those that changed where no generation can be written.

Invariant: what a reader shows is what the run folders say, whatever the state of the index files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from expdb import text
from expdb.errors import NotFound
from expdb.index import engine
from expdb.index.connect import readable
from expdb.index.engine import Connection
from expdb.index.newest import Base, forget, open_newest
from expdb.index.overlay import lay_over
from expdb.index.scan import Scan, scan
from expdb.store.folders import Version, run_in, version_in
from expdb.store.refs import read_refs
from expdb.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from expdb.model import Ref, Run

DAMAGED = (engine.IOException, engine.FatalException, engine.InternalException)
"""What DuckDB raises on a file whose blocks are not what they were; where a checksum says it, the
base of all its errors.
"""


class Reader:
    """The runs of a store at one moment; a context manager."""

    def __init__(
        self,
        store: Store,
        con: Connection,
        *,
        refs: Mapping[str, Ref],
        seen: Scan,
        warnings: tuple[str, ...],
        left_out: tuple[str, ...] = (),
    ) -> None:
        self.store = store
        self.con = con
        self.refs = refs
        self.warnings = warnings
        self._seen = seen
        self.left_out = left_out
        """Those of the warnings that name a run which could not be read at this look."""

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.con.close()

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query; a damaged index is built again, and the query asked again.

        A text that is not UTF-8 is looked for as the index has it.
        """
        bound = [readable(value) for value in params]
        try:
            return self.con.execute(sql, bound).fetchall()
        except engine.Error as error:
            self._build_again(error)
            return self.con.execute(sql, bound).fetchall()

    def table(self, sql: str) -> pa.Table:
        """Return all rows of a query in Arrow's form; a damaged index is built again."""
        engine.whole()
        try:
            return self.con.sql(sql).to_arrow_table()
        except engine.Error as error:
            self._build_again(error)
            return self.con.sql(sql).to_arrow_table()

    def _build_again(self, error: engine.Error) -> None:
        if not (isinstance(error, DAMAGED) or "Corrupt database file" in str(error)):
            raise error
        self.close()
        forget(self.store)
        self.con = open_reader(self.store, afresh=True).con

    @cached_property
    def versions(self) -> Mapping[str, Version]:
        """The version of every run folder at the moment of the look."""
        return {run_in(stamp): version_in(stamp) for stamp in self._seen.stamps}

    @cached_property
    def id_length(self) -> int:
        """How many characters of an id make every run of the store unique, at least 4."""
        return text.id_length(self._seen.experiments)

    @cached_property
    def names(self) -> Mapping[str, Ref]:
        """Every ref and tag by the words that name it: those of this store, and of its remotes."""
        from expdb.store.remote_refs import named_refs, pulled_remotes

        remotes = pulled_remotes(self.store.layout)
        return {**named_refs(self.store.layout, remotes), **self.refs} if remotes else self.refs

    def run_dir(self, run: str) -> Path:
        """Return the folder of a run by its full id.

        Raises:
            NotFound: there is no such run.
        """
        found = self.rows("SELECT path FROM runs WHERE id = ?", [run])
        if not found:
            raise NotFound(f"the store has no run {text.plain(run)}", hint="expdb ls")
        return self.store.root / str(found[0][0])

    def run(self, run: str) -> Run:
        """Return a run by its full id, read from its folder.

        Raises:
            NotFound: there is no such run.
            Corrupt: its run.json has been damaged since.
        """
        from expdb.store.runs import read_run

        return read_run(self.run_dir(run), store_root=self.store.root)


def open_reader(store: Store, *, build: bool = True, afresh: bool = False) -> Reader:
    """Open the newest generation, after bringing it up to date where that can be written.

    A store that cannot be written has its generations in the user's cache folder. With `build` off,
    or where nothing can be written, everything that changed is held in memory. `afresh` trusts no
    generation that is there.

    Raises:
        NotFound: the store is gone, since it was opened.
    """
    warnings: list[str] = []
    try:
        refs = read_refs(store.layout, problems=warnings)
    except NotADirectoryError:  # a file lies in its place
        raise _gone(store) from None
    base = Base() if afresh else open_newest(store)
    seen = scan(store.root)
    warnings += seen.warnings
    if not seen.experiments and not store.layout.store_json.exists():
        raise _gone(store)
    if base.con is not None and base.stamps == seen.stamps:
        con = base.con
        lay_over(con, (), (), refs)
        return Reader(store, con, refs=refs, seen=seen, warnings=tuple(warnings))
    # What it takes to read a run is loaded when there is one to read.
    from expdb.index.update import brought_up

    now = brought_up(store, base, seen, build=build)
    if now is None:
        forget(store)
        return open_reader(store, afresh=True)
    lay_over(now.con, now.hidden, now.overlay, refs)
    warnings += now.warnings
    return Reader(
        store,
        now.con,
        refs=refs,
        seen=seen,
        warnings=tuple(warnings),
        left_out=tuple(now.left_out),
    )


def _gone(store: Store) -> NotFound:
    return NotFound(f"the store {store.name} is gone", hint="expdb --store DIR ls")
