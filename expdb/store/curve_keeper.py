"""When the curves of a run are brought up to date, and by whom.

Invariant: nothing here fails whoever calls it: curves are derived, and readers do without them.
"""

from __future__ import annotations

from expdb.errors import ExpdbError
from expdb.store.curve_build import refresh_curves
from expdb.store.layout import RunLayout
from expdb.store.series import SeriesBook


def keep_curves(layout: RunLayout, book: SeriesBook, *, whole: bool = True) -> int:
    """Bring curves.parquet up to the sealed points, and return how many buckets are in it.

    For who may write to the run. Without `whole` the keys of which points came out of order are
    left out: they would have to be read from the start each time.
    """
    counts = {key: item.count for key, item in book.series.items()}
    if not whole:
        counts = {key: count for key, count in counts.items() if key not in book.unordered}
    try:
        return refresh_curves(layout, counts)
    except (OSError, ExpdbError):
        return 0


class CurveKeeper:
    """Keeps the curves of a run that is being written, after each part that is worth it.

    Of a thousand keys the buckets may be more than the points of a part: these are then written
    again when as many points have come.
    """

    def __init__(self, layout: RunLayout, rank: int) -> None:
        self._layout, self._is_owner = layout, rank == 0
        self._num_new = self._num_buckets = 0

    def sealed(self, num_points: int, book: SeriesBook, *, is_last: bool) -> None:
        """Take in that so many points were sealed; `is_last`: no more wait to be sealed."""
        self._num_new += num_points
        if self._is_owner and is_last and self._num_new > self._num_buckets:
            self._num_buckets = keep_curves(self._layout, book, whole=False)
            self._num_new = 0
