"""The code of runs in a remote: packs of git objects, each with the commits that it has.

    DIR/code/<utc us>-<random>/pack.json      {"format", "needs", "commits": [...], "after": [...]}
                               objects.pack   absent where the packs it comes after have it all

Invariant: a pack with all that it comes `after` has every object that its commits need. It appears
whole, and never changes. What a pack says is believed by nobody: git checks its objects.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from expdb.errors import ExpdbError
from expdb.git.packs import COMMIT, packed, present
from expdb.git.worktree import WorkTree
from expdb.model import FORMAT, NEEDS
from expdb.store import fields, files
from expdb.store.ids import PATTERN, new_id
from expdb.store.remote_place import Place, is_folder, require_folder
from expdb.store.run_files import FileAt, copy_file

NAME: Final = re.compile(rf"[0-9]{{1,20}}-{PATTERN.pattern}")
OBJECTS: Final = "objects.pack"
LIST: Final = "pack.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """One pack of a remote."""

    name: str
    folder: Path
    commits: frozenset[str]
    after: tuple[str, ...]

    @property
    def path(self) -> Path | None:
        """Its objects; None where it has none."""
        path = self.folder / OBJECTS
        return path if os.path.lexists(path) else None


def read_packs(place: Place) -> dict[str, Pack]:
    """Return the packs of a remote by name, oldest first; what is no sound list is passed over."""
    found: dict[str, Pack] = {}
    try:
        names = sorted(os.listdir(place.code))  # noqa: PTH208 - names only
    except OSError:
        return found
    for name in names:
        folder = place.code / name
        if not NAME.fullmatch(name) or not is_folder(folder):
            continue
        try:
            data = files.read_json(folder / LIST)
            commits, after = fields.texts(data, "commits"), fields.texts(data, "after")
        except (ExpdbError, OSError, fields.Wrong):
            continue
        known = frozenset(one for one in commits if COMMIT.fullmatch(one))
        found[name] = Pack(name=name, folder=folder, commits=known, after=after)
    return found


def commits_in(packs: Mapping[str, Pack]) -> set[str]:
    """Return the commits that packs have."""
    return {commit for pack in packs.values() for commit in pack.commits}


def push_code(worktree: WorkTree, place: Place, commits: Collection[str], *, tag: str) -> int:
    """Write a pack of those commits that the remote lacks, and return how many they are.

    All are in this repository. `tag` names who pushes.

    Raises:
        GitError: git cannot pack them; OSError: the remote cannot be written.
    """
    packs = read_packs(place)
    new = set(commits) - commits_in(packs)
    if not new:
        return 0
    there = present(worktree, commits_in(packs))
    bases = {name for name, pack in packs.items() if pack.commits & there}
    inner = {name for base in bases for name in closure(packs, packs[base].after)}
    require_folder(place.code)
    temp = place.code / f".tmp-{tag}"
    shutil.rmtree(temp, ignore_errors=True)
    with packed(worktree, new, there, tag=tag) as path:
        temp.mkdir()
        if path is not None:
            seen = path.stat()
            copy_file(path, temp / OBJECTS, FileAt(seen.st_size, seen.st_mtime_ns))
        body = {"format": FORMAT, "needs": NEEDS, "commits": sorted(new)}
        files.write_json(temp / LIST, {**body, "after": sorted(bases - inner)})
    temp.rename(place.code / f"{time.time_ns() // 1000}-{new_id()}")
    files.fsync_dir(place.code)
    return len(new)


def closure(packs: Mapping[str, Pack], names: Collection[str]) -> list[str]:
    """Return packs and all that they come after, those first that others come after."""
    out: list[str] = []
    seen: set[str] = set()
    stack = [(name, False) for name in sorted(names, reverse=True)]
    while stack:
        name, is_done = stack.pop()
        if is_done:
            out.append(name)
        elif name not in seen and name in packs:
            seen.add(name)
            stack.append((name, True))
            stack += [(one, False) for one in packs[name].after]
    return out
