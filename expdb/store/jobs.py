"""Declared runs that a process has taken on: a claim each, from when it is queued to its end.

    .expdb/jobs/<experiment><variant>~s<seed>.json    who: host, boot, process; its job in SLURM's
                                                      queue; its work tree if it is the user's own
    .expdb/jobs/<experiment><variant>~s<seed>.log     what its process printed; kept unless it went
                                                      well
    .expdb/jobs/expdb-job-<random>/                   the work tree of a job of SLURM (`place.py`)

Invariant: a declared run has one claim, made by O_EXCL, so two processes never train it at once. A
claim counts for nothing once its process and its job in SLURM's queue are gone, and the next one
takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

from expdb.errors import Conflict, Corrupt
from expdb.store import owner
from expdb.store.files import Held, exclusive, read_json, remove_stale
from expdb.store.layout import StoreLayout, encode_name

VARIABLE: Final = "EXPDB_JOB"
"""The store that a process records in whatever its script says; set for the jobs of `run`."""

Key = tuple[str, int | None]
"""Experiment with variant, and seed."""


def file_name(key: Key) -> str:
    """Return how the files of a declared run begin; `~` is in no encoded name but a cut one."""
    name, seed = key
    return encode_name(name) + ("" if seed is None else f"~s{seed}")


def log_path(layout: StoreLayout, key: Key) -> Path:
    """Return the file of what the process of a declared run prints."""
    return layout.jobs / f"{file_name(key)}.log"


def claim(layout: StoreLayout, key: Key, *, work_tree: str = "") -> AbstractContextManager[Held]:
    """Hold a declared run; `work_tree` is the git directory of the user's own that it runs in.

    A job of SLURM holds it on where the claim names one (`owner.QUEUED_AS`) and is left.

    Raises (on entry):
        Conflict: a live process holds it.
    """
    name, seed = key
    what = name if seed is None else f"{name} seed {seed}"
    path = layout.jobs / f"{file_name(key)}.json"
    return exclusive(path, what=what, about={"work_tree": work_tree})


def is_claim(path: Path) -> bool:
    """Tell whether a file is a claim, by its name."""
    return path.suffix == ".json" and not path.name.startswith(".")


def clear(path: Path) -> None:
    """Remove a claim that counts for nothing any more."""
    with suppress(Conflict, Corrupt, OSError):
        remove_stale(path, path.stem)


def pending(layout: StoreLayout) -> Mapping[str, str]:
    """Return file name -> work tree (see `claim`) of each claim whose process may be alive."""
    found: dict[str, str] = {}
    try:
        paths = sorted(layout.jobs.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return found
    for path in paths:
        if not is_claim(path):
            continue
        try:
            claimed = read_json(path)
        except (FileNotFoundError, NotADirectoryError, Corrupt):
            continue  # released a moment ago, or no claim
        if not owner.is_dead(claimed):
            found[path.name.removesuffix(".json")] = str(claimed.get("work_tree") or "")
    return found
