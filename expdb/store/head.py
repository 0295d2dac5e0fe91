"""HEAD: where a work tree came from, in `<absolute git dir>/expdb/HEAD`.

    {"format": 1, "run": "k3f9x2m7qd", "step": 300, "op": "w8e2m4x7qk"}

Invariant: HEAD is per work tree and is replaced whole; without the file it follows the ref
`baseline`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt
from expdb.model import FORMAT, RunAt
from expdb.store import files
from expdb.store.ids import is_id
from expdb.store.locate import HEAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A run, the step that was asked for, and the op that set it."""

    run: str
    step: int | None
    op: str

    @property
    def at(self) -> RunAt:
        """The place as the queries take it."""
        return RunAt(run=self.run, step=self.step)

    def encode(self) -> dict[str, Any]:
        """Return the JSON form, for HEAD itself and for ops."""
        return {"run": self.run, "step": self.step, "op": self.op}


def head_path(git_dir: Path) -> Path:
    """Return the file of HEAD of the work tree whose git directory is `git_dir`."""
    return git_dir / "expdb" / HEAD


def read_head(git_dir: Path) -> Head | None:
    """Return HEAD, or None where it follows the baseline.

    Raises:
        Corrupt: the file is damaged.
    """
    path = head_path(git_dir)
    try:
        data = files.read_json(path)
    except FileNotFoundError:
        return None
    head = decode_head(data)
    if head is None:
        raise Corrupt(
            "expdb's HEAD of this work tree is damaged", hint=f"make it follow baseline: rm {path}"
        )
    return head


def decode_head(data: Any) -> Head | None:
    """Return the Head in its JSON form, or None when `data` holds none."""
    if not isinstance(data, dict):
        return None
    run, step, op = data.get("run"), data.get("step"), data.get("op")
    if not isinstance(run, str) or not is_id(run) or not isinstance(op, str):
        return None
    if step is not None and (not isinstance(step, int) or isinstance(step, bool)):
        return None
    return Head(run=run, step=step, op=op)


def write_head(git_dir: Path, head: Head | None) -> None:
    """Replace HEAD in one step; None makes it follow the baseline again."""
    path = head_path(git_dir)
    if head is None:
        if path.exists():
            path.unlink(missing_ok=True)
            files.fsync_dir(path.parent)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, {"format": FORMAT, **head.encode()})
