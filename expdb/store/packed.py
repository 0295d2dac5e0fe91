"""The packed copy of journal frames that a rank keeps in memory until they are sealed.

Invariant: what is added here is what was appended to the journal, or is appended next, in the same
order; turning it into columns never reads the journal again. A signal handler may raise at any
point: a frame is neither lost nor doubled by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expdb.store.parts import Column
from expdb.store.series import SeriesBook
from expdb.store.templates import Template

if TYPE_CHECKING:
    import numpy as np


class Packed:
    """Frames by template; each is its head and one V record, without the checksum.

    The owner guards `add`, `take` and the rest: only `add` and `take_back` may be called beside
    `count` and `columns`.
    """

    def __init__(self) -> None:
        self._fresh: dict[Template, list[bytes]] = {}
        self._taken: list[dict[Template, list[bytes]]] = []
        """What `take` set aside and `count` has not finished."""
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

    def take_back(self, template: Template, head: bytes) -> None:
        """Forget the frame that was added last: it had to be dropped."""
        frames = self._fresh.get(template)
        if frames and frames[-1] is head:
            frames.pop()
            self.num_points -= len(template.keys)
            self.num_bytes -= len(head)

    def take(self) -> None:
        """Set aside what was added, for `count`."""
        if self._fresh:
            self._taken, self._fresh = [*self._taken, self._fresh], {}

    def count(self, book: SeriesBook) -> None:
        """Count what was taken into the book; what is cut off here is named in its `unordered`."""
        import numpy as np

        taken = self._taken
        by_key: dict[str, list[Column]] = {}
        counted = dict(self._counted)
        for fresh in taken:
            for template, frames in fresh.items():
                if not frames:
                    continue
                array = np.frombuffer(b"".join(frames), _dtype(len(template.keys)))
                counted[template] = [*counted.get(template, ()), array]
                _gather(by_key, template, array)
        try:
            self._counted, self._taken = counted, []
            for key, columns in by_key.items():
                column = _joined(columns)
                if len(columns) > 1:  # a key of several templates: back in the order of logging
                    order = np.argsort(column.seqs, kind="stable")
                    book.update(key, column.steps[order], column.values[order])
                else:
                    book.update(key, column.steps, column.values)
        except BaseException:
            book.unordered.update(by_key)
            raise

    def columns(self) -> dict[str, Column]:
        """Return key -> its points among the counted frames."""
        import numpy as np

        by_key: dict[str, list[Column]] = {}
        for template, chunks in self._counted.items():
            _gather(by_key, template, np.concatenate(chunks) if len(chunks) > 1 else chunks[0])
        return {key: _joined(columns) for key, columns in by_key.items()}

    def joined(self, later: Packed) -> Packed:
        """Return a copy that also has what was added to another one after this one."""
        both = Packed()
        for item in (self, later):
            for template, chunks in item._counted.items():
                both._counted.setdefault(template, []).extend(chunks)
            both._taken += [*item._taken, item._fresh]
        both.num_points = self.num_points + later.num_points
        both.num_bytes = self.num_bytes + later.num_bytes
        return both


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
