"""Checks of journals, those of dead writers and those that a recovery has set beside.

Invariant: a frame counts only if its own checksum holds; a damaged header costs no frame.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from expdb.errors import Corrupt, Unsupported
from expdb.store import points
from expdb.store.files import read_json, read_regular
from expdb.store.fsck.report import Notes
from expdb.store.journal import JournalReader, Values, encode_header
from expdb.store.layout import RunLayout

KEPT = re.compile(r"rank-(\d+)\.\d+\.wal\.(torn|damaged)")
"""A journal that a recovery has set beside; what is whole in it was sealed."""


def frames(layout: RunLayout, path: Path, attempt: int, rank: int) -> dict[int, list[Values]]:
    """Return seq -> values of every whole frame in a journal, also behind a damaged header.

    Nothing of a journal that is another run's, or that a newer expdb wrote.
    """
    try:
        reader = JournalReader(path)
    except (Unsupported, FileNotFoundError):
        return {}
    except Corrupt:
        try:
            reader = _behind_header(layout, path, attempt, rank)
        except (Corrupt, OSError):
            return {}
    header = reader.header
    mine = (layout.id, attempt, rank)
    if header and (header.get("run"), header.get("attempt"), header.get("rank")) != mine:
        return {}
    found: dict[int, list[Values]] = {}
    for item in reader:
        found.setdefault(item.seq, []).append(item)
    return found


def _behind_header(layout: RunLayout, path: Path, attempt: int, rank: int) -> JournalReader:
    # The frames carry their own checksums: behind a fresh header the old one is passed over like
    # any damage.
    header = encode_header(run=layout.id, attempt=attempt, rank=rank)
    with tempfile.TemporaryDirectory(prefix="expdb-") as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(header + read_regular(path))
        return JournalReader(copy)


def all_journals(layout: RunLayout, attempt: int, rank: int) -> list[Path]:
    """Return every journal of a rank, also those that a recovery has set beside."""
    kept = [
        path
        for path in entries(layout.attempt(attempt))
        if (match := KEPT.fullmatch(path.name)) and int(match[1]) == rank
    ]
    return [*points.journals(layout, attempt).get(rank, ()), *sorted(kept)]


def note_journal(
    layout: RunLayout, path: Path, attempt: int, rank: int, notes: Notes, *, open_now: bool
) -> None:
    """Note what is wrong with one journal; the end of an open one is still being written."""
    where = f"attempts/{attempt}/{path.name}"
    try:
        reader = JournalReader(path)
        for _ in reader:
            pass
    except FileNotFoundError:
        return  # sealed meanwhile
    except Unsupported as error:
        notes.say("newer", where, error.message)
        return
    except Corrupt as error:
        num = len(frames(layout, path, attempt, rank))
        rest = f"; {num:,} whole frames behind it" if num else ""
        notes.say("damaged", where, f"{error.message}{rest}", can_mend=not open_now,
                  points_lost=0 if num else 1, is_least=not num)  # fmt: skip
        return
    if reader.is_damaged or (reader.problem() and not open_now):
        lost = int(reader.is_damaged)
        notes.say("damaged", where, reader.problem(), can_mend=not open_now,
                  points_lost=lost, is_least=bool(lost))  # fmt: skip


def _kept_line(path: Path) -> str:
    name = path.name.removesuffix(".damaged")
    try:
        said = read_json(path.with_name(f"{path.name}.json")).get("problem")
    except (Corrupt, FileNotFoundError):
        said = None
    return f"{said if isinstance(said, str) else f'{name}: damaged'}; kept as {path.name}"


def note_kept(layout: RunLayout, attempt: int, notes: Notes) -> None:
    """Note the damaged journals of an attempt that a recovery has set beside."""
    for path in entries(layout.attempt(attempt)):
        match = KEPT.fullmatch(path.name)
        if match is not None and match[2] == "damaged":
            lost = _loses(layout, path, attempt, int(match[1]))
            where = f"attempts/{attempt}/{path.name}"
            what = _kept_line(path)
            notes.say("damaged", where, what, can_mend=True, points_lost=lost, is_least=bool(lost))


def _loses(layout: RunLayout, path: Path, attempt: int, rank: int) -> int:
    """Return 1 where frames of a journal are gone; a damaged header alone costs none."""
    try:
        JournalReader(path)
    except (Corrupt, Unsupported):
        return 0 if frames(layout, path, attempt, rank) else 1
    except FileNotFoundError:
        return 0
    return 1


def entries(folder: Path) -> list[Path]:
    """Return what is in a folder, by name; nothing where it cannot be looked into."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
