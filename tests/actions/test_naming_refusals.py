"""Verbs that write stop while an op of this work tree is cut off, and leave HEAD where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from expdb.actions.label import set_label
from expdb.actions.note import add_note
from expdb.actions.restore import restore
from expdb.actions.rm import plan_removal, remove
from expdb.actions.tag import add_tag, remove_tag
from expdb.actions.undo import undo
from expdb.errors import BadInput, Refused
from expdb.index.reader import open_reader
from expdb.model import Op
from expdb.query.declared import declared
from expdb.query.lookup import lookup
from expdb.store import ops
from expdb.store.head import Head, write_head

if TYPE_CHECKING:
    from conftest import World


def test_while_an_op_is_cut_off_nothing_is_written(world: World) -> None:
    run, other = world.run(), world.run("exp01")
    tree = world.worktree
    with open_reader(world.store) as reader:
        at = lookup(reader, run)
        add_tag(reader, "old", at, worktree=tree)
        with pytest.raises(BadInput, match="b cannot be a tag: an experiment is called so"):
            add_tag(reader, "b", at, worktree=tree, declared=declared([tree.top]))
        gone = plan_removal(reader, [other], worktree=tree)
        remove(reader, gone, worktree=tree)
        begin = Op(id="w8e2m4x7qk", kind="rollback", phase="begin", what="rollback to x")
        ops.write_op(world.store.layout, begin)
        mark = ops.Marker(
            op=begin.id, store=str(world.store.root), kind="rollback", what="x", created_at_ms=1
        )
        ops.mark_unfinished(world.git_dir, mark)
        before = world.everything()
        verbs: list[Callable[[], object]] = [
            lambda: add_tag(reader, "new", at, worktree=tree),
            lambda: remove_tag(reader, "old", worktree=tree),
            lambda: set_label(reader, [run], "keep", worktree=tree),
            lambda: add_note(reader, at, "text", worktree=tree),
            lambda: remove(reader, gone, worktree=tree),
            lambda: restore(reader, worktree=tree),
            lambda: undo(reader, tree),
        ]
        for verb in verbs:
            with pytest.raises(Refused, match="rollback to x stopped at its end"):
                verb()
        assert world.everything() == before


def test_the_run_at_head_stays(world: World) -> None:
    run = world.run()
    write_head(world.git_dir, Head(run=run, step=300, op="w8e2m4x7qk"))
    with open_reader(world.store) as reader:
        with pytest.raises(Refused, match=f"{run[:4]} baseline is HEAD of this work tree"):
            plan_removal(reader, [run], worktree=world.worktree)
        write_head(world.git_dir, None)
        assert plan_removal(reader, [run], worktree=world.worktree).runs[0].id == run
