"""Reading the index: the newest generation, brought up to date, with live runs laid over it.

A reader's connection has the temporary views `runs params series attempts files checkpoints evals
events used_files refs`. They join the generation with the runs that it may not hold: those that
live, and those that changed where no generation can be written.

Invariant: what a reader shows is what the run folders say, whatever the state of the index files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import duckdb

from expdb import text
from expdb.errors import NotFound
from expdb.index import build as builder
from expdb.index import connect
from expdb.index.connect import Connection
from expdb.index.generations import Generations
from expdb.index.rows import COLUMNS, SCHEMA, Tables, version_text
from expdb.index.scan import Loaded, load, scan
from expdb.model import Ref, Run
from expdb.store.refs import read_refs
from expdb.store.runs import Version, read_run
from expdb.store.store import Store, reason

if TYPE_CHECKING:
    import pyarrow as pa

DAMAGED = (duckdb.IOException, duckdb.FatalException, duckdb.InternalException)
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
        versions: Mapping[str, Version],
        warnings: tuple[str, ...],
        left_out: tuple[str, ...] = (),
    ) -> None:
        self.store = store
        self.con = con
        self.refs = refs
        self.versions = versions
        """The version of every run folder at the moment of the look."""
        self.warnings = warnings
        self.left_out = left_out
        """Those of the warnings that name a run which could not be read at this look."""
        self._id_length: int | None = None

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
        """Return all rows of a query; a damaged index is built again, and the query asked again."""
        try:
            return self.con.execute(sql, list(params)).fetchall()
        except duckdb.Error as error:
            self._build_again(error)
            return self.con.execute(sql, list(params)).fetchall()

    def table(self, sql: str) -> pa.Table:
        """Return all rows of a query in Arrow's form; a damaged index is built again."""
        try:
            return self.con.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            self._build_again(error)
            return self.con.sql(sql).to_arrow_table()

    def _build_again(self, error: duckdb.Error) -> None:
        if not (isinstance(error, DAMAGED) or "Corrupt database file" in str(error)):
            raise error
        self.close()
        _forget(self.store)
        self.con = open_reader(self.store, afresh=True).con

    @property
    def id_length(self) -> int:
        """How many characters of an id make every run of the store unique, at least 4."""
        if self._id_length is None:
            self._id_length = text.id_length(self.versions)
        return self._id_length

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
        return read_run(self.run_dir(run), store_root=self.store.root)


@dataclass(slots=True, kw_only=True)
class _Base:
    """An opened generation and the versions of the runs it holds; nothing opened, no runs."""

    path: Path | None = None
    con: Connection | None = None
    versions: dict[str, str] = field(default_factory=dict)


def open_reader(store: Store, *, build: bool = True, afresh: bool = False) -> Reader:
    """Open the newest generation, after bringing it up to date where that can be written.

    A store that cannot be written has its generations in the user's cache folder. With `build` off,
    or where nothing can be written, everything that changed is held in memory. `afresh` trusts no
    generation that is there.
    """
    warnings: list[str] = []
    refs = read_refs(store.layout, problems=warnings)
    base = _Base() if afresh else _open_newest(store)
    seen = scan(store.root)
    found = {run: version_text(version) for run, (_, version) in seen.found.items()}
    changed = [run for run, version in found.items() if base.versions.get(run) != version]
    hidden = [run for run, version in base.versions.items() if found.get(run) != version]
    loaded = load(store, seen, changed, mend=build and store.writable)
    warnings += [*seen.warnings, *loaded.warnings]
    con = base.con
    overlay: tuple[Tables, ...] = (loaded.live, loaded.settled)
    is_gone = any(run not in found for run in hidden)
    if build and (loaded.settled_ids or is_gone or con is None):
        try:
            built = _build(store, base, loaded, hidden, warnings)
        except duckdb.Error:
            if afresh:
                raise
            if con is not None:
                con.close()
            _forget(store)  # it opened, and yet some block of it is damaged
            return open_reader(store, afresh=True)
        if built is not None:
            con, hidden, overlay = built, [], (loaded.live,)
    if con is None:
        con, overlay = builder.build_in_memory(store, loaded.settled), (loaded.live,)
    _make_views(con, hidden, overlay, refs)
    versions = {run: version for run, (_, version) in seen.found.items()}
    left_out = tuple(loaded.warnings)
    return Reader(
        store, con, refs=refs, versions=versions, warnings=tuple(warnings), left_out=left_out
    )


