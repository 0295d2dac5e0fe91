"""Marks of runs, that is labels, notes and acknowledged events, as ops: written, and taken back by
a counter-mark.

    before  {"mark": "label" | "note" | "ack", "text",
             "runs": [those that had it, of the ones it changes]}
    after   the same, with those that have it then: one of the two lists is empty

Invariant: the op is written first, then one line a run that names the op, then the time of its
status.json. Cut off between, the same verb finishes it, and an undo takes back only what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from expdb.actions.writing import writing
from expdb.errors import NotFound, Refused
from expdb.git.worktree import WorkTree
from expdb.model import Op
from expdb.store import ops
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.store.marks import add_mark, has_mark_of, touch_status
from expdb.store.runs import find_run_dir
from expdb.store.store import Store

COUNTER: Final = {"label": "unlabel", "note": "unnote", "ack": "unack"}


def mark(
    store: Store,
    *,
    kind: str,
    text: str,
    runs: Sequence[str],
    what: str,
    worktree: WorkTree | None,
    remove: bool = False,
) -> Op:
    """Add a mark to runs, or with `remove` take it off, and write one op.

    Raises:
        NotFound: one of the runs is not in the store; nothing was written.
        Corrupt: the store cannot be written.
    """
    layouts = [RunLayout(find_run_dir(store.root, run)) for run in runs]
    op = _op(kind, text, runs, add=not remove, op_kind=kind, what=what, worktree=worktree)
    with writing(store):
        ops.write_op(store.layout, op)
        _apply(layouts, op)
    return op


def undo_mark(store: Store, op: Op, worktree: WorkTree | None) -> tuple[Op, str]:
    """Take back an op on marks; return the undo's op, and what was done in a few words.

    Raises:
        Refused: none of its runs is in the store any more.
    """
    layouts = []
    for run in _changed(op):
        try:
            layouts.append(RunLayout(find_run_dir(store.root, run)))
        except NotFound:
            continue  # in the trash, or on another store
    if not layouts:
        raise Refused(
            f"none of the runs of op {op.id} is in the store",
            hint="those in the trash: expdb rm --list",
        )
    # Cut off before its line, there is nothing to take back in that run.
    layouts = [layout for layout in layouts if has_mark_of(layout, op.id)]
    runs = [layout.id for layout in layouts]
    kind, add = str(op.before["mark"]), not op.after["runs"]
    undo = _op(
        kind,
        str(op.before["text"]),
        runs,
        add=add,
        op_kind="undo",
        what=f"undo of {op.id[:4]}",
        worktree=worktree,
        undoes=op.id,
    )
    with writing(store):
        ops.write_op(store.layout, undo)
        _apply(layouts, undo)
    text = str(op.before["text"])
    if kind == "ack":
        num = len(text.splitlines()) if runs else 0
        events = "1 event" if num == 1 else f"{num:,} events"
        return undo, f"{events} {'acknowledged' if add else 'open'} again"
    said = f"{text} " if kind == "label" else ""
    return undo, f"{said}{'on' if add else 'off'} {_runs(len(runs))}"


def _changed(op: Op) -> tuple[str, ...]:
    return tuple(str(run) for run in (*op.before["runs"], *op.after["runs"]))


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number:,} runs"


def _op(
    kind: str,
    text: str,
    runs: Sequence[str],
    *,
    add: bool,
    op_kind: str,
    what: str,
    worktree: WorkTree | None,
    undoes: str | None = None,
) -> Op:
    with_it = {"mark": kind, "text": text, "runs": list(runs)}
    without = {**with_it, "runs": []}
    return Op(
        id=new_id(),
        kind=op_kind,
        created_at_ms=ops.now_ms(),
        what=what,
        before=without if add else with_it,
        after=with_it if add else without,
        undoes=undoes,
        who=ops.who(),
        host=ops.host(),
        work_tree="" if worktree is None else str(worktree.git_dir),
    )


def _apply(layouts: Sequence[RunLayout], op: Op) -> None:
    kind = str(op.before["mark"])
    line = kind if op.after["runs"] else COUNTER[kind]
    for layout in layouts:
        add_mark(layout, line, str(op.before["text"]), op=op.id)
        touch_status(layout)
