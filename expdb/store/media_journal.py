"""The journal of media: texts, histograms, tables and images of one writer until they are sealed.

    attempts/<n>/media-<rank>.<k>.wal    header and frames as in the journal of points
    payload = "M" u32 length | JSON {kind, key, step, time, ...}[length] | bytes of an image

Invariant: that of the journal of points: a frame that does not check is never read as data, and
what stands whole behind it is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, Unsupported
from expdb.store import fields
from expdb.store.fields import Wrong
from expdb.store.files import encode_json
from expdb.store.journal import CRC, FRAME, JournalReader
from expdb.store.layout import RunLayout

JOURNAL = re.compile(r"media-(\d+)\.(\d+)\.wal")


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRecord:
    """One text, histogram, table or image as it was logged."""

    seq: int
    kind: str
    key: str
    step: int
    time_ms: int
    body: Mapping[str, Any]
    """The fields of its kind, but the bytes of an image."""
    blob: bytes = b""


def encode_record(
    kind: str, key: str, step: int, time_ms: int, body: Mapping[str, Any], blob: bytes = b""
) -> bytes:
    """Return the payload of a frame."""
    head = encode_json({"kind": kind, "key": key, "step": step, "time": time_ms, **body})
    return b"M" + CRC.pack(len(head)) + head + blob


class MediaReader(JournalReader):
    """Reads the whole records of one journal of media; raises as a `JournalReader` does."""

    def records(self) -> Iterator[MediaRecord]:
        """Yield all whole records, once."""
        at = self.good_bytes
        while True:
            found = self._frame_at(at)
            if found is None or found[0] <= self.last_seq:
                behind = self._frame_behind(at)
                if behind is None:
                    return
                self._note_damage()
                at, found = behind
            seq, stop = found
            record = _decoded(seq, self._data[at + FRAME.size : stop - CRC.size])
            self.last_seq, self.good_bytes, at = seq, stop, stop
            if record is None:
                self._note_damage()
                self.num_unread += 1
            else:
                self.num_frames += 1
                yield record


def _decoded(seq: int, payload: bytes) -> MediaRecord | None:
    """Return a record; None for one that makes no sense."""
    start = 1 + CRC.size
    if payload[:1] != b"M" or len(payload) < start:
        return None
    stop = start + CRC.unpack_from(payload, 1)[0]
    try:
        body = json.loads(payload[start:stop].decode("utf-8", "surrogatepass"))
        return MediaRecord(
            seq=seq,
            kind=fields.text(body, "kind"),
            key=fields.text(body, "key"),
            step=fields.whole(body, "step"),
            time_ms=fields.whole(body, "time"),
            body=body,
            blob=payload[stop:],
        )
    except (ValueError, RecursionError, TypeError, AttributeError, Wrong):
        return None


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder; none where there is no such folder."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - names only
    except (FileNotFoundError, NotADirectoryError):
        return []


def media_journals(layout: RunLayout, attempt: int) -> dict[tuple[int, int], Path]:
    """Return (rank, number) -> journal of media of one attempt, in order."""
    folder = layout.attempt(attempt)
    found = {
        (int(match[1]), int(match[2])): folder / name
        for name in names_in(folder)
        if (match := JOURNAL.fullmatch(name))
    }
    return dict(sorted(found.items()))


def read_journal(path: Path, problems: list[str] | None = None) -> list[MediaRecord]:
    """Return the records of a journal; what is wrong with it is named in `problems`, if given.

    Raises:
        FileNotFoundError: it was sealed and removed meanwhile.
        Corrupt, Unsupported: it is damaged or of a newer expdb, and no `problems` were given.
    """
    try:
        reader = MediaReader(path)
        found = list(reader.records())
    except (Corrupt, Unsupported) as error:
        if problems is None:
            raise
        problems.append(error.message)
        return []
    # A torn end may be a record that is being written at this moment: it is not there yet.
    if reader.is_damaged:
        if problems is None:
            raise Corrupt(reader.problem(), hint=f"the file: {path}")
        problems.append(reader.problem())
    return found
