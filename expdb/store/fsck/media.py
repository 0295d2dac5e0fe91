"""Checks and mends media and artifacts: every byte of what a run holds beside points.

Invariant: a damaged artifact stays where it is, since its content is the user's and part of it may
still be of use; a damaged file of media can be read by nobody, and is set aside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from expdb.errors import Corrupt, Unsupported
from expdb.store import media_parts
from expdb.store.artifacts import read_artifacts
from expdb.store.fsck.checkpoints import file_damage
from expdb.store.fsck.report import Kind, Notes
from expdb.store.fsck.trash import Trash
from expdb.store.layout import RunLayout
from expdb.store.media_journal import MediaReader, media_journals
from expdb.store.writers import is_open

PART = re.compile(rf"({'|'.join(media_parts.KINDS)})-a\d+-r\d+-\d+\.parquet")
KEPT = re.compile(r"media-\d+\.\d+\.wal\.damaged")


def check_media(layout: RunLayout, numbers: Sequence[int], notes: Notes, *, is_live: bool) -> None:
    """Read all media of a run."""
    for path, why in _damaged(layout):
        notes.say("damaged", f"media/{path.name}", why, can_mend=not is_live)
    for number in numbers:
        for (rank, _), path in media_journals(layout, number).items():
            open_now = is_live or (bool(rank) and is_open(layout, number, rank))
            try:
                reader = MediaReader(path)
                for _ in reader.records():
                    pass
                said = reader.problem() if reader.is_damaged or not open_now else ""
            except FileNotFoundError:
                continue  # sealed meanwhile
            except Unsupported as error:
                notes.say("newer", f"attempts/{number}/{path.name}", error.message)
                continue
            except Corrupt as error:
                said = error.message
            if said:
                notes.say("damaged", f"attempts/{number}/{path.name}", said, can_mend=not open_now)
        for path in kept(layout, number):
            what = f"{path.name}: damaged; what was whole in it is in media/"
            notes.say("damaged", f"attempts/{number}/{path.name}", what, can_mend=not is_live)


def mend_media(layout: RunLayout, numbers: Sequence[int], trash: Trash) -> None:
    """Set aside the files of media that cannot be read, and journals that a recovery kept."""
    for path, _ in _damaged(layout):
        trash.move(path)
    for number in numbers:
        for path in kept(layout, number):
            trash.move(path.with_name(f"{path.name}.json"))
            trash.move(path)


def check_artifacts(layout: RunLayout, notes: Notes, *, is_live: bool) -> None:
    """Read every byte of every artifact, and note those that no line names."""
    found = read_artifacts(layout, [])
    _check_named(layout, {artifact.path for artifact in found}, notes, is_live=is_live)
    for artifact in found:
        for file in artifact.files:
            if not is_inside(file.path):
                notes.say("damaged", "artifacts.jsonl", f"artifacts.jsonl: {file.path} is no path")
                continue
            said = file_damage(layout.root / file.path, file.bytes, file.sha256)
            if said:
                kind: Kind = "missing" if said == "is missing" else "damaged"
                notes.say(kind, file.path, f"{file.path}: {said}")


def _check_named(layout: RunLayout, named: set[str], notes: Notes, *, is_live: bool) -> None:
    """Note artifacts without a line: their writer was cut off before it, or the line is lost."""
    try:
        there = sorted(path.name for path in layout.artifacts.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    there = [f"artifacts/{name}" for name in there if not name.startswith(".tmp-")]
    left = [path for path in there if path not in named]
    if left and not is_live:
        more = f" (and {len(left) - 1:,} more)" if len(left) > 1 else ""
        name = layout.artifacts_jsonl.name
        notes.say("unfinished", name, f"{name}: no line names {left[0]}{more}, left alone")


def is_inside(path: str) -> bool:
    """Tell whether a path of artifacts.jsonl stays among the artifacts."""
    parts = PurePosixPath(path).parts
    return len(parts) > 1 and parts[0] == "artifacts" and ".." not in parts and "\0" not in path


def kept(layout: RunLayout, attempt: int) -> list[Path]:
    """Return the damaged journals of media that a recovery has set beside."""
    try:
        there = sorted(layout.attempt(attempt).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for path in there if KEPT.fullmatch(path.name)]


def _damaged(layout: RunLayout) -> list[tuple[Path, str]]:
    try:
        there = sorted(layout.media.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    out = []
    for path in there:
        match = PART.fullmatch(path.name)
        if match is None:
            continue
        try:
            media_parts.read_part(path, match[1])
        except Corrupt as error:
            out.append((path, error.message))
        except FileNotFoundError:
            continue  # written again under the same name at this moment
    return out
