"""Git attributes that make a file's bytes differ from the stored blob: filters and line endings.

Invariant: a path without any of these attributes, in a repository without `core.autocrlf`, has the
same bytes in the work tree as in its blob.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from expdb.git.command import TIMEOUT_S, Completed, GitError, GitTimeout, nul_joined

if TYPE_CHECKING:
    from expdb.git.worktree import WorkTree

CONVERTING: Final = ("filter", "text", "eol", "ident", "working-tree-encoding", "crlf")
ATTRIBUTE_FILE: Final = ".gitattributes"

_NOTHING: Final = frozenset({"unspecified", "unset", ""})


def attributes(
    worktree: WorkTree,
    paths: Sequence[str],
    names: Sequence[str],
    *,
    index: Path | None = None,
) -> dict[str, Mapping[str, str]]:
    """Return path -> attribute -> value for what is set; paths with nothing set are left out.

    With `index` the `.gitattributes` files of that index are asked, else those of the work tree.

    Raises:
        GitError: git cannot read the attributes.
    """
    if not paths:
        return {}
    cached = () if index is None else ("--cached",)
    done = worktree.git(
        ("check-attr", *cached, "--stdin", "-z", *names), index=index, stdin=nul_joined(paths)
    )
    found: dict[str, dict[str, str]] = {}
    fields = done.names
    for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        if value not in _NOTHING or (value == "unset" and name == "text"):
            found.setdefault(path, {})[name] = value
    return dict(found)


def filtered(
    worktree: WorkTree, paths: Sequence[str], *, index: Path | None = None
) -> dict[str, str]:
    """Return path -> name of its filter, for the paths that have one."""
    found = attributes(worktree, paths, ("filter",), index=index)
    return {path: values["filter"] for path, values in found.items()}


def drivers(worktree: WorkTree) -> tuple[str, ...]:
    """Return the names of the filters that are configured, so that git runs them."""
    names = worktree.config(r"^filter\..*\.(clean|smudge|process)$")
    return tuple(sorted({name.removeprefix("filter.").rpartition(".")[0] for name in names}))


def without_filters(names: Iterable[str]) -> tuple[str, ...]:
    """Return git options that switch the named filters off, so that raw bytes are stored."""
    return tuple(
        word
        for name in names
        for setting in (".clean=", ".smudge=", ".process=", ".required=false")
        for word in ("-c", f"filter.{name}{setting}")
    )


def despite_filters(
    worktree: WorkTree,
    words: Sequence[str],
    *,
    index: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Completed:
    """Run git; where it fails and filters are configured, run it again without them.

    Git compares files through their filters in many commands, and a required filter that fails
    ends each of them; raw bytes still tell what is edited.

    Raises:
        GitError: it fails without filters too.
    """
    try:
        return worktree.git(words, index=index, timeout_s=timeout_s)
    except GitTimeout:
        raise
    except GitError:
        names = drivers(worktree)
        if not names:
            raise
        off = (*without_filters(names), *words)
        return worktree.git(off, index=index, timeout_s=timeout_s)
