"""Buckets of many series in one table, so that a thousand keys are one piece of work on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from expdb.store.buckets import Buckets, joined, merged, of_points, shift_of, starts_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """Buckets sorted by (key, step); `codes` [n] are places in `names`, which are sorted."""

    names: tuple[str, ...]
    codes: NDArray[np.int32]
    rows: Buckets

    @staticmethod
    def none() -> Keyed:
        """Return a table without a row."""
        import numpy as np

        return Keyed(names=(), codes=np.empty(0, np.int32), rows=joined(()))

    def of(self, key: str) -> Buckets:
        """Return the buckets of a key; none where it has none."""
        if key not in self.names:
            return self.rows.taken(slice(0, 0))
        code = self.names.index(key)
        start, stop = self.codes.searchsorted([code, code + 1])
        return self.rows.taken(slice(int(start), int(stop)))

    def chosen(self, keys: Sequence[str]) -> Keyed:
        """Return the buckets of some keys, all of which are here."""
        import numpy as np

        if len(keys) == len(self.names):
            return self
        wanted = np.isin(self.names, keys) if self.names else np.zeros(0, bool)
        place = np.cumsum(wanted, dtype=np.int32) - 1
        mask = wanted[self.codes]
        names = tuple(name for name, is_in in zip(self.names, wanted, strict=True) if is_in)
        return Keyed(names=names, codes=place[self.codes[mask]], rows=self.rows.taken(mask))

    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first and the last step of each key [names]."""
        starts = starts_of(self.codes)
        last = [*(starts[1:] - 1).tolist(), len(self.codes) - 1][: len(starts)]
        return self.rows.first_step[starts], self.rows.last_step[last]


def together(parts: Sequence[Keyed]) -> Keyed:
    """Return the buckets of several tables; of a key that is in many, in the order of the tables.

    Each name has at least one bucket.
    """
    import numpy as np

    names = sorted({name for part in parts for name in part.names})
    place = {name: at for at, name in enumerate(names)}
    codes = [np.array([place[name] for name in part.names], np.int32)[part.codes] for part in parts]
    all_codes = np.concatenate([np.empty(0, np.int32), *codes])
    rows = joined([part.rows for part in parts])
    if (all_codes[1:] < all_codes[:-1]).any():
        order = np.argsort(all_codes, kind="stable")
        all_codes, rows = all_codes[order], rows.taken(order)
    return Keyed(names=tuple(names), codes=all_codes, rows=rows)


def keyed(table: pa.Table, rows: Buckets) -> Keyed:
    """Return the rows of a table, which is sorted by its key, a dictionary in one chunk."""
    import numpy as np

    if table.num_rows == 0:
        return Keyed.none()
    column = table["key"].combine_chunks()
    indices, found = column.indices.to_numpy(), column.dictionary.to_pylist()
    starts = starts_of(indices)
    sizes = np.diff(np.append(starts, len(indices)))
    return Keyed(
        names=tuple(found[at] for at in indices[starts]),
        codes=np.repeat(np.arange(len(starts), dtype=np.int32), sizes),
        rows=rows,
    )


def keyed_points(table: pa.Table) -> Keyed:
    """Return one bucket a point, of a table with the columns of a part that is sorted by (key,
    step).
    """
    steps, times, values = (table[name].to_numpy() for name in ("step", "time", "value"))
    return keyed(table.unify_dictionaries(), of_points(steps, times, values))


def coarsened(keyed: Keyed) -> Keyed:
    """Return at most `MAX_BUCKETS` buckets a key."""
    import numpy as np

    if not keyed.names:
        return keyed
    first, last = keyed.ends()
    counts = np.add.reduceat(keyed.rows.count, starts_of(keyed.codes))
    found = zip(first.tolist(), last.tolist(), counts.tolist(), strict=True)
    shifts = np.array([shift_of(*item) for item in found], np.int64)
    ids: Any = keyed.rows.first_step >> shifts[keyed.codes]
    starts = starts_of(keyed.codes, ids)
    return Keyed(names=keyed.names, codes=keyed.codes[starts], rows=merged(keyed.rows, starts))
