from __future__ import annotations

from typing import TYPE_CHECKING

from expdb.actions.rollback import execute, prepare
from expdb.actions.undo import undo
from expdb.store.head import read_head
from expdb.store.ops import read_ops

if TYPE_CHECKING:
    from conftest import World


def edit(world: World) -> None:
    """Leave edits of every kind: committed, staged, untracked, deleted, of modes and links."""
    world.write({"conf/exp/b.yaml": "b: 2\n", "new/committed.py": "c = 1\n"})
    world.commit("second")
    world.write({"train.py": "lr = 2\n"})
    world.git("add", "train.py")
    world.write({"train.py": "lr = 3\n", "model.py": None, "zloss.py": "z = 1\n", "a b/ü.txt": "x"})
    (world.top / "tools/run.sh").chmod(0o644)
    (world.top / "link").symlink_to("train.py")
    world.write({"staged.py": "s = 1\n", "venv/lib.py": "keep", "data.bin": b"\0keep"})
    world.git("add", "staged.py")
    (world.top / "private.txt").write_text("mine")
    (world.top / "private.txt").chmod(0o600)


def test_rollback_restores_the_pinned_tree_and_undo_everything(world: World) -> None:
    target = world.disk()
    run = world.run()
    edit(world)
    before, staged, status = world.disk(), world.staged(), world.status()
    head = world.git("rev-parse", "HEAD")
    with world.reader() as reader:
        plan = prepare(reader, world.worktree, run)
        assert {row.path: (row.action, row.note) for row in plan.paths} == {
            "train.py": ("change", "edited"),
            "model.py": ("create", "deleted here"),
            "conf/exp/b.yaml": ("change", f"committed in {head[:7]}"),
            "new/committed.py": ("delete", f"committed in {head[:7]}"),
            "zloss.py": ("delete", "untracked"),
            "a b/ü.txt": ("delete", "untracked"),
            "tools/run.sh": ("change", "edited"),
            "link": ("delete", "untracked"),
            "staged.py": ("delete", "staged"),
            "private.txt": ("delete", "untracked"),
        }
        result = execute(reader, world.worktree, plan)
    assert result.num_paths == 10
    kept = {"venv/lib.py", "data.bin"}
    assert {k: v for k, v in world.disk().items() if k not in kept} == target
    assert {k: v for k, v in world.disk().items() if k in kept} == {
        k: v for k, v in before.items() if k in kept
    }
    assert world.git("rev-parse", "HEAD") == head
    assert world.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert world.git("write-tree") == plan.tree
    found = read_head(world.git_dir)
    assert found is not None
    assert (found.run, found.step, found.op) == (run, 300, result.op)
    with world.reader() as reader:
        back = undo(reader, world.worktree)
    assert (back.num_changed, back.num_created, back.num_deleted) == (3, 6, 1)
    assert world.disk() == before
    assert world.staged() == staged
    assert world.status() == status
    assert read_head(world.git_dir) is None
    assert [op.phase for op in read_ops(world.store.layout)] == ["begin", "end", "begin", "end"]
