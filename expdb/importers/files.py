"""Which importer reads a file: as a person says, else by its name, else by how it begins."""

from __future__ import annotations

import codecs
import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from expdb import tfevents
from expdb.errors import BadInput
from expdb.importers.found import Found, Source
from expdb.importers.lines import opened
from expdb.text import plain

HEAD_BYTES: Final = 65_536


def _csv(source: Source) -> Found:
    from expdb.importers.csv_ import read

    return read(source)


def _jsonl(source: Source) -> Found:
    from expdb.importers.jsonl import read

    return read(source)


def _json(source: Source) -> Found:
    from expdb.importers.jsonl import read_document

    return read_document(source)


def _parquet(source: Source) -> Found:
    from expdb.importers.parquet import read

    return read(source)


def _log(source: Source) -> Found:
    from expdb.importers.text_log import read

    return read(source)


def _trainer_state(source: Source) -> Found:
    from expdb.importers.trainer_state import read

    return read(source)


def _tensorboard(source: Source) -> Found:
    from expdb.importers.tensorboard import read

    return read(source)


READERS: Final[Mapping[str, Callable[[Source], Found]]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "json": _json,
    "parquet": _parquet,
    "log": _log,
    "trainer_state": _trainer_state,
    "tensorboard": _tensorboard,
}
SUFFIXES: Final = {
    ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
}  # fmt: skip
BINARY: Final = ("parquet", "tensorboard")

MARKS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"), (codecs.BOM_UTF16_BE, "UTF-16"),
)  # fmt: skip
"""How a text begins that says its encoding itself."""


def format_of(source: Source) -> str:
    """Return the format that a file is read in.

    Raises:
        BadInput: the file cannot be read.
    """
    if source.reading.format:
        return source.reading.format
    if source.reading.pattern or source.reading.regex:
        return "log"
    name = source.path.name.removesuffix(".gz").lower()
    for suffix, found in SUFFIXES.items():
        if name.endswith(suffix):
            return found
    try:
        with opened(source.path) as file:
            head = file.read(HEAD_BYTES)
    except (OSError, EOFError) as error:
        raise BadInput(f"{plain(source.path.name)} cannot be read: {error}") from error
    if head.startswith(b"PAR1"):
        return "parquet"
    if tfevents.is_first(head):
        return "tensorboard"
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "log"
    if _is_object(head.split(b"\n", 1)[0]):
        return "jsonl"
    return "json" if b'"schema_version"' in head else "trainer_state"


def name_of(path: Path, format: str) -> str:
    """Return the name that says what a run is: that of the file, or of the folder of an event file,
    which has a moment and a host in its own.
    """
    return path.absolute().parent.name or path.name if format == "tensorboard" else path.name


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def find(source: Source, format: str) -> Found:
    """Return what a file holds; its steps are read as they are asked for.

    Raises:
        BadInput: it is not of that format, or a text that is not UTF-8.
    """
    if format not in BINARY:
        _require_utf8(source.path)
    return READERS[format](source)


def _require_utf8(path: Path) -> None:
    """Refuse a text of another encoding where its first bytes tell.

    Raises:
        BadInput: it is UTF-16 or UTF-32, or has zero bytes.
    """
    with opened(path) as file:
        head = file.read(HEAD_BYTES)
    found = next((name for mark, name in MARKS if head.startswith(mark)), "")
    if not found and b"\0" in head:
        even, odd = head[::2].count(0), head[1::2].count(0)
        if max(even, odd) < len(head) // 8:
            return  # text all the same: a log that a crash padded with zero bytes
        found = "UTF-16LE" if odd > even else "UTF-16BE"
    if found:
        packed = f"gunzip -c {shlex.quote(path.name)} | " if path.suffix == ".gz" else ""
        name = "" if packed else f" {shlex.quote(path.name)}"
        raise BadInput(
            f"{plain(path.name)} is {found} text, not UTF-8",
            hint=plain(f"{packed}iconv -f {found} -t UTF-8{name} > NEW"),
        )


def existing(path: Path) -> Path:
    """Return a path that is a file.

    Raises:
        BadInput: there is none.
    """
    if path.is_dir():
        inside = shlex.quote(plain(str(path)))
        raise BadInput(f"the file {plain(str(path))} is a folder", hint=f"all in it: {inside}/*")
    if not path.is_file():
        raise BadInput(f"the file {plain(str(path))} does not exist")
    return path
