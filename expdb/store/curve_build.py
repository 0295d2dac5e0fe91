"""Keeps curves.parquet of a run up with its sealed points, by whoever may write to the run.

    old file -> buckets that still hold -+-> merged -> new file
    new parts -> points -> buckets ------+
    all parts -> points -> buckets of keys that are new, or whose steps did not always grow

Invariant: what is written covers exactly the parts that the lists named at the start. While its
steps grow a series is read whole once; work is on arrays, a bounded number of points a time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from expdb.errors import Corrupt
from expdb.store import attempts as attempt_files
from expdb.store import points
from expdb.store.curves import MIN_POINTS, Curves, Source, read_curves, write_curves
from expdb.store.keyed import Keyed, coarsened, keyed_points, together
from expdb.store.layout import RunLayout
from expdb.store.parts import PartEntry, part_groups, schema
from expdb.store.wanted import Wanted, batches, sealed_tables

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_POINTS: Final = 1 << 20
"""The points that are in memory at a time, about, of keys that are read whole."""
MERGE_ROWS: Final = 1 << 18
"""New buckets are merged into those there are when they are so many, and more than these."""


def refresh_curves(layout: RunLayout, counts: Mapping[str, int]) -> int:
    """Bring curves.parquet up to the sealed points; return how many buckets are in it.

    `counts` is key -> its points, of all keys whose curve is wanted. Without a key of more than
    20,000 points there is no such file.

    Raises:
        Corrupt: a part, a list or a pin cannot be read; what was there stands.
        Unsupported: a newer expdb wrote the file.
        OSError: it cannot be written.
    """
    long = {key: count for key, count in counts.items() if count > MIN_POINTS}
    if not long:
        layout.curves.unlink(missing_ok=True)
        return 0
    old = _old(layout)
    built = build_curves(layout, long, old=old)
    if built is not old:
        write_curves(layout.curves, built)
    return len(built.buckets.rows)


def build_curves(
    layout: RunLayout, counts: Mapping[str, int], *, old: Curves | None = None
) -> Curves:
    """Return the curves of these keys: with what still holds of older ones, or these themselves if
    they say all already.

    Raises:
        Corrupt: as `refresh_curves`.
    """
    work = _Work(
        layout,
        {number: points.part_lists(layout, number) for number in attempt_files.numbers(layout)},
        points.resumed_from(layout),
    )
    now = work.source()
    if old is not None and old.source == now and set(old.buckets.names) == counts.keys():
        return old
    known = Keyed.none()
    if old is not None:
        limit = old.source.holds_to(now.covered, now.resumed)
        known = _up_to(old.buckets, limit, counts)
        known = work.grown(known, old.source.covered, known.names)
    found = [known, work.grown(Keyed.none(), {}, counts.keys() - set(known.names))]
    there = {name for part in found for name in part.names}
    rest = {key: counts[key] for key in counts.keys() - there}
    found += [work.read(keys) for keys in batches(rest, BATCH_POINTS)]
    return Curves(source=now, buckets=together(found))


def _up_to(buckets: Keyed, limit: int | None, keys: Collection[str]) -> Keyed:
    """Return the buckets of those keys that have no step over the limit."""
    if limit is None or not buckets.names:
        return Keyed.none()
    _, last = buckets.ends()
    pairs = zip(buckets.names, last.tolist(), strict=True)
    return buckets.chosen([key for key, step in pairs if step <= limit and key in keys])


def _old(layout: RunLayout) -> Curves | None:
    try:
        return read_curves(layout.curves)
    except (FileNotFoundError, Corrupt):
        return None


class _Work:
    """The sealed points of a run as they were at one moment."""

    def __init__(
        self,
        layout: RunLayout,
        lists: Mapping[int, Mapping[int, Sequence[PartEntry]]],
        resumed: Mapping[int, int | None],
    ) -> None:
        self._layout, self._lists, self._resumed = layout, lists, resumed

    def source(self) -> Source:
        """Return what curves of all these points are made from."""
        return Source(covered=points.last_frames(self._lists), resumed=self._resumed)

    def read(self, keys: Sequence[str]) -> Keyed:
        """Return the buckets of keys, from all of their points."""
        return coarsened(keyed_points(self._standing(Wanted(keys=keys))))

    def grown(
        self, known: Keyed, covered: Mapping[tuple[int, int], int], keys: Collection[str]
    ) -> Keyed:
        """Return the buckets of keys with what came after the frames that are covered; without keys
        whose steps do not grow from point to point, through all parts in order.
        """
        growing = _Growing(known, keys)
        for number, ranks in sorted(self._lists.items()):
            cuts = [step for at, step in self._resumed.items() if at > number and step is not None]
            for rank, entries in sorted(ranks.items()):
                after = covered.get((number, rank), 0)
                for entry in entries:
                    if entry.first_seq <= after < entry.last_seq:
                        return Keyed.none()  # what is covered was folded with what is not
                    path = self._layout.points / Path(entry.file).name
                    for table in part_groups(path, sorted(keys)) if entry.last_seq > after else ():
                        growing.add(table, min(cuts, default=None))
        return growing.done()

    def _standing(self, wanted: Wanted) -> pa.Table:
        import pyarrow as pa

        tables = sealed_tables(self._layout, self._lists, wanted, None, None)
        table = pa.concat_tables([schema().empty_table(), *tables])
        return points.standing(points.visible(table, self._resumed))


class _Growing:
    """Buckets that later points of the same keys are added to, a row group at a time."""

    def __init__(self, known: Keyed, keys: Collection[str]) -> None:
        self._known, self._keys = known, set(keys)
        self._last = dict(zip(known.names, known.ends()[1].tolist(), strict=True))
        self._new: list[Keyed] = []
        self._num_new = 0

    def add(self, table: pa.Table, until: int | None) -> None:
        """Add points, sorted by (key, step); of them those up to a step, if one is given."""
        if until is not None:
            table = table.filter(table["step"].to_numpy() <= until)
        fresh = self._growing(keyed_points(table))
        self._last |= zip(fresh.names, fresh.ends()[1].tolist(), strict=True)
        self._new.append(coarsened(fresh))
        self._num_new += len(self._new[-1].rows)
        if self._num_new > max(MERGE_ROWS, len(self._known.rows)):
            self._merge()

    def _growing(self, fresh: Keyed) -> Keyed:
        """Return the points of the keys that are wanted still, after those that went back."""
        steps, codes = fresh.rows.first_step, fresh.codes
        again = codes[1:][(codes[1:] == codes[:-1]) & (steps[1:] <= steps[:-1])]
        back = {fresh.names[code] for code in again.tolist()}
        first = zip(fresh.names, fresh.ends()[0].tolist(), strict=True)
        back |= {key for key, step in first if key in self._last and step <= self._last[key]}
        self._keys -= back
        return fresh.chosen([key for key in fresh.names if key in self._keys])

    def _merge(self) -> None:
        self._known = coarsened(together([self._known, *self._new]))
        self._new, self._num_new = [], 0

    def done(self) -> Keyed:
        """Return the buckets of the keys whose steps grew all the way."""
        self._merge()
        return self._known.chosen([key for key in self._known.names if key in self._keys])
