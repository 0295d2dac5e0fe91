"""Which runs `gc` folds: those with many parts that nobody writes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from expdb.actions.gc.results import GcItem
from expdb.errors import Conflict, Corrupt
from expdb.index.reader import Reader
from expdb.store.files import reason
from expdb.store.fold_parts import Folding, fold_parts, planned
from expdb.store.layout import RunLayout
from expdb.store.runs import find_run_dir
from expdb.store.store import Store
from expdb.text import plain


def part_items(reader: Reader, runs: Sequence[str], problems: list[str]) -> Iterator[GcItem]:
    """Yield the runs whose parts would become fewer, or whose folded files would go."""
    root = reader.store.root
    wanted = set(runs)
    for run, name, path in reader.rows("SELECT id, name, path FROM runs ORDER BY created_at_ms"):
        if run not in wanted:
            continue
        layout = RunLayout(root / str(path))
        try:
            found = planned(root, layout)
        except Corrupt as error:
            problems.append(f"the parts of {run} stay: {error.message}")
            continue
        except OSError as error:
            problems.append(f"the parts of {run} stay: {reason(error)}")
            continue
        if found is not None:
            yield GcItem(
                kind="parts",
                what=str(run),
                name=str(name),
                path=layout.points.relative_to(root).as_posix(),
                bytes=found.old_bytes,
                goes=True,
                why=_why(found),
                run=str(run),
            )


def _why(found: Folding) -> str:
    if found.after == found.before:
        return "folded more than 10 minutes ago"
    return f"{found.before:,} parts -> {found.after:,}"


def fold(store: Store, items: Sequence[GcItem], left: list[str]) -> list[GcItem]:
    """Fold the parts of each run; return what was done."""
    done = []
    for item in items:
        try:
            layout = RunLayout(find_run_dir(store.root, item.run))
            if planned(store.root, layout) is None:
                left.append(f"the parts of {item.run} stay: its run is written, or done already")
                continue
            fold_parts(store.root, layout)
        except (Conflict, Corrupt) as error:
            left.append(f"the parts of {item.run} stay: {plain(error.message)}")
            continue
        done.append(item)
    return done
