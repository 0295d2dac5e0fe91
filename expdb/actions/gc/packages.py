"""Which lists of installed packages `gc` sets aside: those that no run names, in store or trash."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from expdb.actions.gc.pins import run_folders
from expdb.actions.gc.results import GcItem
from expdb.errors import ExpdbError
from expdb.store import attempts, packages
from expdb.store.files import reason
from expdb.store.layout import RunLayout, StoreLayout


def package_items(
    layout: StoreLayout, problems: list[str], *, purged: Collection[Path] = ()
) -> Iterator[GcItem]:
    """Yield the lists that nobody names; none where it cannot be known."""
    sets = packages.kept_sets(layout)
    if not sets:
        return
    try:
        needed = needed_sets(layout, purged)
    except (ExpdbError, OSError) as error:
        said = error.message if isinstance(error, ExpdbError) else reason(error)
        problems.append(f"every list of packages stays: {said}")
        return
    for name, path in sets.items():
        if name in needed or packages.is_fresh(layout, path):
            continue
        yield GcItem(
            kind="packages",
            what=name,
            name="",
            path=path.relative_to(layout.root).as_posix(),
            bytes=path.stat().st_size,
            goes=True,
            why="no run names it",
        )


def needed_sets(layout: StoreLayout, purged: Collection[Path] = ()) -> set[str]:
    """Return the digests of the lists that the runs of a store and of its trash name.

    Raises:
        ExpdbError, OSError: a run cannot be read, so that it cannot be known.
    """
    found = set()
    for folder in run_folders(layout, purged):
        run = RunLayout(folder)
        for number in attempts.numbers(run):
            try:
                named = attempts.read_pin(run, number).environment.get("packages", "")
            except FileNotFoundError:
                continue  # claimed a moment ago, or by a process that died then
            found.add(named.removeprefix("sha256:"))
    return found


def set_aside(
    layout: StoreLayout, items: Sequence[GcItem], op: str, left: list[str]
) -> list[GcItem]:
    """Move the lists into the trash; return what was moved."""
    if not items:
        return []
    needed = needed_sets(layout)
    done = []
    for item in items:
        if item.what in needed or not packages.set_aside(layout, item.what, op=op):
            left.append(f"{item.what[:7]} stays: a run names it by now")
            continue
        done.append(item)
    return done
