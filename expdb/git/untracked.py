"""Which untracked files a snapshot takes, and which it leaves out and names.

Invariant: files that git ignores, the store, and what `exclude` names are never looked into; a
secret or oversized file is left out one by one; too many files leave out all of them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from expdb.git.command import GitTimeout
from expdb.git.worktree import WorkTree
from expdb.text import count, plain, size

MAX_FILE_BYTES: Final = 10_000_000
MAX_TOTAL_BYTES: Final = 100_000_000
MAX_FILES: Final = 2_000
LIST_TIMEOUT_S: Final = 5.0

DEFAULT_EXCLUDE: Final[tuple[str, ...]] = (
    "outputs/",
    "multirun/",
    "wandb/",
    "slurm-*.out",
    "*.log",
    "__pycache__/",
    ".submitit/",
)
"""Patterns as in `.gitignore`; they leave out untracked files only."""

DEFAULT_SECRET_FILES: Final[tuple[str, ...]] = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    "credentials.json",
)
"""Patterns of names, capitals or not; such untracked files are left out and named."""

_SPECIAL = str.maketrans({char: "\\" + char for char in "\\*?[]"})


@dataclass(slots=True)
class Untracked:
    """What is to be captured, and what is not and why."""

    files: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Paths left out one by one: secret, oversized, unreadable."""
    reasons: list[str] = field(default_factory=list)


def find_untracked(
    worktree: WorkTree,
    index: Path,
    *,
    store_root: Path,
    exclude: Sequence[str],
    secret_files: Sequence[str],
) -> Untracked:
    """Return the untracked files that belong into a snapshot, seen from `index`.

    Raises:
        GitError: git cannot list them.
    """
    found = Untracked()
    try:
        names = list_untracked(worktree, index, store_root=store_root, exclude=exclude)
    except GitTimeout:
        found.reasons.append(
            f"listing untracked files took over {LIST_TIMEOUT_S:g} s: none of them is captured"
        )
        return found
    total = 0
    for name in names:
        if name.endswith("/"):
            found.reasons.append(f"{plain(name)} is a repository of its own: not captured")
            continue
        if len(found.files) > MAX_FILES:  # too many whatever they are: none is looked at any more
            found.files.append(name)
            continue
        num_bytes = _bytes_of(worktree.top / name)
        if num_bytes is None:
            found.skipped.append(name)
            found.reasons.append(f"{plain(name)} cannot be read: not captured")
        elif is_secret(name, secret_files):
            found.skipped.append(name)
            found.reasons.append(f"{plain(name)} is kept out as a secret: not captured")
        elif num_bytes > MAX_FILE_BYTES:
            found.skipped.append(name)
            found.reasons.append(
                f"{plain(name)} is untracked and {size(num_bytes)},"
                f" over {size(MAX_FILE_BYTES)}: not captured"
            )
        else:
            found.files.append(name)
            total += num_bytes
    _apply_limits(found, total)
    return found


def list_untracked(
    worktree: WorkTree, index: Path | None, *, store_root: Path, exclude: Sequence[str]
) -> list[str]:
    """Return untracked, unignored paths outside the store; a nested repository ends in a slash.

    Raises:
        GitTimeout: it took too long.
        GitError: git cannot list them.
    """
    patterns = [*exclude, *_store_patterns(worktree, store_root)]
    words = [word for pattern in patterns for word in ("-x", pattern)]
    return worktree.git(
        ("ls-files", "--others", "--exclude-standard", "-z", *words),
        index=index,
        timeout_s=LIST_TIMEOUT_S,
    ).names


def is_secret(path: str, patterns: Sequence[str]) -> bool:
    """Tell whether a pattern names the file; one that ends in a slash names a folder above it."""
    *folders, name = path.lower().split("/")
    for pattern in patterns:
        wanted = pattern.lower()
        if wanted.endswith("/"):
            if any(fnmatchcase(folder, wanted.rstrip("/")) for folder in folders):
                return True
        elif fnmatchcase(path.lower() if "/" in wanted else name, wanted.lstrip("/")):
            return True
    return False


def _store_patterns(worktree: WorkTree, store_root: Path) -> tuple[str, ...]:
    store = store_root.resolve()
    top = worktree.top.resolve()
    if store == top:
        return ("/.expdb/", "/exp=*/")
    if not store.is_relative_to(top):
        return ()
    inside = store.relative_to(top).as_posix()
    return ("/" + inside.translate(_SPECIAL) + "/",)


def _bytes_of(path: Path) -> int | None:
    """Return the size of a file or link; None when it cannot be read; 0 when it went away."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0
    except OSError:
        return None
    if stat.S_ISREG(found.st_mode) and not os.access(path, os.R_OK):
        return None
    return found.st_size


def _apply_limits(found: Untracked, total: int) -> None:
    if len(found.files) > MAX_FILES:
        reason = f"{count(len(found.files))} untracked files, over {count(MAX_FILES)}"
    elif total > MAX_TOTAL_BYTES:
        reason = f"{size(total)} of untracked files, over {size(MAX_TOTAL_BYTES)}"
    else:
        return
    found.files.clear()
    found.reasons.append(f"{reason}: none of them is captured")
