"""Commits of this repository written to one pack, and packs taken in.

Invariant: a pack is never thin: with the commits that it was made without, it has every object of
those it was made of. What is taken in is checked by git, and a ref is set only for a commit of
which every object is here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from expdb.git.objects import REFS
from expdb.git.worktree import WorkTree

TIMEOUT_S: Final = 3600.0
COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def present(worktree: WorkTree, commits: Iterable[str]) -> set[str]:
    """Return those of some ids that are commits of this repository."""
    asked = sorted({one for one in commits if COMMIT.fullmatch(one)})
    if not asked:
        return set()
    lines = "".join(f"{one}\n" for one in asked).encode()
    done = worktree.git(("cat-file", "--batch-check", "--buffer"), stdin=lines)
    answers = (line.split(" ") for line in done.text.split("\n"))
    return {words[0] for words in answers if len(words) == 3 and words[1] == "commit"}


def are_whole(worktree: WorkTree, commits: Iterable[str]) -> bool:
    """Tell whether every object that commits need is in this repository."""
    lines = "".join(f"{one}\n" for one in commits).encode()
    words = ("rev-list", "--objects", "--quiet", "--stdin", "--not", "--all")
    return worktree.git(words, stdin=lines, check=False, timeout_s=TIMEOUT_S).rc == 0


@contextmanager
def packed(
    worktree: WorkTree, commits: Collection[str], without: Collection[str], *, tag: str
) -> Iterator[Path | None]:
    """Give a pack of all that `commits` need beyond what `without` need, for the block's length.

    All are commits of this repository. None where there is nothing beyond. `tag` names who asks: of
    one who asked before and was killed, what is left goes.

    Raises:
        GitError: git cannot make it, as where a clone is partial.
        OSError: there is no space.
    """
    worktree.private_dir.mkdir(exist_ok=True)
    lines = [*sorted(commits), *(f"^{one}" for one in sorted(without))]
    folder = worktree.private_dir / f".tmp-pack-{tag}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        words = ("pack-objects", "--revs", "--quiet", "--non-empty", "--delta-base-offset")
        worktree.git(
            ("-c", "pack.packSizeLimit=0", *words, f"{folder}/objects"),
            stdin="".join(f"{line}\n" for line in lines).encode(),
            timeout_s=TIMEOUT_S,
        )
        yield next(folder.glob("objects-*.pack"), None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def take_in(worktree: WorkTree, path: Path) -> None:
    """Store the objects of a pack in this repository; git checks each by its id.

    Raises:
        GitError: it is damaged, or of a repository with other ids.
        OSError: it cannot be read.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as file:
        worktree.git(("index-pack", "--stdin"), stdin=file, timeout_s=TIMEOUT_S)


def pinned(worktree: WorkTree) -> set[str]:
    """Return the commits that have a pin."""
    done = worktree.git(("for-each-ref", "--format=%(refname)", f"{REFS}pins/"))
    return {line.rpartition("/")[2] for line in done.text.splitlines() if line}


def pin_all(worktree: WorkTree, commits: Iterable[str]) -> None:
    """Set the pin of each commit.

    Raises:
        GitError: one cannot be set; then none is.
    """
    lines = "".join(f"update {REFS}pins/{one} {one}\n" for one in sorted(set(commits)))
    if lines:
        worktree.git(("update-ref", "--stdin"), stdin=lines.encode())
