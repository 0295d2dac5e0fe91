"""The packed copy of journal frames that a rank keeps in memory until they are sealed.

Invariant: what is added here is exactly what was appended to the journal, in the same order;
turning it into columns never reads the journal again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from expdb.store.parts import Column
from expdb.store.series import SeriesBook
from expdb.store.templates import Template

if TYPE_CHECKING:
    import numpy as np

Frames = Mapping[Template, list[bytes]]
"""Frames that are not counted yet, by template."""


class Packed:
    """Frames by template; each is its head and one V record, without the checksum.

    The owner guards `add`, `take` and the rest: only `take` may be called beside `count` and
    `columns`.
    """

    def __init__(self) -> None:
        self._fresh: dict[Template, list[bytes]] = {}
        self._counted: dict[Template, list[Any]] = {}
        self.num_points = 0
        self.num_bytes = 0

    def add(self, template: Template, head: bytes) -> None:
        """Keep one frame."""
        frames = self._fresh.get(template)
        if frames is None:
            frames = self._fresh[template] = []
        frames.append(head)
        self.num_points += len(template.keys)
        self.num_bytes += len(head)

    def take(self) -> Frames:
        """Hand out the frames that `count` has not seen; it must be called with them next."""
        fresh, self._fresh = self._fresh, {}
        return fresh

    def count(self, fresh: Frames, book: SeriesBook) -> None:
        """Count what `take` handed out into the book."""
        import numpy as np

        by_key: dict[str, list[Column]] = {}
        for template, frames in fresh.items():
            array = np.frombuffer(b"".join(frames), _dtype(len(template.keys)))
            self._counted.setdefault(template, []).append(array)
            _gather(by_key, template, array)
        for key, columns in by_key.items():
            column = _joined(columns)
            if len(columns) > 1:  # a key of several templates: back in the order of logging
                order = np.argsort(column.seqs, kind="stable")
                book.update(key, column.steps[order], column.values[order])
            else:
                book.update(key, column.steps, column.values)

    def columns(self) -> dict[str, Column]:
        """Return key -> its points among the counted frames."""
        import numpy as np

        by_key: dict[str, list[Column]] = {}
        for template, chunks in self._counted.items():
            _gather(by_key, template, np.concatenate(chunks) if len(chunks) > 1 else chunks[0])
        return {key: _joined(columns) for key, columns in by_key.items()}

    def extend(self, later: Packed) -> None:
        """Take over what was added to another copy after this one."""
        for template, chunks in later._counted.items():
            self._counted.setdefault(template, []).extend(chunks)
        for template, frames in later._fresh.items():
            self._fresh.setdefault(template, []).extend(frames)
        self.num_points += later.num_points
        self.num_bytes += later.num_bytes


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
        ]
    )


def _gather(by_key: dict[str, list[Column]], template: Template, array: Any) -> None:
    import numpy as np

    seqs = array["seq"].astype(np.int64)
    for index, key in enumerate(template.keys):
        values = np.ascontiguousarray(array["values"][:, index])
        by_key.setdefault(key, []).append(Column(array["step"], array["time"], values, seqs))


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
