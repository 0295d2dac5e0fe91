"""Reading the runs that changed.

Invariant: a run counts as settled only in a final state, with every file there that its status.json
lists, and with a status.json older than two seconds at the scan: a change in the same tick of the
file clock would not show in its version.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from expdb.errors import ExpdbError, NotFound
from expdb.index.rows import rows_of
from expdb.index.scan import Scan
from expdb.index.schema import Tables, no_tables
from expdb.model import Run, RunState
from expdb.store.files import reason
from expdb.store.folders import run_in, version_in
from expdb.store.layout import RunLayout
from expdb.store.runs import read_listed
from expdb.store.store import Store

SETTLED: Final = frozenset(
    [RunState.FINISHED, RunState.FAILED, RunState.PREEMPTED, RunState.CRASHED]
)
RACY_NS: Final = 2_000_000_000

PASSING: Final = re.compile(r"attempts/\d+/(?:rank|media)-\d+\.\d+\.wal")
"""Files that go away by design once they were listed: a seal takes their place."""

FIXED: Final = ("points/", "checkpoints/")
"""Where files have their final size from the first moment; elsewhere they may grow or shrink."""


@dataclass(slots=True, kw_only=True)
class Loaded:
    """What was read of the runs that changed."""

    settled: Tables = field(default_factory=no_tables)
    live: Tables = field(default_factory=no_tables)
    """Runs that may change without their version: only ever overlaid."""
    warnings: list[str] = field(default_factory=list)

    @property
    def settled_ids(self) -> list[str]:
        """The runs that a generation may hold."""
        return [row[0] for row in self.settled["runs"]]


def load(store: Store, at: Scan, stamps: Iterable[str], *, mend: bool) -> Loaded:
    """Read some runs.

    Args:
        store: the store.
        at: the scan that found them.
        stamps: those of the runs to read.
        mend: seal what a killed process left in its journals.
    """
    from expdb.store.writers import others

    loaded = Loaded()
    then_ns: int | None = None
    for stamp in stamps:
        path = Path(at.folder(run_in(stamp)))
        try:
            run, listed = read_listed(path, store_root=store.root)
            layout, missing = RunLayout(path), _missing(path, listed, run.state)
            # Half copied: sealing would count what is there, and forget what is still to come.
            whole = all(name.startswith("checkpoints/") for name in missing)
            numbers = [item.number for item in run.attempts] if run.state in SETTLED else ()
            is_written, is_left = others(layout, numbers)
            # A resume that was cut off leaves a run with the end that it had before.
            may_be_cut = len(numbers) > 1 and run.state is not RunState.FINISHED
            if mend and (is_left or may_be_cut or run.state is RunState.CRASHED) and whole:
                run, listed = _mended(store, path, run, listed)
                missing = _missing(path, listed, run.state)
            tables = rows_of(run)
        except NotFound:
            continue  # the folder is being made: it has no run.json yet
        except ExpdbError as error:
            loaded.warnings.append(f"{_place(store, path)} is left out: {error.message}")
            continue
        except OSError as error:
            loaded.warnings.append(
                f"{_place(store, path)} is left out: it cannot be read: {reason(error)}"
            )
            continue
        if then_ns is None:
            then_ns = _file_clock_ns(store) - (time.monotonic_ns() - at.monotonic_ns)
        same = run.version == version_in(stamp) or run.state is RunState.CRASHED
        quiet = run.version[0] < then_ns - RACY_NS
        is_settled = run.state in SETTLED and not (run.problems or missing or is_written)
        is_settled = is_settled and same and quiet
        target = loaded.settled if is_settled else loaded.live
        for name, rows in tables.items():
            target[name].extend(rows)
    return loaded


def _missing(run_dir: Path, listed: Mapping[str, int], state: RunState) -> tuple[str, ...]:
    """Return the files that status.json lists and that are not there, or not whole yet."""
    if state not in SETTLED:
        return ()
    return tuple(name for name, size in listed.items() if not _is_there(run_dir, name, size))


def _is_there(run_dir: Path, name: str, size: int) -> bool:
    try:
        found = os.stat(f"{run_dir}/{name}").st_size  # noqa: PTH116 - for every file of every run
    except (OSError, ValueError):
        return PASSING.fullmatch(name) is not None
    return found >= size or not name.startswith(FIXED)


def _mended(
    store: Store, path: Path, run: Run, listed: Mapping[str, int]
) -> tuple[Run, Mapping[str, int]]:
    """Return a crashed run after its journals were sealed; as it is where they cannot be."""
    from expdb.store.recover import needs_recovery, recover

    layout = RunLayout(path)
    if run.ended_at_ms is not None and not needs_recovery(layout):
        return run, listed
    try:
        recover(store.root, layout)
    except (ExpdbError, OSError):
        return run, listed  # read from its journals, as before
    return read_listed(path, store_root=store.root)


def _file_clock_ns(store: Store) -> int:
    """Return now by the clock that stamps the store's files, or the local one if it is mute."""
    clock = store.layout.meta / "clock"
    try:
        clock.touch()
        return clock.stat().st_mtime_ns
    except OSError:
        return time.time_ns()


def _place(store: Store, path: Path) -> str:
    return os.path.relpath(path, store.root)
