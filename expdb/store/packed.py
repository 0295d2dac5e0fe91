"""The copy of journal frames that a rank keeps in memory until they are sealed.

Invariant: what is added here is what was appended to the journal, or is appended next, in the same
order; turning it into columns never reads the journal again. A signal handler may raise at any
point: a frame is neither lost nor doubled by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from expdb.store.parts import Column
from expdb.store.series import SeriesBook
from expdb.store.templates import Template

if TYPE_CHECKING:
    import numpy as np

Marks = Sequence[tuple["Kept", int]]
"""How many bytes of each template's frames there were at one moment."""


class Kept:
    """The whole frames of one template, one after the other.

    `frames += frame` is one operation for other threads: they find the frame whole, or not at all.
    """

    __slots__ = ("floats", "frames", "head", "num_counted", "pack", "tag", "template")

    def __init__(self, template: Template, frames: bytearray | None = None) -> None:
        self.template = template
        self.pack, self.head, self.tag = template.pack, template.head, template.tag
        self.floats = template.floats
        self.frames = bytearray() if frames is None else frames
        self.num_counted = 0
        """The bytes of `frames` that are in the series book."""


class Packed:
    """Frames by template.

    The owner guards it: beside what `Kept` allows, only `count` and `columns` may be called while
    another thread adds.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], Kept] = {}
        self.get = self._kept.get
        """What is kept of these keys, or None; a bound method, since each `log()` calls it."""
        self._is_frozen = False

    def open(self, template: Template) -> Kept:
        """Make the place for the frames of a template."""
        kept = self._kept[template.keys] = Kept(template)
        return kept

    def take_back(self, kept: Kept, frame: bytes) -> None:
        """Forget the frame that was added last: it had to be dropped."""
        if kept.frames.endswith(frame):
            del kept.frames[-len(frame) :]

    def freeze(self) -> None:
        """Promise that nothing is added any more, so that nothing has to be copied."""
        self._is_frozen = True

    @property
    def num_points(self) -> int:
        """The values in all frames."""
        return sum(
            len(kept.frames) // kept.template.frame_bytes * len(kept.template.keys)
            for kept in self._kept.values()
        )

    @property
    def num_bytes(self) -> int:
        """The size of all frames."""
        return sum(len(kept.frames) for kept in self._kept.values())

    def num_frames_to(self, points: int, size: int) -> int:
        """Return after how many more frames, at the earliest, there are so many points or bytes."""
        keys = max((len(kept.template.keys) for kept in self._kept.values()), default=0)
        frame = max((kept.template.frame_bytes for kept in self._kept.values()), default=1)
        return min(
            -((self.num_points - points) // max(1, keys)), -((self.num_bytes - size) // frame)
        )

    def marks(self) -> Marks:
        """Return how much there is now, for `count`."""
        return [(kept, len(kept.frames)) for kept in self._kept.values()]

    def count(self, marks: Marks, book: SeriesBook) -> None:
        """Count what is new up to the marks; what is cut off here is named in its `unordered`."""
        fresh = [(kept, stop) for kept, stop in marks if stop > kept.num_counted]
        arrays = [(kept, self._array(kept, kept.num_counted, stop)) for kept, stop in fresh]
        shared = _shared(kept.template for kept, _ in fresh)
        alone = [item for item in arrays if shared.isdisjoint(item[0].template.keys)]
        by_key = _gathered(item for item in arrays if not shared.isdisjoint(item[0].template.keys))
        try:
            for kept, stop in fresh:
                kept.num_counted = stop
            for kept, array in alone:
                steps, _, _, values = _arrays(array)
                book.update_together(kept.template.keys, steps, values)
            for key, columns in by_key.items():
                _count_in_order(book, key, columns)
        except BaseException:
            book.unordered.update(key for kept, _ in fresh for key in kept.template.keys)
            raise

    def columns(self) -> dict[str, Column]:
        """Return key -> its points."""
        kept = [item for item in self._kept.values() if item.frames]
        by_key = _gathered((item, self._array(item, 0, len(item.frames))) for item in kept)
        return {key: _joined(columns) for key, columns in by_key.items()}

    def pass_counted(self, seq: int) -> None:
        """Take the frames up to `seq` as counted."""
        for kept in self._kept.values():
            seqs = self._array(kept, 0, len(kept.frames))["seq"]
            kept.num_counted = int(seqs.searchsorted(seq, "right")) * kept.template.frame_bytes

    def _array(self, kept: Kept, start: int, stop: int) -> Any:
        import numpy as np

        # An array over `frames` itself would keep them from growing.
        data = memoryview(kept.frames)[start:stop] if self._is_frozen else kept.frames[start:stop]
        return np.frombuffer(data, _dtype(len(kept.template.keys)))


def _dtype(num_keys: int) -> np.dtype[Any]:
    import numpy as np

    return np.dtype(
        [
            ("magic", "<u2"),
            ("length", "<u4"),
            ("seq", "<u8"),
            ("kind", "S1"),
            ("template", "<u4"),
            ("step", "<i8"),
            ("time", "<i8"),
            ("values", "<f8", (num_keys,)),
            ("crc", "<u4"),
        ]
    )


def _shared(templates: Iterable[Template]) -> set[str]:
    """Return the keys that stand in more than one template."""
    seen: set[str] = set()
    found: set[str] = set()
    for template in templates:
        found.update(seen.intersection(template.keys))
        seen.update(template.keys)
    return found


def _arrays(array: Any) -> tuple[Any, Any, Any, Any]:
    """Return steps, times, seqs [frame] and values [key, frame] of frames, each contiguous."""
    import numpy as np

    steps, times = np.ascontiguousarray(array["step"]), np.ascontiguousarray(array["time"])
    return steps, times, array["seq"].astype(np.int64), np.ascontiguousarray(array["values"].T)


def _gathered(arrays: Iterable[tuple[Kept, Any]]) -> dict[str, list[Column]]:
    """Return key -> its points of each template; a template's keys share all but the values."""
    by_key: dict[str, list[Column]] = {}
    for kept, array in arrays:
        steps, times, seqs, values = _arrays(array)
        for key, own in zip(kept.template.keys, values, strict=True):
            by_key.setdefault(key, []).append(Column(steps, times, own, seqs))
    return by_key


def _count_in_order(book: SeriesBook, key: str, columns: list[Column]) -> None:
    """Count a key of several templates in the order of logging."""
    import numpy as np

    column = _joined(columns)
    if len(columns) == 1:
        book.update(key, column.steps, column.values)
    else:
        order = np.argsort(column.seqs, kind="stable")
        book.update(key, column.steps[order], column.values[order])


def _joined(columns: list[Column]) -> Column:
    import numpy as np

    if len(columns) == 1:
        return columns[0]
    return Column(
        np.concatenate([item.steps for item in columns]),
        np.concatenate([item.times for item in columns]),
        np.concatenate([item.values for item in columns]),
        np.concatenate([item.seqs for item in columns]),
    )
