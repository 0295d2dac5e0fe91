"""The artifacts of a run: copies of files and folders, with their true names and hashes.

    artifacts/<encoded name>       a file, or a folder; `~2` and so on for later versions
    artifacts.jsonl                one line each: name, version, path, bytes, files, attempt

Invariant: a copy has its name before its line is written, and never changes; nothing outside the
given folder is read, and nothing outside `artifacts/` is written.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Any, BinaryIO

from expdb.errors import BadInput
from expdb.store import fields
from expdb.store.fields import Wrong
from expdb.store.files import fsync_dir, make_dir, reason, temp_path
from expdb.store.layout import RunLayout, encode_name
from expdb.store.marks import append_line
from expdb.store.records import read_lines

CHUNK = 1 << 20
FICLONE = 0x40049409
"""Share the blocks of a file with a copy, where the file system can (ioctl_ficlone(2))."""
MAX_FILES = 10_000
MAX_DEPTH = 200
SYNCED = 64
"""Of more files than this not each is synced: it would take a minute for 10,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactFile:
    """One file of an artifact; `path` is below the run folder."""

    name: str
    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One version of an artifact."""

    name: str
    version: int
    path: str
    bytes: int
    files: tuple[ArtifactFile, ...]
    attempt: int = 1
    created_at_ms: int = 0


Source = tuple[str, Path]
"""The true name below the artifact ("" for the file itself), and where it is now."""


def sources(path: Path) -> list[Source]:
    """Return the files of a path: itself, or all that is in a folder, by name.

    Raises:
        BadInput: there is no such path, or it cannot be read; something in it is neither file nor
            folder, or a link that leads out; it has too many files; the store is in it.
    """
    shown = f"the artifact {str(path)[:80]!a}"
    try:
        top = path.resolve(strict=True)
        mode = top.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        what = "is neither file nor folder" if os.path.lexists(path) else "does not exist"
        raise BadInput(f"{shown} {what}") from error
    except OSError as error:
        raise BadInput(f"{shown} cannot be read: {reason(error)}") from error
    except (RuntimeError, ValueError) as error:  # a loop of links; a zero byte in the name
        raise BadInput(f"{shown} is neither file nor folder") from error
    if stat.S_ISREG(mode):
        return [("", top)]
    if not stat.S_ISDIR(mode):
        raise BadInput(f"{shown} is neither file nor folder")
    found: list[Source] = []
    for item in _below(top, top, "", frozenset([top])):
        found.append(item)
        if len(found) > MAX_FILES:
            raise BadInput(
                f"{shown} has more than {MAX_FILES:,} files",
                hint="pack it into one file first",
            )
    return sorted(found)


def _below(top: Path, folder: Path, prefix: str, above: frozenset[Path]) -> Iterator[Source]:
    if len(above) > MAX_DEPTH:
        raise BadInput(f"{prefix[:80]!a} is more than {MAX_DEPTH} folders deep")
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise BadInput(f"{prefix[:80] or '.'!a} cannot be read: {reason(error)}") from error
    for entry in entries:
        name = f"{prefix}{entry.name}"
        real = _resolved(Path(entry.path), name)
        if entry.is_symlink() and not real.is_relative_to(top):
            raise BadInput(f"{name[:80]!a} is a link that leads out of the artifact's folder")
        mode = _mode(real, name)
        if stat.S_ISREG(mode):
            yield name, real
        elif stat.S_ISDIR(mode):
            if real in above:
                raise BadInput(f"{name[:80]!a} is a link to a folder that it is in")
            yield from _below(top, real, f"{name}/", above | {real})
        else:
            raise BadInput(f"{name[:80]!a} is neither file nor folder")


def _resolved(path: Path, name: str) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise BadInput(f"{name[:80]!a} is a link to itself") from error


def _mode(path: Path, name: str) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        raise BadInput(f"{name[:80]!a} cannot be read: {reason(error)}") from error


def add_artifact(
    layout: RunLayout, name: str, found: list[Source], *, attempt: int
) -> Artifact | None:
    """Copy files into the run under a name; None when its newest version is the same.

    Raises:
        OSError: the store cannot be written; no version was added.
        BadInput: a file cannot be read, a name is not UTF-8 text, or the store is among the files.
    """
    encoded = encode_name(name)
    places = {true: _place(true) for true, _ in found}
    inside = layout.artifacts.resolve()
    if any(source.is_relative_to(inside) for _, source in found):
        raise BadInput(f"the artifact {name[:80]!a} has the store itself in it")
    make_dir(layout.artifacts)
    temp = temp_path(layout.artifacts / encoded)
    try:
        hashes = {
            true: _copy(source, temp / places[true] if true else temp, sync=len(found) <= SYNCED)
            for true, source in found
        }
        if not found:
            temp.mkdir()
        version = _newest(layout, name, hashes)
        if version is None:
            return None
        path, version = _put(layout, temp, encoded, version)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise BadInput(f"a path in the artifact {name[:80]!a} is too long") from error
        raise
    finally:
        _remove(temp)
    relative = path.relative_to(layout.root).as_posix()
    files = tuple(
        ArtifactFile(
            name=true,
            path=f"{relative}/{places[true]}" if places[true] else relative,
            bytes=size,
            sha256=digest,
        )
        for true, (size, digest) in hashes.items()
    )
    artifact = Artifact(
        name=name,
        version=version,
        path=relative,
        bytes=sum(item.bytes for item in files),
        files=files,
        attempt=attempt,
        created_at_ms=time.time_ns() // 1_000_000,
    )
    append_line(layout.artifacts_jsonl, asdict(artifact))
    return artifact


def _place(true: str) -> str:
    return "/".join(encode_name(part) for part in true.split("/")) if true else ""


def _copy(source: Path, target: Path, *, sync: bool) -> tuple[int, str]:
    """Copy a file, sharing its blocks where that can be done, and return (bytes, sha256).

    Raises:
        BadInput: the source cannot be read.
        OSError: the copy cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # A device or pipe that took the place of the file meanwhile must not be opened and waited for.
    try:
        fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(f"{source.name[:80]!a} cannot be read: {reason(error)}") from error
    with os.fdopen(fd, "rb") as read, target.open("xb+") as written:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BadInput(f"{source.name[:80]!a} is no file any more")
        size, digest = _shared(read, written) or _streamed(read, written, source.name)
        written.flush()
        if sync:
            os.fsync(written.fileno())
    return size, digest


