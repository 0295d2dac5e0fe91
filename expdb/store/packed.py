"""The packed copy of journal frames that a rank keeps in memory until they are sealed.

Invariant: what is added here is exactly what was appended to the journal, in the same order; turning it into columns
never reads the journal again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expdb.store.journal import Template
from expdb.store.parts import Column
from expdb.store.series import SeriesBook

if TYPE_CHECKING:
    import numpy as np


class Packed:
    """Frames by template; each frame is its head and one V record, without the checksum."""

    def __init__(self) -> None:
        self._frames: dict[Template, list[bytes]] = {}
        self._chunks: dict[Template, list[Any]] = {}
        self.num_points = 0
        self.num_bytes = 0

    def add(self, template: Template, head: bytes) -> None:
        """Keep one frame."""
        frames = self._frames.get(template)
        if frames is None:
            frames = self._frames[template] = []
        frames.append(head)
        self.num_points += len(template.keys)
        self.num_bytes += len(head)

    def fold(self, book: SeriesBook) -> None:
        """Count the frames added since the last fold into the book."""
        import numpy as np

        for template, frames in self._frames.items():
            if not frames:
                continue
            array = np.frombuffer(b"".join(frames), _dtype(len(template.keys)))
            frames.clear()
            self._chunks.setdefault(template, []).append(array)
            for index, key in enumerate(template.keys):
                book.update(key, array["step"], array["values"][:, index])

    def columns(self) -> dict[str, Column]:
        """Return key -> its points among the folded frames."""
        import numpy as np

        gathered: dict[str, list[Column]] = {}
        for template, chunks in self._chunks.items():
            array = np.concatenate(chunks) if len(chunks) > 1 else chunks[0]
            seqs = array["seq"].astype(np.int64)
            for index, key in enumerate(template.keys):
                values = np.ascontiguousarray(array["values"][:, index])
                column = Column(array["step"], array["time"], values, seqs)
                gathered.setdefault(key, []).append(column)
        return {key: _joined(columns) for key, columns in gathered.items()}

    def extend(self, later: Packed) -> None:
        """Take over what was added to another copy after this one."""
        for template, chunks in later._chunks.items():
            self._chunks.setdefault(template, []).extend(chunks)
        for template, frames in later._frames.items():
            self._frames.setdefault(template, []).extend(frames)
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
