"""What the verbs of change return: frozen values, ready to be printed or written as JSON.

Invariant: nothing here reads or writes a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from expdb.model import Checkpoint, Event, Op, Run, RunAt
from expdb.query.compare_results import ConfigDiff
from expdb.query.target import Target

Action = Literal["create", "change", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPath:
    """One path that a rollback or an undo touches."""

    path: str
    action: Action
    note: str = ""
    """What it is now: `edited`, `untracked`, `staged`, `deleted here`, `committed in 7c1e88a`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPath:
    """One path that stops a rollback."""

    path: str
    reason: str
    """`ignored by git: no copy of it exists, 212 kB`."""
    savable: bool
    """Whether `--force` can save it first: a single file; never a folder."""
    loses: bool = True
    """Whether something saved nowhere would be lost; else the goal cannot be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """What a rollback would do; nothing is written yet."""

    target: Target
    """Run, step and the lines that say why."""
    commit: str
    """The commit whose tree is the code."""
    tree: str
    base_commit: str
    """The commit that the run was started on; equal to `commit` unless its work tree was dirty."""
    branch: str | None
    """The present branch, `detached`, or None before the first commit."""
    head_commit: str | None
    num_edits: int
    """Edited, staged and untracked files of the work tree."""
    paths: tuple[PlanPath, ...]
    """By path; the blocked ones included."""
    blocked: tuple[BlockedPath, ...]
    own_paths: tuple[str, ...]
    """Paths of expdb's own code that would change."""
    config_of: Run | None
    """The newest run of this work tree, which `config` is told against; None when there is none."""
    config: tuple[ConfigDiff, ...]
    """The keys that differ, each with (value of `config_of`, value of the target)."""
    checkpoint: Checkpoint
    checkpoint_path: str
    """Relative to the store, with forward slashes."""
    nothing_to_do: bool
    """The work tree equals the target, and HEAD is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResult:
    """A rollback (or an undo) that was carried out, continued or aborted."""

    op: str
    how: Literal["done", "continued", "aborted"]
    kind: Literal["rollback", "undo"]
    what: str
    """`rollback to k3f9 baseline@300`."""
    num_paths: int
    num_left: int
    """How many of them were still to do when it was continued or aborted; else `num_paths`."""
    tree: str
    """The verified tree."""
    undo_ref: str
    """The git ref that keeps the former work tree: `refs/expdb/undo/<op>`."""
    seconds: float
    plan: RollbackPlan | None = None
    """None when continued or aborted: the begin-op has the paths."""
    run: str | None = None
    step: int | None = None
    saved_refs: tuple[str, ...] = ()
    """Git refs that keep edits made since it stopped (`--continue --force`)."""
    edited_outside: tuple[str, ...] = ()
    """Tracked paths outside the plan that were edited meanwhile; they were left as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeResult:
    """A fresh git work tree at the code of a run."""

    path: str
    target: Target
    commit: str
    tree: str
    op: str
    checkpoint: Checkpoint
    checkpoint_path: str
    branch: str | None = None
    submodules: tuple[str, ...] = ()
    """Paths of submodules, whose files git does not bring along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    """What an undo brought back."""

    op: str
    """The undo's own op, which can be undone in turn."""
    undone: Op
    """The op that was undone (its begin, where it has two)."""
    num_changed: int = 0
    num_created: int = 0
    num_deleted: int = 0
    num_staged: int = 0
    """Paths that are staged again, as they were."""
    head: RunAt | None = None
    """expdb's HEAD now; None: it follows the baseline."""
    ref: str = ""
    """The ref that moved, for an op on refs."""
    ref_before: RunAt | None = None
    ref_after: RunAt | None = None
    record: tuple[str, str] | None = None
    """What it was about and what was done, for an op on marks or the trash."""
    seconds: float = 0.0

    @property
    def num_paths(self) -> int:
        """How many paths were restored."""
        return self.num_changed + self.num_created + self.num_deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedOp:
    """An op of this work tree that was cut off, or that another process is at."""

    op: Op
    num_done: int
    num_paths: int
    is_alive: bool
    """Another process of this host is at it now."""

    @property
    def line(self) -> str:
        """One line without the age: `rollback to k3f9@300 stopped after 2 of 4 paths`."""
        if self.is_alive:
            return f"{self.op.what} is under way in another process"
        if not self.num_paths:
            return f"{self.op.what} stopped at its end"
        return f"{self.op.what} stopped after {self.num_done} of {self.num_paths} paths"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """One op as `expdb ops` lists it; begin and end are one row."""

    id: str
    kind: str
    created_at_ms: int
    what: str
    num_paths: int | None
    """None for an op on refs."""
    state: Literal["done", "unfinished", "aborted"]
    undone_by: str | None
    """The undo that took it back and is in force; None when it stands."""
    can_undo: bool
    is_here: bool
    """The newest op of this work tree: where it stands."""
    other_work_tree: bool
    who: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineResult:
    """The ref `baseline`, before and after; `op` is None when nothing was written."""

    before: RunAt | None
    after: RunAt | None
    op: str | None
    run: Run | None
    """The run it is at now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePlan:
    """The command that takes up a run again."""

    argv: tuple[str, ...]
    cwd: str
    run: Run
    step: int | None
    """The checkpoint it starts from; None: from the start."""
    note: str = ""
    """One line for people: `resumes at step 200`, `no checkpoint: starts from scratch`."""
    question: str = ""
    """What to ask first; empty when nothing is in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunPlan:
    """The command that runs again what a run did, as a new run."""

    argv: tuple[str, ...]
    cwd: str
    run: Run
    code: str
    """How the code of now differs from the run's pin, in one line; empty when it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagResult:
    """A tag, before and after."""

    name: str
    before: RunAt | None
    after: RunAt | None
    op: str
    run: Run | None
    """The run it names, or named; None when that is not in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRow:
    """One tag as `expdb tag` lists it."""

    name: str
    at: RunAt
    run: Run | None
    """None when it is not in the store."""
    created_at_ms: int | None
    """When the tag was made; None when its op is not here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkResult:
    """A label or a note that was put on runs, or taken off."""

    kind: Literal["label", "note"]
    text: str
    removed: bool
    runs: tuple[Run, ...]
    """The runs that changed, as they were before."""
    same: tuple[Run, ...]
    """The named runs that were so already."""
    op: str | None
    """None when nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AckResult:
    """Events of one run that were acknowledged."""

    run: Run
    events: tuple[Event, ...]
    """Those that were open, as they were before."""
    num_same: int
    """How many of the named events were acknowledged already."""
    op: str | None
    """None when nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePlan:
    """Runs that may go to the trash."""

    runs: tuple[Run, ...]
    bytes: Mapping[str, int]
    """Run -> bytes of all its files."""
    children: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Run -> other runs that have it as parent, or were forked from it."""

    @property
    def total(self) -> int:
        """Bytes of all of them."""
        return sum(self.bytes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveResult:
    """Runs that were moved into the trash, or out of it."""

    op: str
    into: bool
    runs: tuple[tuple[str, str], ...]
    """(id, name) of each."""
    bytes: int
    kept: tuple[str, ...] = ()
    """Those that the store had again already, with the same content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlResult:
    """A request to a live run, and what the run did about it."""

    run: Run
    attempt: int
    verb: str
    asked_at_ms: int
    ended: str = ""
    """How the run ended before it answered; empty while it lives."""
    done_at_ms: int | None = None
    """None when it has not answered within the time."""
    done_step: int | None = None
    ok: bool = False
    """Whether it was done as asked."""
    outcome: str = ""
    """What the run says it did: `checkpoint saved`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitResult:
    """A store that was made, or was there."""

    path: str
    id: str
    created: bool
