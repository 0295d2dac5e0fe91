"""The experiments that config files declare, and the command that trains each.

Invariant: files are listed, never read; nothing is composed.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from expdb.errors import NotFound
from expdb.query.entry import FOLDER, NAME, SCRIPT, Entry, find_entry
from expdb.store.store import Store
from expdb.text import plain

GROUP = "exp"


def declared(places: Sequence[Path], store: Store | None = None) -> dict[str, str]:
    """Return experiment -> the command that trains it, by name; empty where none is declared.

    Args:
        places: the folders to look in, in order.
        store: its newest run says which script and which config it was.
    """
    try:
        entry = find_entry(places, store)
    except NotFound:
        entry = Entry(folder=places[0] / FOLDER, name=NAME)
    folder = entry.folder / GROUP
    names = sorted(
        path.relative_to(folder).as_posix().removesuffix(".yaml") for path in folder.rglob("*.yaml")
    )
    start = ["python", entry.script or SCRIPT]
    start += ["--config-name", entry.name] if entry.is_asked else []
    return {name: shlex.join([*start, f"+{GROUP}={name}"]) for name in names}


def never_run(word: str, known: Collection[str], declared: Mapping[str, str]) -> str:
    """Return how the declared experiment is trained that a word means; empty where it means none.

    `known` are the experiments that have runs.
    """
    names = [name for name in declared if name not in known]
    # What has runs is named by another hint.
    is_taken = any(name.startswith(word) for name in known)
    begins = [] if is_taken else [name for name in names if name.startswith(word)]
    close = difflib.get_close_matches(word[:200], names, n=1, cutoff=0.8)
    found = [name for name in names if name == word] or begins or close
    if not found:
        return ""
    if len(found) > 1:
        return f"declared, never run: {', '.join(map(plain, found[:3]))}"
    return f"{plain(found[0])} is declared, never run: {plain(declared[found[0]])}"
