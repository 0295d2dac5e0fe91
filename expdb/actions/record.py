"""What the begin-op of a change of a work tree records: both states and the plan between them.

    before  {"tree", "commit", "index": op, "head": {run, step, op} or null, "modes": {path: bits},
             "raw": {path: blob}}
    after   the same, "index" null where the index becomes the tree, and
            "plan": [[path, action, [mode, blob] or null, [mode, blob] or null], ...],
            "exclude", "secret_files": what the snapshot left out

Invariant: the begin-op alone is enough to finish the change or to take it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from expdb.errors import Corrupt
from expdb.git.restore import PlanRow
from expdb.git.untracked import DEFAULT_EXCLUDE, DEFAULT_SECRET_FILES
from expdb.model import Op
from expdb.store.head import Head, decode_head


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeState:
    """One state of a work tree."""

    tree: str
    commit: str
    index: str | None
    """The op under which git's index of this state is saved; None: the index holds `tree`."""
    head: Head | None
    modes: Mapping[str, int] = field(default_factory=dict)
    """Permission bits that git does not keep, of files that the plan touches."""
    raw: Mapping[str, str] = field(default_factory=dict)
    """Blobs of bytes that git would not write back by itself, of files that the plan touches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a work tree as its begin-op records it."""

    before: TreeState
    after: TreeState
    rows: tuple[PlanRow, ...]
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    secret_files: tuple[str, ...] = DEFAULT_SECRET_FILES

    def reversed(self) -> Change:
        """Return the change that takes this one back."""
        rows = tuple(
            replace(
                row,
                action=_REVERSED[row.action],
                before=row.after,
                after=row.before,
                raw_before=row.raw_after,
                raw_after=row.raw_before,
            )
            for row in self.rows
        )
        return replace(self, before=self.after, after=self.before, rows=rows)


_REVERSED: dict[str, Any] = {"create": "delete", "delete": "create", "change": "change"}


def encode(change: Change) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `before` and `after` of the begin-op."""
    after = _encode_state(change.after)
    after["plan"] = [[row.path, row.action, row.before, row.after] for row in change.rows]
    after["exclude"] = change.exclude
    after["secret_files"] = change.secret_files
    return _encode_state(change.before), after


def decode(op: Op) -> Change:
    """Return the change that a begin-op records.

    Raises:
        Corrupt: it records none.
    """
    try:
        before, after = _decode_state(op.before), _decode_state(op.after)
        rows = tuple(
            PlanRow(
                path=path,
                action=action,
                before=_pair(was),
                after=_pair(becomes),
                raw_before=before.raw.get(path),
                raw_after=after.raw.get(path),
            )
            for path, action, was, becomes in op.after["plan"]
        )
        return Change(
            before=before,
            after=after,
            rows=rows,
            exclude=tuple(op.after["exclude"]),
            secret_files=tuple(op.after["secret_files"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"op {op.id} records no change of a work tree ({error})") from error


def _encode_state(state: TreeState) -> dict[str, Any]:
    return {
        "tree": state.tree,
        "commit": state.commit,
        "index": state.index,
        "head": None if state.head is None else state.head.encode(),
        "modes": dict(state.modes),
        "raw": dict(state.raw),
    }


def _decode_state(data: Mapping[str, Any]) -> TreeState:
    return TreeState(
        tree=str(data["tree"]),
        commit=str(data["commit"]),
        index=data["index"],
        head=decode_head(data["head"]),
        modes={str(path): int(mode) for path, mode in data["modes"].items()},
        raw={str(path): str(blob) for path, blob in data.get("raw", {}).items()},
    )


def _pair(value: Sequence[str] | None) -> tuple[str, str] | None:
    return None if value is None else (str(value[0]), str(value[1]))
