"""`expdb tag`: a name for one run or run@step that never moves.

Invariant: a tag's name means nothing else in the RUN grammar, now and later as far as the store can
tell: no keyword, no experiment, no beginning of a run id.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection

from expdb.actions.baseline import ref_op
from expdb.actions.naming import at_step, named
from expdb.actions.results import TagResult, TagRow
from expdb.actions.unfinished import require_finished
from expdb.actions.writing import writing
from expdb.errors import BadInput, NotFound, Refused
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Ref, Run, RunAt
from expdb.query.target import BASELINE
from expdb.store.ops import read_ops
from expdb.store.refs import check_name, move_ref, read_ref
from expdb.store.resolve import MIN_PREFIX, Resolved
from expdb.text import plain, short_id


def tag_rows(reader: Reader) -> list[TagRow]:
    """Return every tag by name, with the run it names where that is in the store."""
    tags = [ref for ref in reader.refs.values() if ref.kind == "tag"]
    if not tags:
        return []
    made = {op.id: op.created_at_ms for op in read_ops(reader.store.layout, problems=[])}
    return [
        TagRow(
            name=ref.name,
            at=RunAt(run=ref.run, step=ref.step),
            run=_run_of(reader, ref),
            created_at_ms=made.get(ref.op),
        )
        for ref in sorted(tags, key=lambda ref: ref.name)
    ]


def add_tag(
    reader: Reader,
    name: str,
    resolved: Resolved,
    *,
    worktree: WorkTree | None = None,
    declared: Collection[str] = (),
) -> TagResult:
    """Give a run or run@step a name, and write one op; `declared` are experiments of the config.

    Raises:
        BadInput: it cannot be a name.
        Refused: the name is taken, or an op of this work tree was cut off.
    """
    store = reader.store
    _require_free(reader, check_name(name), declared)
    if worktree is not None:
        require_finished(worktree, store)
    run = reader.run(resolved.run)
    after = RunAt(run=run.id, step=resolved.step)
    op = ref_op(
        kind="tag",
        name=name,
        before=None,
        after=after,
        what=f"tag {name} → {at_step(short_id(run.id, reader.id_length), after.step)}",
        worktree=worktree,
        ref_kind="tag",
    )
    with writing(store):
        move_ref(store.layout, name, "tag", before=None, after=after, op=op)
    return TagResult(name=name, before=None, after=after, op=op.id, run=run)


def remove_tag(reader: Reader, name: str, *, worktree: WorkTree | None = None) -> TagResult:
    """Remove a tag, and write one op; its run stays.

    Raises:
        NotFound: there is no such tag.
        Refused: it is a ref, or an op of this work tree was cut off.
    """
    store = reader.store
    ref = read_ref(store.layout, name)
    if ref is None:
        raise NotFound(f"there is no tag {plain(name)}", hint="expdb tag")
    if ref.kind != "tag":
        raise Refused(
            f"{plain(name)} is a ref, not a tag", hint=f"another run: expdb {BASELINE} RUN"
        )
    if worktree is not None:
        require_finished(worktree, store)
    before = RunAt(run=ref.run, step=ref.step)
    was = at_step(short_id(ref.run, reader.id_length), ref.step)
    op = ref_op(
        kind="tag",
        name=name,
        before=before,
        after=None,
        what=f"tag {name} removed (was {was})",
        worktree=worktree,
        ref_kind="tag",
    )
    with writing(store):
        move_ref(store.layout, name, "tag", before=before, after=None, op=op)
    return TagResult(name=name, before=before, after=None, op=op.id, run=_run_of(reader, ref))


def _require_free(reader: Reader, name: str, declared: Collection[str]) -> None:
    if name == BASELINE:
        raise BadInput(
            f"{name} cannot be a tag: it is the run that others are measured against",
            hint=f"set it: expdb {BASELINE} RUN",
        )
    ref = read_ref(reader.store.layout, name)
    if ref is not None:
        raise Refused(
            f"the {ref.kind} {name} exists: {_where(reader, ref)}; a tag never moves",
            hint=f"remove it first: expdb tag -d {shlex.quote(name)}",
        )
    used = reader.rows("SELECT 1 FROM runs WHERE experiment = ? OR name = ? LIMIT 1", [name, name])
    if used or name in declared:
        raise BadInput(
            f"{name} cannot be a tag: an experiment is called so", hint="take another name"
        )
    begins = reader.rows("SELECT id FROM runs WHERE starts_with(id, ?) ORDER BY id LIMIT 1", [name])
    if begins and len(name) >= MIN_PREFIX:
        raise BadInput(
            f"{name} cannot be a tag: the id of run {begins[0][0]} begins so",
            hint="take another name",
        )


def _where(reader: Reader, ref: Ref) -> str:
    run = _run_of(reader, ref)
    who = short_id(ref.run, reader.id_length) if run is None else named(run, reader.id_length)
    return at_step(who, ref.step)


def _run_of(reader: Reader, ref: Ref) -> Run | None:
    try:
        return reader.run(ref.run)
    except NotFound:  # removed; the ref still says which it was
        return None
