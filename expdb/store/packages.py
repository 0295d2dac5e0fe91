"""The installed packages of an attempt: one file of the store for each set of them.

Invariant: a file is named by the digest of its content, so that equal sets are one file and none
ever changes; a set that cannot be kept costs the run nothing but the names in a comparison. Who
keeps a set that is there renews its time; `gc` sets aside what no run names and nobody has kept for
a day, and gives back what was kept at that moment.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from expdb.store.attempts import store_now
from expdb.store.files import fsync_dir, make_dir, read_regular, write_bytes
from expdb.store.layout import StoreLayout

FRESH_S: Final = 86_400.0
"""A set that was kept so lately may belong to a run that has not written so yet."""
FOLDER: Final = "packages"
DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")


def keep_packages(layout: StoreLayout, packages: Mapping[str, str]) -> str | None:
    """Keep name -> version in the store and return its digest; None where it cannot be kept."""
    if not packages:
        return None
    data = json.dumps(packages, sort_keys=True, ensure_ascii=True, indent=0).encode()
    name = hashlib.sha256(data).hexdigest()
    path = layout.packages(name)
    try:
        try:
            os.utime(path)
        except FileNotFoundError:
            path.parent.mkdir(exist_ok=True)
            write_bytes(path, data, durable=False)
    except OSError:
        return None
    return f"sha256:{name}"


def kept_sets(layout: StoreLayout) -> dict[str, Path]:
    """Return digest (64 hex digits) -> file of every set of the store."""
    found = sorted(layout.packages("").parent.glob("*.json"))
    return {path.stem: path for path in found if DIGEST.fullmatch(f"sha256:{path.stem}")}


def is_fresh(layout: StoreLayout, path: Path) -> bool:
    """Tell whether a set was kept within the last day, or is gone."""
    try:
        return store_now(layout.meta) - path.stat().st_mtime < FRESH_S
    except FileNotFoundError:
        return True


def set_aside(layout: StoreLayout, name: str, *, op: str) -> bool:
    """Move a set into the trash; False if it is gone, or a run has kept it meanwhile.

    Raises:
        OSError: it cannot be moved; it is where it was.
    """
    source, target = layout.packages(name), _place(layout, op, name)
    for folder in (layout.trash, target.parent.parent, target.parent):
        if not folder.is_dir():
            make_dir(folder)
    try:
        source.rename(target)
    except FileNotFoundError:
        return False
    if is_fresh(layout, target):  # kept between the look at it and the move
        target.rename(source)
        return False
    fsync_dir(target.parent)
    return True


def is_there(layout: StoreLayout, name: str, *, op: str) -> bool:
    """Tell whether a set is in the trash from that op."""
    return DIGEST.fullmatch(f"sha256:{name}") is not None and _place(layout, op, name).is_file()


def put_back(layout: StoreLayout, name: str, *, op: str) -> bool:
    """Move a set out of the trash, and say whether it was there."""
    if not is_there(layout, name, op=op):
        return False
    source = _place(layout, op, name)
    layout.packages(name).parent.mkdir(exist_ok=True)
    source.rename(layout.packages(name))
    for folder in (source.parent, source.parent.parent):
        try:
            folder.rmdir()
        except OSError:
            break  # others are in it
    return True


def in_trash(layout: StoreLayout) -> list[Path]:
    """Return the folders of sets in the trash, one for each `gc`."""
    found = sorted(layout.trash.glob(f"gc-*/{FOLDER}"))
    return [path for path in found if path.is_dir() and not path.is_symlink()]


def _place(layout: StoreLayout, op: str, name: str) -> Path:
    return layout.trash / f"gc-{op}" / FOLDER / f"{name}.json"


def read_packages(layout: StoreLayout, digest: str | None) -> dict[str, str] | None:
    """Return name -> version; None where the store does not have that set, or not whole."""
    match = DIGEST.fullmatch(digest or "")
    if match is None:
        return None
    try:
        data = layout.packages(match[1]).read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data).hexdigest() != match[1]:
        return None
    found = json.loads(data)
    if not isinstance(found, dict):
        return None
    return {str(name): str(version) for name, version in found.items()}


def bring_packages(source: Path, target: Path, digests: Iterable[str]) -> None:
    """Copy sets of packages from one folder to another that has not got them.

    A set that is not there, or not what its digest says, is left out.

    Raises:
        OSError: the target cannot be written.
    """
    for digest in digests:
        match = DIGEST.fullmatch(digest)
        if match is None or (target / f"{match[1]}.json").exists():
            continue
        try:
            data = read_regular(source / f"{match[1]}.json")
        except OSError:
            continue
        if hashlib.sha256(data).hexdigest() == match[1]:
            make_dir(target)
            write_bytes(target / f"{match[1]}.json", data)
