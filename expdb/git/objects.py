"""Git objects: ids of files as they stand, file bytes as git would write them, commits and refs of
expdb's own.

Invariant: commits made here depend on nothing but tree, parents and message, so equal code on equal
parents is one commit; refs are only ever written below `refs/expdb/`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from expdb.git.command import GitError
from expdb.git.worktree import WorkTree

REFS: Final = "refs/expdb/"

_WHO: Final[dict[str, str]] = {
    "GIT_AUTHOR_NAME": "expdb",
    "GIT_AUTHOR_EMAIL": "expdb@localhost",
    "GIT_AUTHOR_DATE": "@946684800 +0000",
    "GIT_COMMITTER_NAME": "expdb",
    "GIT_COMMITTER_EMAIL": "expdb@localhost",
    "GIT_COMMITTER_DATE": "@946684800 +0000",
}


def commit_tree(worktree: WorkTree, tree: str, parents: Sequence[str], message: str) -> str:
    """Write a commit with a fixed author and date and return its id."""
    words = [word for parent in parents for word in ("-p", parent)]
    done = worktree.git(("commit-tree", tree, *words), env=_WHO, stdin=message.encode() + b"\n")
    return done.text


def set_ref(worktree: WorkTree, name: str, commit: str) -> None:
    """Make `refs/expdb/<name>` name `commit`; several processes may do so at once.

    Raises:
        GitError: the ref cannot be written, and does not name the commit already.
    """
    try:
        worktree.git(("update-ref", REFS + name, commit))
    except GitError:
        if worktree.commit_of(REFS + name) != commit:
            raise


def drop_ref(worktree: WorkTree, name: str) -> None:
    """Remove `refs/expdb/<name>` if it is there."""
    worktree.git(("update-ref", "-d", REFS + name))


def blob_id(data: bytes, like: str) -> str:
    """Return the id of a blob, by the hash whose ids are as long as `like`."""
    algorithm = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return algorithm(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def hash_files(
    worktree: WorkTree, paths: Iterable[str], *, as_is: bool = False
) -> dict[str, str | None]:
    """Return path -> the id its regular file would have as a blob; None where it cannot be read.

    Where its filter fails, that is the id of its raw bytes, as a snapshot stores it; with `as_is`
    it is so for all.
    """
    readable: list[str] = []
    found: dict[str, str | None] = {}
    for path in paths:
        full = f"{worktree.top}/{path}"
        try:
            is_file = stat.S_ISREG(os.lstat(full).st_mode)
        except OSError:
            is_file = False
        if is_file and os.access(full, os.R_OK):
            readable.append(path)
        else:
            found[path] = None
    return {**found, **_hash_readable(worktree, readable, as_is=as_is)}


def _hash_readable(
    worktree: WorkTree, paths: list[str], *, as_is: bool = False
) -> dict[str, str | None]:
    if not paths:
        return {}
    lines = b"".join(quoted(path) + b"\n" for path in paths)
    words = ("hash-object", *(("--no-filters",) if as_is else ()), "--stdin-paths")
    done = worktree.git(words, stdin=lines, check=False)
    if done.rc == 0:
        return dict(zip(paths, done.text.split("\n"), strict=True))
    if len(paths) == 1:
        return {paths[0]: None} if as_is else _hash_readable(worktree, paths, as_is=True)
    # One file went away or its filter failed; git stops there, so the rest is asked in halves.
    half = len(paths) // 2
    return {
        **_hash_readable(worktree, paths[:half], as_is=as_is),
        **_hash_readable(worktree, paths[half:], as_is=as_is),
    }


def quoted(path: str) -> bytes:
    """Return a path for line-wise input, in git's quotes where it needs them."""
    name = os.fsencode(path)
    if b"\n" not in name and not name.startswith(b'"'):
        return name
    return b'"' + b"".join(b"\\%03o" % byte for byte in name) + b'"'


def checked_out(worktree: WorkTree, blobs: Mapping[str, str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield (path, the bytes git would write there) for path -> blob; None where git cannot tell.

    Attributes are those of the work tree as it stands.
    """
    single = {path: blob for path, blob in blobs.items() if "\n" in path}
    many = {path: blob for path, blob in blobs.items() if path not in single}
    yield from _batch(worktree, many)
    for path, blob in single.items():
        yield path, _one(worktree, path, blob)


def _one(worktree: WorkTree, path: str, blob: str) -> bytes | None:
    done = worktree.git(("cat-file", "--filters", f"--path={path}", blob), check=False)
    return done.out if done.rc == 0 else None


def _batch(worktree: WorkTree, blobs: Mapping[str, str]) -> Iterator[tuple[str, bytes | None]]:
    if not blobs:
        return
    # The size in git's header is that before filters, so an unknown name behind each blob ends it.
    mark = f"end-{os.urandom(16).hex()}"
    lines = b"".join(
        f"{blob} ".encode() + os.fsencode(path) + f"\n{mark}\n".encode()
        for path, blob in blobs.items()
    )
    done = worktree.git(("cat-file", "--batch", "--filters"), stdin=lines, check=False)
    answers = done.out.split(f"{mark} missing\n".encode())
    if done.rc != 0 or len(answers) != len(blobs) + 1:
        for path, blob in blobs.items():
            yield path, _one(worktree, path, blob)
        return
    for path, answer in zip(blobs, answers, strict=False):
        header, _, data = answer.partition(b"\n")
        yield path, None if header.endswith(b" missing") else data.removesuffix(b"\n")


def read_file(path: Path) -> bytes | None:
    """Return the bytes of a regular file, None when they cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None
