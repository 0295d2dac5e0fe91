"""The data that a run says it read, and where the files of them are now.

A run keeps the name and digest of its data, not their path. So a file is looked for under that name
where the script is, and under every path in the config that ends in it; it is taken only if its
SHA-256 is the one recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.digest import flatten
from expdb.model import Run

PREFIX = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredData:
    """One `run.use_data`."""

    role: str
    """What it was given as: `train`, `val`."""
    name: str
    digest: str
    num_bytes: int | None
    file: Path | None
    """The file that has this very content; None where there is none here."""


def declared_data(run: Run, places: Sequence[Path]) -> tuple[DeclaredData, ...]:
    """Return the data of the last attempt of a run, by role; `places` are where to look."""
    attempt = run.attempt
    data: Mapping[str, Any] = {} if attempt is None else attempt.data
    return tuple(_one(run, role, facts, places) for role, facts in sorted(data.items()))


def _one(run: Run, role: str, facts: Any, places: Sequence[Path]) -> DeclaredData:
    known = facts if isinstance(facts, Mapping) else {}
    name, digest = str(known.get("name", "")), str(known.get("digest", ""))
    size = known.get("bytes")
    is_file = digest.startswith(PREFIX)
    candidates = _candidates(run, name, places) if is_file else iter(())
    return DeclaredData(
        role=role,
        name=name,
        digest=digest,
        num_bytes=size if isinstance(size, int) else None,
        file=next((path for path in candidates if _is_it(path, digest)), None),
    )


def _candidates(run: Run, name: str, places: Sequence[Path]) -> Iterator[Path]:
    if not name or "\0" in name:
        return
    yield from (place / name for place in places)
    for value in flatten(run.canonical).values():
        if isinstance(value, str) and "\0" not in value and Path(value).name == Path(name).name:
            yield from (place / value for place in places)


def _is_it(path: Path, digest: str) -> bool:
    try:
        with path.open("rb") as file:
            return PREFIX + hashlib.file_digest(file, "sha256").hexdigest() == digest
    except OSError:
        return False


def sides_of(data: Sequence[DeclaredData]) -> tuple[list[Path], list[Path]]:
    """Return the files of training (roles that begin with `train`) and those of all other roles."""
    train = [one.file for one in data if one.file is not None and one.role.startswith("train")]
    val = [one.file for one in data if one.file is not None and not one.role.startswith("train")]
    return train, val
