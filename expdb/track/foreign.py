"""What a file of a checkpoint holds that is not loaded: classes that no one has allowed.

Invariant: nothing here or elsewhere loads them anyway; names are read from the pickle's opcodes,
and nothing in it is called.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from zipfile import BadZipFile

from expdb import text
from expdb.errors import Unsupported

ALLOW = "if you trust who wrote it, allow them in your script:"


def refused_classes(path: Path) -> tuple[str, ...]:
    """Return the classes and functions of a file that are not loaded, as `module.name`, sorted.

    Empty where there is none, or where the file cannot be read.
    """
    from torch.serialization import get_unsafe_globals_in_checkpoint

    try:
        return tuple(sorted(set(get_unsafe_globals_in_checkpoint(path))))
    except (OSError, RuntimeError, ValueError, EOFError, BadZipFile, pickle.UnpicklingError):
        return ()


def unsupported(where: str, paths: Iterable[Path]) -> Unsupported | None:
    """Return the error for a checkpoint that holds classes nobody has allowed, file by file; None
    where all files are plain.
    """
    found = {path.name: refused_classes(path) for path in paths}
    details = tuple(
        f"{name} holds {', '.join(map(text.plain, names))}"
        for name, names in found.items()
        if names
    )
    if not details:
        return None
    names = sorted({name for one in found.values() for name in one})
    return Unsupported(
        f"{where} holds what is not loaded, since loading it can run code:"
        f" {', '.join(map(text.plain, names))}",
        details=details,
        hint=f"{ALLOW} torch.serialization.add_safe_globals([{', '.join(map(text.plain, names))}])",
    )