def _open_newest(store: Store) -> _Base:
    """Open a generation of this store and this schema; of none there is, return an empty base."""
    for folder in _folders(store):
        generations = Generations(folder)
        for _ in range(2):  # the file may be collected between the look at CURRENT and the opening
            path = generations.current()
            if path is None:
                break
            try:
                con = connect.open_file(path)
            except duckdb.Error:
                continue
            try:
                about = builder.meta(con)
                if about.get("schema") == SCHEMA and about.get("store") == store.id:
                    versions = con.execute("SELECT id, version FROM gen.runs").fetchall()
                    return _Base(path=path, con=con, versions=dict(versions))
            except duckdb.Error:
                pass
            con.close()
            break
    return _Base()


def _build(
    store: Store, base: _Base, loaded: Loaded, hidden: list[str], warnings: list[str]
) -> Connection | None:
    """Write the next generation and open it; None where it cannot be written."""
    folder = _folders(store)[0]
    if not store.writable:
        warnings.append(
            f"the store {store.name} cannot be written; its index is kept in your cache folder"
        )
    try:
        path = builder.build(store, Generations(folder), base.path, loaded.settled, hidden)
    except OSError as error:
        warnings.append(f"the index cannot be written: {reason(error)}")
        return None
    if base.con is not None:
        base.con.close()
    return connect.open_file(path)


def _folders(store: Store) -> list[Path]:
    """Return where generations of the store are looked for; new ones go to the first."""
    if store.writable:
        return [store.layout.index]
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return [Path(cache).expanduser() / "expdb" / store.id / "index", store.layout.index]


def _forget(store: Store) -> None:
    for folder in _folders(store):
        try:
            Generations(folder).forget()
        except OSError:
            continue  # a store that cannot be written keeps its damaged index


def _make_views(
    con: Connection, hidden: list[str], overlay: tuple[Tables, ...], refs: Mapping[str, Ref]
) -> None:
    """Make the temporary views of a reader."""
    con.execute(
        "CREATE TEMP TABLE refs (name VARCHAR, kind VARCHAR, run VARCHAR, step BIGINT, op VARCHAR)"
    )
    if refs:
        columns = zip(*((r.name, r.kind, r.run, r.step, r.op) for r in refs.values()), strict=True)
        unnested = "unnest(?), unnest(?), unnest(?), unnest(?), unnest(?)"
        con.execute(f"INSERT INTO refs SELECT {unnested}", [list(column) for column in columns])
    if not hidden and not any(tables["runs"] for tables in overlay):
        con.execute(";".join(f"CREATE TEMP VIEW {n} AS SELECT * FROM gen.{n}" for n in COLUMNS))
        return
    con.execute("CREATE TEMP TABLE hidden (id VARCHAR)")
    if hidden:
        con.execute("INSERT INTO hidden SELECT unnest(?)", [hidden])
    for name in COLUMNS:
        con.execute(f"CREATE TEMP TABLE over_{name} AS SELECT * FROM gen.{name} LIMIT 0")
    for tables in overlay:
        connect.insert(con, tables, prefix="over_")
    for name in COLUMNS:
        key = "id" if name == "runs" else "run"
        con.execute(
            f"CREATE TEMP VIEW {name} AS SELECT * FROM gen.{name}"
            f" WHERE {key} NOT IN (SELECT id FROM hidden) UNION ALL SELECT * FROM over_{name}"
        )
