"""Case A25 of the case log: going back to an old run destroys no unsaved and no untracked work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from expdb.actions.rollback import execute, prepare, require_clear
from expdb.actions.undo import undo
from expdb.errors import Refused

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.slow

REFUSED = 4
LARGE = b"large\0" * 2_000_000


def go(world: World, run: str, *, force: bool = False) -> str:
    """Roll back as the command does, and return the op."""
    with world.reader() as reader:
        plan = prepare(reader, world.worktree, run, force=force)
        require_clear(plan)
        return execute(reader, world.worktree, plan, force=force).op


def take_back(world: World) -> None:
    with world.reader() as reader:
        undo(reader, world.worktree)


def old_run(world: World) -> str:
    """Make a run of a commit that has a file which the work tree has not now."""
    world.write({"helper.py": "h = 1\n", "vocab.txt": "old\n"})
    world.commit("with a helper")
    run = world.run()
    world.git("rm", "-q", "helper.py", "vocab.txt")
    world.commit("without")
    world.write({"train.py": "lr = 2  # mine\n", "notes.txt": "my notes\n"})
    world.write({"venv/lib.py": "installed\n", "helper.py": "h = 'mine'\n"})
    return run


def test_case_a25_edits_untracked_and_colliding_files_come_back(world: World) -> None:
    run = old_run(world)
    before, status = world.disk(), world.status()
    op = go(world, run)
    assert (world.top / "train.py").read_text() == "lr = 1\n"
    assert (world.top / "helper.py").read_text() == "h = 1\n"
    assert not (world.top / "notes.txt").exists()
    assert (world.top / "venv/lib.py").read_text() == "installed\n"
    ref = f"refs/expdb/undo/{op}"
    kept = {name: world.git("show", f"{ref}:{name}") for name in ("train.py", "notes.txt")}
    assert kept == {"train.py": "lr = 2  # mine", "notes.txt": "my notes"}
    assert world.git("show", f"{ref}:helper.py") == "h = 'mine'"
    take_back(world)
    assert (world.disk(), world.status()) == (before, status)


@pytest.mark.parametrize("why", ["ignored", "too large"])
def test_case_a25_what_no_snapshot_holds_stops_it_until_forced(world: World, why: str) -> None:
    run = old_run(world)
    if why == "ignored":
        world.write({".gitignore": "/runs/\nvenv/\nvocab.txt\n", "vocab.txt": "mine\n"})
    else:
        world.write({"vocab.txt": LARGE})
    before, everything = world.disk(), world.everything()
    with pytest.raises(Refused) as caught:
        go(world, run)
    assert caught.value.exit_code == REFUSED
    with world.reader() as reader:
        assert [item.path for item in prepare(reader, world.worktree, run).blocked] == ["vocab.txt"]
    assert world.everything() == everything
    go(world, run, force=True)
    assert (world.top / "vocab.txt").read_text() == "old\n"
    take_back(world)
    assert world.disk() == before


def test_case_a25_no_rollback_under_a_live_run(world: World) -> None:
    run = old_run(world)
    world.run("exp05", state="running", alive=True, values={100: 3.0}, checkpoints=())
    everything = world.everything()
    for force in (False, True):
        with pytest.raises(Refused, match="is running from this work tree") as caught:
            go(world, run, force=force)
        assert caught.value.exit_code == REFUSED
    assert world.everything() == everything
