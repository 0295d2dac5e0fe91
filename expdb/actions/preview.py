"""What a change of a work tree would do, found out without a trace in the repository.

Invariant: objects that git makes on the way, index files and refs go to a temporary folder that is
removed; the code that finds the plan is the code that carries it out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from expdb.actions.plan import save_and_plan
from expdb.git.command import TIMEOUT_S, Completed
from expdb.git.restore import Blocked, PlanRow
from expdb.git.worktree import WorkTree

LEFT_OUT = ("update-ref",)
"""Git verbs that would write outside the temporary folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowTree(WorkTree):
    """A work tree whose git writes objects into `folder`, and refs nowhere."""

    folder: Path

    @property
    def private_dir(self) -> Path:
        """The temporary folder, in place of the one in the git directory."""
        return self.folder

    def git(
        self,
        args: Sequence[str],
        *,
        index: Path | None = None,
        env: dict[str, str] | None = None,
        stdin: bytes | BinaryIO | None = None,
        check: bool = True,
        timeout_s: float = TIMEOUT_S,
    ) -> Completed:
        """Run git as the work tree does, with another place for objects."""
        if args[0] in LEFT_OUT:
            return Completed(rc=0, out=b"", err="")
        here = {
            "GIT_OBJECT_DIRECTORY": str(self.folder),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.common_dir / "objects"),
            **(env or {}),
        }
        # What is thrown away need not be durable: a sync for each object would cost seconds.
        words = ("-c", "core.fsync=none", *args)
        return WorkTree.git(
            self, words, index=index, env=here, stdin=stdin, check=check, timeout_s=timeout_s
        )


def preview(
    worktree: WorkTree,
    tree: str,
    *,
    store_root: Path,
    exclude: Sequence[str],
    secret_files: Sequence[str],
    known_absent: frozenset[str] | None = None,
    kept: Mapping[str, str] = MappingProxyType({}),
) -> tuple[tuple[PlanRow, ...], tuple[Blocked, ...]]:
    """Return the plan from the work tree as it stands to `tree`, and what blocks it.

    `known_absent` and `kept` are as in `save_and_plan`: given on the way back.

    Raises:
        Refused: git's index has unresolved conflicts.
        GitError: git cannot read the repository.
    """
    with tempfile.TemporaryDirectory(prefix="expdb-preview-") as folder:
        shadow = ShadowTree(
            top=worktree.top,
            git_dir=worktree.git_dir,
            common_dir=worktree.common_dir,
            folder=Path(folder),
        )
        _, rows, blocked = save_and_plan(
            shadow,
            tree,
            op="preview",
            store_root=store_root,
            exclude=exclude,
            secret_files=secret_files,
            known_absent=known_absent,
            kept=kept,
        )
    return rows, blocked
