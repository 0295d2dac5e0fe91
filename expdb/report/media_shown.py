"""The media and artifacts of a run, as lines of `expdb show`."""

from __future__ import annotations

from collections.abc import Sequence

from expdb.query.media import RunMedia
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.store.artifacts import Artifact
from expdb.store.media import MediaKey
from expdb.text import plain, size

NOUNS = {"text": "text", "hist": "histogram", "table": "table", "image": "image"}
MAX_NAMES = 4


def facts(media: RunMedia) -> list[tuple[str, str]]:
    """Return what there is, in one line each; empty texts where there is nothing."""
    return [("media", _media(media.keys)), ("artifacts", _artifacts(media.artifacts))]


def _media(keys: Sequence[MediaKey]) -> str:
    parts = []
    for kind, noun in NOUNS.items():
        found = [item for item in keys if item.kind == kind]
        if found:
            count = sum(item.count for item in found)
            parts.append(f"{counted(count, noun)} in {counted(len(found), 'key')}")
    return ", ".join(parts)


def _artifacts(artifacts: Sequence[Artifact]) -> str:
    newest = {item.name: item for item in artifacts}
    if not newest:
        return ""
    total = size(sum(item.bytes for item in artifacts))
    more = f" and {len(newest) - MAX_NAMES:,} more" if len(newest) > MAX_NAMES else ""
    names = ", ".join(_name(item) for item in list(newest.values())[:MAX_NAMES])
    return f"{names}{more}; {total}"


def _name(item: Artifact) -> str:
    version = f" (version {item.version})" if item.version > 1 else ""
    num = len(item.files)
    # A folder has files with names of their own, or none.
    is_file = num == 1 and not item.files[0].name
    return f"{item.name}{version}" if is_file else f"{item.name}/ ({counted(num, 'file')}){version}"


def lines(media: RunMedia, style: Style) -> list[str]:
    """Return one line a key of media, and one a version of an artifact: for `--all`."""
    columns = (
        Column(head="kind"),
        Column(head="key", cut="middle"),
        Column(head="count", right=True),
        Column(head="where", cut="end"),
    )
    rows = [
        _row(item.kind, item.key, f"{item.count:,}", _steps(item.first_step, item.last_step))
        for item in media.keys
    ]
    rows += [_row("artifact", _name(item), size(item.bytes), item.path) for item in media.artifacts]
    return lay_out(Grid(columns, tuple(rows), (" ",) * len(rows)), style) if rows else []


def _row(*texts: str) -> tuple[Cell, ...]:
    return tuple(Cell(plain(text)) for text in texts)


def _steps(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"
