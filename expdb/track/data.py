"""What is kept of the data that a run reads: a name, a digest, a size; never the data.

    sha256:        a file, whole
    tree-sha256:   a folder: name, size and SHA-256 of each file in it, by name
    sample-sha256: a file or folder over 4 GiB: sizes, and the first and last MiB of each file
    fingerprint:   a dataset that has one of its own (`_fingerprint`, or one for each split)

Digests of two kinds are never equal, so a sample is not taken for the whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from expdb.errors import BadInput

WHOLE_BYTES = 4 * 1024**3
EDGE = 1 << 20
MAX_FILES = 100_000
HINT = "run.use_data(name, path), or run.use_data(name, what, digest=...)"


def describe_data(
    dataset: Any, *, digest: str | None = None, num_bytes: int | None = None
) -> dict[str, Any]:
    """Return {"name", "digest", "bytes"} of a path, a dataset, or a name with a given digest.

    A file is hashed when no digest is given, a folder with all in it (links are followed; `files`
    says how many); past 4 GiB only the ends of each file are read.

    Raises:
        BadInput: neither a digest nor anything to take it of.
    """
    is_path = isinstance(dataset, (str, os.PathLike))
    if digest is not None:
        name = os.fspath(dataset) if is_path else _name_of(dataset)
        return {"name": str(name), "digest": digest, "bytes": num_bytes}
    if is_path:
        return _of_path(Path(dataset))
    found = _fingerprint(dataset)
    if found is None:
        raise BadInput(
            f"the data {_name_of(dataset)[:80]!r} have no digest of their own, and none is given",
            hint=HINT,
        )
    if num_bytes is None:
        size = getattr(dataset, "dataset_size", None)
        num_bytes = size if isinstance(size, int) else None
    return {"name": _name_of(dataset), "digest": f"fingerprint:{found}", "bytes": num_bytes}


def _name_of(dataset: Any) -> str:
    for name in ("builder_name", "name"):
        found = getattr(dataset, name, None)
        if isinstance(found, str) and found:
            return found
    return type(dataset).__name__


def _fingerprint(dataset: Any) -> str | None:
    own = getattr(dataset, "_fingerprint", None)
    if isinstance(own, str) and own:
        return own
    if isinstance(dataset, Mapping) and dataset:
        parts = {str(name): _fingerprint(item) for name, item in dataset.items()}
        if all(parts.values()):
            return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return None


def _of_path(path: Path) -> dict[str, Any]:
    try:
        if path.is_file():
            size = path.stat().st_size
            found = f"sha256:{_sha256(path)}" if size <= WHOLE_BYTES else _sample({"": path})
            return {"name": path.name, "digest": found, "bytes": size}
        if path.is_dir():
            return _of_folder(path)
    except OSError as error:
        raise BadInput(
            f"the data {str(path)[:80]!r} cannot be read: {error.strerror}", hint=HINT
        ) from error
    raise BadInput(
        f"the data {str(path)[:80]!r} is not a file or folder, and no digest is given", hint=HINT
    )


def _of_folder(path: Path) -> dict[str, Any]:
    files: dict[str, Path] = {}
    for name, item in _below(path, "", frozenset([path.resolve()])):
        files[name] = item
        if len(files) > MAX_FILES:
            raise BadInput(
                f"the data {str(path)[:80]!r} have more than {MAX_FILES:,} files", hint=HINT
            )
    if not files:
        raise BadInput(f"the data {str(path)[:80]!r} is a folder without a file", hint=HINT)
    files = dict(sorted(files.items()))
    total = sum(item.stat().st_size for item in files.values())
    if total > WHOLE_BYTES:
        found = _sample(files)
    else:
        lines = [[name, item.stat().st_size, _sha256(item)] for name, item in files.items()]
        found = f"tree-sha256:{hashlib.sha256(json.dumps(lines).encode()).hexdigest()}"
    return {"name": path.resolve().name, "digest": found, "bytes": total, "files": len(files)}


def _below(folder: Path, prefix: str, above: frozenset[Path]) -> Iterator[tuple[str, Path]]:
    for item in sorted(folder.iterdir()):
        real = item.resolve()
        if item.is_dir() and real not in above:
            yield from _below(item, f"{prefix}{item.name}/", above | {real})
        elif item.is_file():
            yield f"{prefix}{item.name}", item


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sample(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in files.items():
        size = path.stat().st_size
        with path.open("rb") as file:
            ends = file.read(EDGE)
            file.seek(max(size - EDGE, len(ends)))
            ends += file.read(EDGE)
        digest.update(json.dumps([name, size, hashlib.sha256(ends).hexdigest()]).encode())
    return f"sample-sha256:{digest.hexdigest()}"
