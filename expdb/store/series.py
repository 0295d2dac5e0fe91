"""Running summaries of series, kept without reading points again.

Invariant: for a key whose steps only grow the summary is exact at every moment; any other key is
named in `unordered` until it is recounted from all of its visible points.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expdb.errors import Corrupt
from expdb.model import FORMAT, Series
from expdb.store import fields
from expdb.store.fields import Wrong
from expdb.store.files import plain, read_json, write_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TAIL = 3
RANK = re.compile(r"[0-9]{1,9}")


class SeriesBook:
    """The summaries of all keys of a run."""

    def __init__(self, series: Iterable[Series] = ()) -> None:
        self._series: dict[str, Series] = {item.key: item for item in series}
        self.unordered: set[str] = set()
        self.attempt = 0
        self.through_seq: dict[int, int] = {}
        """Rank -> the last journal frame of `attempt` that is counted."""

    def __getitem__(self, key: str) -> Series:
        return self._series[key]

    def get(self, key: str) -> Series | None:
        """Return the summary of a key, or None."""
        return self._series.get(key)

    def copy(self) -> SeriesBook:
        """Return the book as it is now; another thread may go on counting into this one."""
        book = SeriesBook(self._series.values())
        book.unordered, book.attempt = set(self.unordered), self.attempt
        book.through_seq = dict(self.through_seq)
        return book

    def through(self, attempt: int, rank: int) -> int:
        """Return the last journal frame of a rank that is counted."""
        return self.through_seq.get(rank, 0) if attempt == self.attempt else 0

    @property
    def series(self) -> Mapping[str, Series]:
        """Key -> summary."""
        return self._series

    def update(self, key: str, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Count further points of a key, in the order in which they were logged."""
        import numpy as np

        if len(steps) == 0:
            return
        old = self._series.get(key)
        grows = bool(np.all(steps[1:] > steps[:-1])) and (old is None or steps[0] > old.last_step)
        if not grows:
            self.unordered.add(key)
            order = np.argsort(steps, kind="stable")
            steps, values = steps[order], values[order]
        new = _summarize(key, steps, values)
        self._series[key] = new if old is None else _merge(old, new)

    def update_together(
        self, keys: Sequence[str], steps: NDArray[np.int64], values: NDArray[np.float64]
    ) -> None:
        """Count further points of keys that were logged together: `values` is [key, step]."""
        import numpy as np

        if len(steps) == 0:
            return
        last = int(steps[0]) if bool(np.all(steps[1:] > steps[:-1])) else None
        finite = np.asarray(np.isfinite(values).all(axis=1)).tolist()
        at = np.arange(len(keys))
        low, high = values.argmin(axis=1), values.argmax(axis=1)  # the first of equal ones
        found = zip(
            keys,
            finite,
            steps[low].tolist(),
            values[at, low].tolist(),
            steps[high].tolist(),
            values[at, high].tolist(),
            values[:, 0].tolist(),
            values[:, -TAIL:].tolist(),
            strict=True,
        )
        ends = len(steps), int(steps[0]), int(steps[-1])
        for index, (key, is_finite, *extremes, first, tail) in enumerate(found):
            old = self._series.get(key)
            if is_finite and last is not None and (old is None or last > old.last_step):
                self._series[key] = _extended(old, key, ends, extremes, first, tail)
            else:
                self.update(key, steps, values[index])

    def replace(self, key: str, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Recount a key from all of its visible points, at least one, sorted by step."""
        self.unordered.discard(key)
        self._series[key] = _summarize(key, steps, values)

    def join(self, series: Series) -> None:
        """Count the summary of another writer's points of a key."""
        old = self._series.get(series.key)
        self._series[series.key] = series if old is None else _merge(old, series)

    def keep(self, series: Series) -> None:
        """Keep a summary that cannot be counted again now, though not all points may be in it."""
        self._series[series.key] = series
        self.unordered.add(series.key)

    def drop(self, key: str) -> None:
        """Forget a key: it has no visible points, or is counted again next."""
        self.unordered.discard(key)
        self._series.pop(key, None)

    def save(self, path: Path, *, durable: bool = True) -> None:
        """Write series.json; a heartbeat may do so without `durable`: a later one comes."""
        series = {key: _as_json(item) for key, item in sorted(self._series.items())}
        through = {str(rank): seq for rank, seq in self.through_seq.items()}
        body = {
            "format": FORMAT,
            "attempt": self.attempt,
            "through_seq": through,
            "unordered": sorted(self.unordered),
            "series": series,
        }
        write_json(path, body, durable=durable, is_plain=True)


def load(path: Path) -> SeriesBook:
    """Return the book in a series.json; an empty one when there is none.

    Raises:
        Corrupt: the file is damaged.
    """
    try:
        data = read_json(path)
    except FileNotFoundError:
        return SeriesBook()
    try:
        found = fields.mappings(data, "series", {})
        book = SeriesBook(_from_json(key, item) for key, item in found.items())
        book.unordered = set(fields.texts(data, "unordered", ()))
        book.attempt = fields.whole(data, "attempt", 0)
        through = fields.mapping(data, "through_seq", {})
        for rank in through:
            if not RANK.fullmatch(rank):
                raise Wrong("through_seq")
            book.through_seq[int(rank)] = fields.whole(through, rank)
    except Wrong as error:
        raise Corrupt(f"series.json is damaged at `{error}`", hint=f"the file: {path}") from error
    return book


def _summarize(key: str, steps: NDArray[np.int64], values: NDArray[np.float64]) -> Series:
    import numpy as np

    finite = np.isfinite(values)
    num_finite = int(finite.sum())
    low = high = None
    if num_finite:
        # argmin takes the first of equal values: the earliest step that reached it.
        inner, at = values[finite], steps[finite]
        low, high = int(inner.argmin()), int(inner.argmax())
    return Series(
        key=key,
        count=len(values),
        nonfinite=len(values) - num_finite,
        first_step=int(steps[0]),
        first=float(values[0]),
        last_step=int(steps[-1]),
        last=float(values[-1]),
        min_step=None if low is None else int(at[low]),
        min=None if low is None else float(inner[low]),
        max_step=None if high is None else int(at[high]),
        max=None if high is None else float(inner[high]),
        tail=tuple(float(value) for value in values[-TAIL:]),
        nonfinite_step=_trailing(steps, finite),
    )


def _extended(
    old: Series | None,
    key: str,
    ends: tuple[int, int, int],
    extremes: Sequence[Any],
    first: float,
    tail: Sequence[float],
) -> Series:
    """Return a summary with later points, all finite, counted in; see `update_together`."""
    count, first_step, last_step = ends
    low_step, low, high_step, high = extremes
    if old is None:
        start = 0, 0, first_step, first
    else:
        start = old.count, old.nonfinite, old.first_step, old.first
        tail = [*old.tail, *tail][-TAIL:]
        if old.min is not None and old.min <= low:
            low_step, low = old.min_step, old.min
        if old.max is not None and old.max >= high:
            high_step, high = old.max_step, old.max
    return Series(
        key=key,
        count=start[0] + count,
        nonfinite=start[1],
        first_step=start[2],
        first=start[3],
        last_step=last_step,
        last=tail[-1],
        min_step=low_step,
        min=low,
        max_step=high_step,
        max=high,
        tail=tuple(tail),
        nonfinite_step=None,
    )


def _trailing(steps: NDArray[np.int64], finite: NDArray[np.bool_]) -> int | None:
    import numpy as np

    if finite[-1]:
        return None
    good = np.flatnonzero(finite)
    return int(steps[good[-1] + 1]) if len(good) else int(steps[0])


def _merge(old: Series, new: Series) -> Series:
    first, last = (old, new) if old.first_step <= new.first_step else (new, old)
    end = new if new.last_step >= old.last_step else old
    low = _pick([old.min, new.min], [old.min_step, new.min_step], smallest=True)
    high = _pick([old.max, new.max], [old.max_step, new.max_step], smallest=False)
    trailing = end.nonfinite_step
    if trailing is not None and end is new and new.nonfinite == new.count:
        trailing = old.nonfinite_step if old.nonfinite_step is not None else trailing
    return Series(
        key=old.key,
        count=old.count + new.count,
        nonfinite=old.nonfinite + new.nonfinite,
        first_step=first.first_step,
        first=first.first,
        last_step=end.last_step,
        last=end.last,
        min_step=low[1],
        min=low[0],
        max_step=high[1],
        max=high[0],
        tail=(first.tail + last.tail)[-TAIL:],
        nonfinite_step=trailing,
    )


def _pick(
    values: list[float | None], steps: list[int | None], *, smallest: bool
) -> tuple[float | None, int | None]:
    found = [(v, s) for v, s in zip(values, steps, strict=True) if v is not None and s is not None]
    if not found:
        return None, None
    sign = 1 if smallest else -1
    return min(found, key=lambda item: (sign * item[0], item[1]))


FIELDS = (
    "count", "nonfinite", "first_step", "first", "last_step", "last",
    "min_step", "min", "max_step", "max", "tail", "nonfinite_step",
)  # fmt: skip


_values = attrgetter(*FIELDS)


def _as_json(series: Series) -> dict[str, Any]:
    found = dict(zip(FIELDS, _values(series), strict=True))
    return plain(found) if series.nonfinite else found


_FIELDS_OF = itemgetter(*FIELDS)
_PLAIN = (int, int, int, float, int, float, int, float, int, float, list, type(None))
_REAL = frozenset([float])


def _from_json(key: str, data: Mapping[str, Any]) -> Series:
    return _as_written(key, data) or Series(
        key=key,
        count=fields.whole(data, "count"),
        nonfinite=fields.whole(data, "nonfinite"),
        first_step=fields.whole(data, "first_step"),
        first=fields.real(data, "first"),
        last_step=fields.whole(data, "last_step"),
        last=fields.real(data, "last"),
        min_step=fields.maybe_whole(data, "min_step"),
        min=fields.maybe_real(data, "min"),
        max_step=fields.maybe_whole(data, "max_step"),
        max=fields.maybe_real(data, "max"),
        tail=tuple(fields.as_real(item, "tail") for item in fields.items(data, "tail", ())),
        nonfinite_step=fields.maybe_whole(data, "nonfinite_step"),
    )


def _as_written(key: str, data: Mapping[str, Any]) -> Series | None:
    """Return a summary whose fields are all plainly of their types, None of any other.

    So are nearly all, and there are ten to a hundred in every run that is indexed.
    """
    try:
        found = _FIELDS_OF(data)
    except KeyError:
        return None
    count, nonfinite, first_step, first, last_step, last, *rest = found
    min_step, low, max_step, high, tail, _ = rest
    whole = (count, nonfinite, first_step, last_step, min_step, max_step)
    if tuple(map(type, found)) != _PLAIN or not _REAL.issuperset(map(type, tail)):
        return None
    if max(whole) >= fields.INT64 or min(whole) < -fields.INT64:
        return None
    return Series(
        key=key,
        count=count,
        nonfinite=nonfinite,
        first_step=first_step,
        first=first,
        last_step=last_step,
        last=last,
        min_step=min_step,
        min=low,
        max_step=max_step,
        max=high,
        tail=tuple(tail),
    )
