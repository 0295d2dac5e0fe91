"""What is kept of the data that a run reads: a name, a digest, a size; never the data."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from expdb.errors import BadInput


def describe_data(
    dataset: Any, *, digest: str | None = None, num_bytes: int | None = None
) -> dict[str, Any]:
    """Return {"name", "digest", "bytes"} of a path, or of a name with a given digest.

    A file is hashed whole (SHA-256) when no digest is given.

    Raises:
        BadInput: neither a digest nor a file to take it of.
    """
    path = Path(dataset) if isinstance(dataset, (str, Path)) else None
    if digest is not None:
        return {"name": str(dataset), "digest": digest, "bytes": num_bytes}
    if path is None or not path.is_file():
        raise BadInput(
            f"the data {str(dataset)[:80]!r} is not a file, and no digest is given",
            hint="run.use_data(name, path), or run.use_data(name, what, digest=...)",
        )
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "digest": f"sha256:{found}", "bytes": path.stat().st_size}
