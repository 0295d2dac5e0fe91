"""`rollback --worktree`: a work tree of its own at a run's code, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from expdb.actions.ops import op_rows
from expdb.actions.rollback import to_worktree
from expdb.actions.undo import undo
from expdb.errors import BadInput, ExpdbError, Refused
from expdb.git.worktree import WorkTree, find_worktree
from expdb.store.head import read_head

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.slow


def make(world: World, folder: Path, run: str, branch: str | None = None):  # type: ignore[no-untyped-def]
    with world.reader() as reader:
        return to_worktree(reader, world.worktree, folder, run, branch=branch)


def test_it_has_the_code_and_head_and_this_one_stays(world: World, tmp_path: Path) -> None:
    run = world.run()
    world.write({"train.py": "lr = 2\n", "new.py": "n\n"})
    before = world.disk(), world.status(), world.staged()
    made = make(world, tmp_path / "aside", run)
    assert (tmp_path / "aside/train.py").read_text() == "lr = 1\n"
    assert not (tmp_path / "aside/new.py").exists()
    other = find_worktree(tmp_path / "aside")
    assert isinstance(other, WorkTree)
    head = read_head(other.git_dir)
    assert head is not None
    assert (head.run, head.step, head.op) == (run, 300, made.op)
    assert (world.disk(), world.status(), world.staged()) == before
    assert read_head(world.git_dir) is None
    assert (made.branch, made.submodules) == (None, ())


def test_a_new_branch_has_a_log_and_holds_the_pinned_code(world: World, tmp_path: Path) -> None:
    world.write({"train.py": "lr = 2\n"})
    run = world.run()
    made = make(world, tmp_path / "aside", run, "again/lr2")
    assert made.branch == "again/lr2"
    assert world.git("rev-parse", "again/lr2") == made.commit
    assert world.git("show", "again/lr2:train.py") == "lr = 2"
    assert world.git("-C", str(tmp_path / "aside"), "symbolic-ref", "--short", "HEAD") == (
        "again/lr2"
    )
    assert world.git("reflog", "again/lr2") != ""


def test_submodules_are_named(
    world: World, make_world: Callable[..., World], tmp_path: Path
) -> None:
    lib = make_world("lib")
    world.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(lib.top), "lib")
    world.commit("with a submodule")
    assert make(world, tmp_path / "aside", world.run()).submodules == ("lib",)


def refused(world: World, call: Callable[[], object], kind: type[ExpdbError]) -> ExpdbError:
    before = world.everything(), world.git("worktree", "list"), world.git("branch")
    with pytest.raises(kind) as caught:
        call()
    assert (world.everything(), world.git("worktree", "list"), world.git("branch")) == before
    return caught.value


def test_places_and_names_that_are_taken(world: World, tmp_path: Path) -> None:
    run = world.run()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "empty").mkdir()
    for folder, branch, said in (
        (tmp_path / "full", None, "there is something at"),
        (tmp_path / "link", None, "there is something at"),
        (world.store.root / "inside", None, "lies in the store"),
        (tmp_path / "aside", "main", "there is a branch main already"),
        (tmp_path / "aside", "a..b", "a..b is no name for a branch"),
        (tmp_path / "aside", "-f", "-f is no name for a branch"),
    ):
        error = refused(world, lambda f=folder, b=branch: make(world, f, run, b), BadInput)  # type: ignore[misc]
        assert said in error.message
    assert not (tmp_path / "aside").exists()
    make(world, tmp_path / "empty", run)
    assert (tmp_path / "empty/train.py").exists()


def test_a_work_tree_that_git_still_has_is_not_taken_over(world: World, tmp_path: Path) -> None:
    run = world.run()
    make(world, tmp_path / "aside", run)
    (tmp_path / "aside").rename(tmp_path / "unplugged")
    error = refused(world, lambda: make(world, tmp_path / "aside", run), BadInput)
    assert "git has a work tree at" in error.message
    assert (world.git_dir / "worktrees/aside/HEAD").exists()


def test_a_filter_that_fails_leaves_nothing_behind(world: World, tmp_path: Path) -> None:
    world.write({".gitattributes": "*.dat filter=lfs\n", "x.dat": "a\n"})
    world.commit("filtered")
    run = world.run()
    world.git("config", "filter.lfs.smudge", "false")
    world.git("config", "filter.lfs.required", "true")
    error = refused(world, lambda: make(world, tmp_path / "aside", run, "side"), Refused)
    assert "git cannot make that work tree" in error.message
    assert not (tmp_path / "aside").exists()


def test_its_op_is_listed_and_not_undone(world: World, tmp_path: Path) -> None:
    made = make(world, tmp_path / "aside", world.run())
    other = find_worktree(tmp_path / "aside")
    assert isinstance(other, WorkTree)
    (row,) = op_rows(world.store, other)
    assert (row.id, row.kind, row.can_undo) == (made.op, "worktree", False)
    with world.reader() as reader, pytest.raises(Refused, match="cannot be undone") as caught:
        undo(reader, other, made.op)
    assert caught.value.hints == ("the folder goes by: git worktree remove DIR",)
