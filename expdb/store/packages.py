"""The installed packages of an attempt: one file of the store for each set of them.

Invariant: a file is named by the digest of its content, so that equal sets are one file and none
ever changes; a set that cannot be kept costs the run nothing but the names in a comparison.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from expdb.store.files import make_dir, read_regular, write_bytes
from expdb.store.layout import StoreLayout

DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")


def keep_packages(layout: StoreLayout, packages: Mapping[str, str]) -> str | None:
    """Keep name -> version in the store and return its digest; None where it cannot be kept."""
    if not packages:
        return None
    data = json.dumps(packages, sort_keys=True, ensure_ascii=True, indent=0).encode()
    name = hashlib.sha256(data).hexdigest()
    path = layout.packages(name)
    try:
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            write_bytes(path, data, durable=False)
    except OSError:
        return None
    return f"sha256:{name}"


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
