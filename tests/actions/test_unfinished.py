"""An op that was cut off: reported, in the way of every writing verb, and settled by the user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from expdb.actions import go_on
from expdb.actions.baseline import set_baseline
from expdb.actions.change import Goal, carry_out
from expdb.actions.go_on import abort, continue_
from expdb.actions.rollback import execute, prepare
from expdb.actions.undo import undo
from expdb.actions.unfinished import require_finished, unfinished
from expdb.errors import Refused
from expdb.git import restore as git_restore
from expdb.query.lookup import lookup
from expdb.store.ops import StoreGone, find_unfinished, marker_path, read_ops
from expdb.store.store import open_store

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from conftest import World


class Cut(Exception):
    """Stands for the end of the process."""


def cut_off(world: World, monkeypatch: pytest.MonkeyPatch, num_paths: int = 1) -> str:
    """Roll back, and stop once git has written `num_paths` files; return the run."""
    run = world.run()
    world.write({"train.py": "lr = 2\n", "model.py": "width = 3\n", "mine.py": "m = 1\n"})
    write = git_restore._write

    def stop(worktree, index, paths):  # type: ignore[no-untyped-def]
        write(worktree, index, paths[:num_paths])
        raise Cut

    with monkeypatch.context() as patch:
        patch.setattr(git_restore, "_write", stop)
        with pytest.raises(Cut), world.reader() as reader:
            execute(reader, world.worktree, prepare(reader, world.worktree, run))
    return run


def test_it_is_reported_and_stops_every_writing_verb(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = cut_off(world, monkeypatch)
    found = unfinished(world.worktree, world.store)
    assert found is not None
    assert (found.num_done, found.num_paths, found.is_alive) == (2, 3, False)
    assert found.line == f"rollback to {run[:4]} baseline@300 stopped after 2 of 3 paths"
    before = world.everything()
    with pytest.raises(Refused, match="stopped after 2 of 3 paths") as caught:
        require_finished(world.worktree, world.store)
    assert [hint.split(":")[0] for hint in caught.value.hints] == ["finish it", "take it back"]
    with world.reader() as reader:
        with pytest.raises(Refused, match="stopped after"):
            prepare(reader, world.worktree, run)
        with pytest.raises(Refused, match="stopped after"):
            undo(reader, world.worktree)
        with pytest.raises(Refused, match="stopped after"):
            set_baseline(reader, lookup(reader, run), worktree=world.worktree)
    goal = Goal(kind="rollback", what="x", tree="0" * 40, commit="0" * 40)
    with pytest.raises(Refused, match="stopped after"):
        carry_out(world.store, world.worktree, goal)
    assert world.everything() == before


def test_an_edit_made_since_is_listed_kept_and_saved_by_force(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(world, monkeypatch)
    world.write({"train.py": "my = 'edit'\n"})
    before = world.everything()
    for settle, option in ((continue_, "--continue"), (abort, "--abort")):
        with pytest.raises(
            Refused, match=r"1 path was edited since .* stopped: train.py"
        ) as caught:
            settle(world.store, world.worktree)
        assert any(f"{option} --force" in hint for hint in caught.value.hints)
        assert world.everything() == before
    result = continue_(world.store, world.worktree, force=True)
    assert (world.top / "train.py").read_text() == "lr = 1\n"
    (ref,) = result.saved_refs
    assert world.git("show", f"{ref}:train.py") == "my = 'edit'"
    assert read_ops(world.store.layout)[-1].after == {"saved": [ref]}
    with world.reader() as reader:
        undo(reader, world.worktree)
    assert (world.top / "train.py").read_text() == "lr = 2\n"


def test_new_files_and_edits_outside_the_plan_are_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(world, monkeypatch)
    world.write({"conf/exp/a.yaml": "a: edited\n", "note.txt": "new"})
    result = continue_(world.store, world.worktree)
    assert result.num_left == 1
    assert (world.top / "train.py").read_text() == "lr = 1\n"
    assert not (world.top / "mine.py").exists()
    assert (world.top / "conf/exp/a.yaml").read_text() == "a: edited\n"
    assert (world.top / "note.txt").read_text() == "new"
    assert find_unfinished(world.git_dir, world.store.layout) is None


def test_a_folder_made_since_in_the_place_of_a_file_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(world, monkeypatch, num_paths=1)
    (world.top / "train.py").unlink()
    world.write({"train.py/deep.bin": "unsaved"})
    for force in (False, True):
        with pytest.raises(Refused, match=r"train\.py"):
            continue_(world.store, world.worktree, force=force)
    assert (world.top / "train.py/deep.bin").read_text() == "unsaved"
    assert find_unfinished(world.git_dir, world.store.layout) is not None


@pytest.mark.parametrize("settle", [continue_, abort])
def test_an_edit_made_while_the_first_one_is_saved_is_kept(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    settle: Callable[..., object],
) -> None:
    cut_off(world, monkeypatch)
    world.write({"train.py": "my = 'edit'\n"})
    real = go_on.finish

    def late(*args: object, **named: object) -> object:
        world.write({"train.py": "edited once more\n"})
        return real(*args, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(go_on, "finish", late)
        with pytest.raises(Refused, match=r"edited since the rollback stopped: train\.py"):
            settle(world.store, world.worktree, force=True)
    assert (world.top / "train.py").read_text() == "edited once more\n"
    settle(world.store, world.worktree, force=True)
    assert (world.top / "train.py").read_text() != "edited once more\n"
    assert find_unfinished(world.git_dir, world.store.layout) is None


def test_another_path_edited_while_the_first_one_is_saved_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(world, monkeypatch)
    world.write({"train.py": "my = 'edit'\n"})
    real = go_on.finish

    def late(*args: object, **named: object) -> object:
        world.write({"model.py": "edited meanwhile\n"})
        return real(*args, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(go_on, "finish", late)
        with pytest.raises(Refused, match=r"model\.py"):
            continue_(world.store, world.worktree, force=True)
    assert (world.top / "model.py").read_text() == "edited meanwhile\n"


@pytest.mark.parametrize(("settle", "phase"), [(continue_, "end"), (abort, "abort")])
def test_an_op_ends_in_the_store_that_it_began_in(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    settle: Callable[..., object],
    phase: str,
) -> None:
    cut_off(world, monkeypatch)
    other = open_store(tmp_path / "other", create=True)
    settle(other, world.worktree)
    assert read_ops(other.layout) == []
    assert [op.phase for op in read_ops(world.store.layout)] == ["begin", phase]
    assert find_unfinished(world.git_dir, world.store.layout) is None


def test_a_store_that_is_gone_is_named_and_found_again_when_it_was_moved(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cut_off(world, monkeypatch)
    world.store.root.rename(tmp_path / "moved")
    other = open_store(tmp_path / "other", create=True)
    for call in (continue_, abort):
        with pytest.raises(StoreGone) as caught:
            call(other, world.worktree)
        assert caught.value.message.endswith(f"is not there: {world.store.root}")
        assert "expdb --store DIR rollback --continue" in caught.value.hints[0]
        assert str(marker_path(world.git_dir)) in caught.value.hints[1]
    with pytest.raises(StoreGone):
        require_finished(world.worktree, other)
    continue_(open_store(tmp_path / "moved"), world.worktree)
    assert (world.top / "train.py").read_text() == "lr = 1\n"
    assert find_unfinished(world.git_dir, other.layout) is None
