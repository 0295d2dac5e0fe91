"""Durable file operations: write whole, fsync, rename, fsync the folder.

Invariant: a reader sees the old file or the new one, never half of one; temporary names start with `.tmp-`
and match no glob of ours.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from expdb.errors import Conflict, Corrupt


def fsync_dir(path: Path) -> None:
    """Make the entries of a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def temp_path(path: Path) -> Path:
    """Return a fresh temporary name beside `path`."""
    return path.with_name(f".tmp-{path.name[:100]}-{secrets.token_hex(4)}")


def write_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace `path` by `data` in one step; with `durable` it survives a power loss."""
    temp = temp_path(path)
    try:
        with temp.open("xb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temp, path)
    except OSError:
        temp.unlink(missing_ok=True)
        raise
    if durable:
        fsync_dir(path.parent)


def create_bytes(path: Path, data: bytes) -> None:
    """Create `path` with `data`; it appears whole or not at all.

    Raises:
        FileExistsError: the name is taken.
    """
    temp = temp_path(path)
    with temp.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(temp, path)
    finally:
        temp.unlink()
    fsync_dir(path.parent)


def encode_json(value: Any) -> bytes:
    """Return strict JSON with non-finite numbers as the strings NaN, Infinity, -Infinity."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


def plain(value: Any) -> Any:
    """Return `value` with non-finite floats replaced by their documented strings."""
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def number(value: Any) -> float:
    """Return a float written by `encode_json`, the three strings included."""
    return float(value)


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Replace `path` by `value` as strict JSON."""
    write_bytes(path, encode_json(value), durable=durable)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in `path`.

    Raises:
        Corrupt: the file holds something else.
        FileNotFoundError: there is no such file.
    """
    data = path.read_bytes()
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        found = "is empty" if not data else f"is not JSON ({error})"
        raise Corrupt(f"{path.name} {found}", hint=f"the file: {path}") from error
    if not isinstance(value, dict):
        raise Corrupt(f"{path.name} holds no JSON object", hint=f"the file: {path}")
    return value


@contextmanager
def exclusive(path: Path, *, what: str) -> Iterator[None]:
    """Hold the lock file `path` (O_EXCL) for the length of the block.

    A lock left behind by a dead process of this host is taken over.

    Raises:
        Conflict: a live process holds it.
    """
    from expdb.store import owner

    path.parent.mkdir(parents=True, exist_ok=True)
    me = encode_json(owner.describe())
    for _ in range(3):
        try:
            create_bytes(path, me)
            break
        except FileExistsError:
            try:
                holder = read_json(path)
            except FileNotFoundError:
                continue
            if owner.is_dead(holder):
                path.unlink(missing_ok=True)
                continue
            raise Conflict(
                f"{what} is held by process {holder.get('pid')} on"
                f" {'this host' if holder.get('host') == socket.gethostname() else 'another host'}",
                hint=f"if that process is gone: rm {path}",
            ) from None
    else:
        raise Conflict(f"{what} is being taken by others", hint="try again")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