def _shared(read: BinaryIO, written: BufferedRandom) -> tuple[int, str] | None:
    try:
        fcntl.ioctl(written.fileno(), FICLONE, read.fileno())
        digest = hashlib.file_digest(written, "sha256")
    except OSError:
        # Not every file system does; and where shared blocks cannot be read, the copy shows whose
        # fault that is.
        written.seek(0)
        written.truncate()
        return None
    return os.fstat(written.fileno()).st_size, digest.hexdigest()


def _streamed(read: BinaryIO, written: BinaryIO, name: str) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while chunk := _chunk(read, name):
        digest.update(chunk)
        written.write(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def _chunk(read: BinaryIO, name: str) -> bytes:
    try:
        return read.read(CHUNK)
    except OSError as error:
        raise BadInput(f"{name[:80]!a} cannot be read: {reason(error)}") from error


def _newest(layout: RunLayout, name: str, hashes: dict[str, tuple[int, str]]) -> int | None:
    """Return the number of the next version; None when the newest one has the same files."""
    known = [item for item in read_artifacts(layout, []) if item.name == name]
    if not known:
        return 1
    newest = max(known, key=lambda item: item.version)
    same = {item.name: (item.bytes, item.sha256) for item in newest.files} == hashes
    return None if same else newest.version + 1


def _put(layout: RunLayout, temp: Path, encoded: str, version: int) -> tuple[Path, int]:
    """Give a whole copy its name, the next free one from `version` on."""
    while True:
        path = layout.artifacts / (encoded if version == 1 else f"{encoded}~{version}")
        try:
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, "taken", str(path))
            if temp.is_dir():
                temp.rename(path)  # another one's folder has files in it, and is not replaced
            else:
                os.link(temp, path)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            version += 1
            continue
        fsync_dir(layout.artifacts)
        return path, version


def _remove(temp: Path) -> None:
    if temp.is_dir():
        shutil.rmtree(temp, ignore_errors=True)
    else:
        temp.unlink(missing_ok=True)


def read_artifacts(layout: RunLayout, problems: list[str]) -> tuple[Artifact, ...]:
    """Return the artifacts of a run in the order in which they were added."""
    out: list[Artifact] = []
    for line, item in read_lines(layout.artifacts_jsonl, problems):
        try:
            out.append(_artifact(item))
        except Wrong:
            problems.append(f"{layout.artifacts_jsonl.name}: line {line} is damaged")
    return tuple(out)


def _artifact(item: dict[str, Any]) -> Artifact:
    files = (fields.as_mapping(file, "files") for file in fields.items(item, "files"))
    return Artifact(
        name=fields.text(item, "name"),
        version=fields.whole(item, "version", 1),
        path=fields.text(item, "path"),
        bytes=fields.whole(item, "bytes", 0),
        files=tuple(
            ArtifactFile(
                name=fields.text(file, "name"),
                path=fields.text(file, "path"),
                bytes=fields.whole(file, "bytes", 0),
                sha256=fields.text(file, "sha256", ""),
            )
            for file in files
        ),
        attempt=fields.whole(item, "attempt", 1),
        created_at_ms=fields.whole(item, "created_at_ms", 0),
    )
