"""A tag that training puts on a checkpoint, so that nothing removes it."""

from __future__ import annotations

import re
from contextlib import suppress

from expdb.errors import Conflict
from expdb.model import Op, RunAt
from expdb.store import ops
from expdb.store.ids import new_id
from expdb.store.refs import move_ref, read_refs
from expdb.store.store import Store


def tag_checkpoint(store: Store, run: str, step: int, why: str) -> str:
    """Give a checkpoint a name made of `why`, the run and the step, with one op; return the name.

    One that has such a name already keeps it.

    Raises:
        Conflict: every such name is taken, or another process writes it.
        OSError, Corrupt: the store cannot be written or read.
    """
    at = RunAt(run=run, step=step)
    word = re.sub(r"[^A-Za-z0-9_.+-]", "_", why).strip("-._") or "rule"
    names = [f"{word}-{some}-{step}" for some in (run[:4], run)]
    known = read_refs(store.layout)
    for name in names:
        if name in known and RunAt(run=known[name].run, step=known[name].step) == at:
            return name
    for name in names:
        op = Op(
            id=new_id(),
            kind="tag",
            created_at_ms=ops.now_ms(),
            what=f"tag {name} → {run[:4]}@{step}",
            before={"ref": name, "kind": "tag", "run": None, "step": None},
            after={"ref": name, "kind": "tag", "run": run, "step": step},
            who=ops.who(),
            host=ops.host(),
        )
        with suppress(Conflict):
            move_ref(store.layout, name, "tag", before=None, after=at, op=op)
            return name
    raise Conflict(f"the tags {names[0]} and {names[1]} are taken")
