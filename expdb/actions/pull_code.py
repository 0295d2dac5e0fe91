"""The code of pulled runs: which commits lack a pin here, and packs taken in for them.

Invariant: a pin is set only for a commit of which every object is in this repository; what a pack
says of itself is believed by nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from expdb.actions.exchange import Item
from expdb.git.command import GitError
from expdb.git.packs import are_whole, pin_all, pinned, present, take_in
from expdb.git.stores import pinning
from expdb.git.worktree import WorkTree
from expdb.store import files
from expdb.store.remote_code import closure, commits_in, read_packs
from expdb.store.remote_place import Place
from expdb.store.store import Store


def lacking_pins(items: Sequence[Item], worktree: WorkTree | None) -> set[str]:
    """Return the commits of runs that have no pin in this repository."""
    if worktree is None:
        return set()
    found = {commit for item in items if item.is_there for commit in item.commits}
    return found - pinned(worktree)


def pull_code(
    items: Sequence[Item],
    place: Place,
    store: Store,
    worktree: WorkTree | None,
    need: set[str],
    notes: list[str],
    *,
    dry_run: bool,
) -> tuple[int, tuple[str, ...]]:
    """Take in the packs of the commits that lack a pin, and pin them; return how many, and the runs
    whose code is not here afterwards.
    """
    wanted = {item.run: item.commits for item in items if item.is_there}
    if worktree is None:
        if any(wanted.values()):
            notes.append("no code was pulled: not in a git repository")
        return 0, tuple(run for run, commits in wanted.items() if commits)
    packs = read_packs(place)
    try:
        lacking = need - present(worktree, need)
        if dry_run:
            got = need - (lacking - commits_in(packs))
        else:
            with pinning(worktree, store.id, store.root):
                names = [name for name, pack in packs.items() if pack.commits & lacking]
                for name in closure(packs, names):
                    _take_in(worktree, packs[name].path, packs[name].commits, notes, name)
                got = _whole(worktree, present(worktree, need))
                pin_all(worktree, got)
    except GitError as error:
        notes.append(f"no code was pulled: {error.message}")
        got = set()
    left = need - got
    return len(got), tuple(run for run, commits in wanted.items() if commits & left)


def _take_in(
    worktree: WorkTree, path: Path | None, commits: Collection[str], notes: list[str], name: str
) -> None:
    if path is None or present(worktree, commits) == commits:
        return
    try:
        take_in(worktree, path)
    except (GitError, OSError) as error:
        said = error.message if isinstance(error, GitError) else files.reason(error)
        notes.append(f"refused: code/{name}: {said}")


def _whole(worktree: WorkTree, commits: set[str]) -> set[str]:
    """Return those of some commits of which every object is here."""
    if are_whole(worktree, commits):
        return commits
    return {one for one in commits if are_whole(worktree, [one])}
