"""States of files as they would be under other `.gitattributes` than those on disk."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from expdb.git.attributes import ATTRIBUTE_FILE
from expdb.git.disk import Kind, State, kind_of, state_on_disk
from expdb.git.worktree import WorkTree


def states_under(
    worktree: WorkTree,
    rules: Mapping[str, State | None],
    wanted: Mapping[str, str],
    *,
    modes: bool,
) -> dict[str, State | Kind]:
    """Return the `state_on_disk` of the wanted paths as if the attribute files `rules` were there.

    Git takes attributes from the work tree, so the files are looked at in a small copy of it.

    Raises:
        GitError: the content of a rule is not in the repository.
    """
    if not wanted:
        return {}
    worktree.private_dir.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix=".tmp-mirror-", dir=worktree.private_dir) as folder:
        mirror = replace(worktree, top=Path(folder))
        for path in wanted:
            _copy(worktree.top, mirror.top, path)
        for path in {rule for name in wanted for rule in _rules_above(name)}:
            if path not in rules:
                _copy(worktree.top, mirror.top, path)
            elif (state := rules[path]) is not None:
                data = worktree.git(("cat-file", "blob", state[1])).out
                (mirror.top / path).parent.mkdir(parents=True, exist_ok=True)
                (mirror.top / path).write_bytes(data)
            else:
                (mirror.top / path).unlink(missing_ok=True)
        return state_on_disk(mirror, wanted, modes=modes)


def _rules_above(path: str) -> list[str]:
    folders = path.split("/")[:-1]
    return ["/".join([*folders[:depth], ATTRIBUTE_FILE]) for depth in range(len(folders) + 1)]


def _copy(top: Path, mirror: Path, path: str) -> None:
    kind = kind_of(top, path)
    if kind in ("file", "link"):
        (mirror / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(top / path, mirror / path, follow_symlinks=False)
    elif kind == "folder":
        (mirror / path).mkdir(parents=True, exist_ok=True)
