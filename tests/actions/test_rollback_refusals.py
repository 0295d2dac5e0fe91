"""Each refusal says what is in the way and changes not one byte."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import expdb
from expdb.actions.rollback import execute, prepare, require_clear
from expdb.actions.undo import undo
from expdb.errors import Conflict, ExpdbError, NotFound, Refused
from expdb.git.snapshot import take_pin
from expdb.store.files import exclusive
from expdb.store.ids import new_id
from expdb.store.ops import lock_path, read_ops
from expdb.store.refs import read_refs

if TYPE_CHECKING:
    from conftest import World

from expdb.model import Pin

pytestmark = pytest.mark.slow


def go(world: World, run: str, **options: bool) -> None:
    with world.reader() as reader:
        execute(reader, world.worktree, prepare(reader, world.worktree, run), **options)


def refused(
    world: World, call: Callable[[], object], *, kind: type[ExpdbError] = Refused
) -> ExpdbError:
    """Return the error of a call that changes not one byte."""
    before = world.everything()
    with pytest.raises(kind) as caught:
        call()
    assert world.everything() == before
    return caught.value


def test_a_dry_run_writes_nothing_not_even_objects(world: World) -> None:
    run = world.run()
    world.write({"train.py": "lr = 2\n", "new.py": "n = 1\n"})
    before = world.everything()
    objects = sorted((world.git_dir / "objects").rglob("*"))
    with world.reader() as reader:
        plan = prepare(reader, world.worktree, run)
    assert [(row.path, row.action) for row in plan.paths] == [
        ("new.py", "delete"),
        ("train.py", "change"),
    ]
    assert plan.num_edits == 2
    assert world.everything() == before
    assert sorted((world.git_dir / "objects").rglob("*")) == objects


def test_nothing_to_do_once_tree_and_head_are_there(world: World) -> None:
    run = world.run()
    with world.reader() as reader:
        plan = prepare(reader, world.worktree, run)
        assert plan.paths == ()
        assert not plan.nothing_to_do
        execute(reader, world.worktree, plan)
        assert prepare(reader, world.worktree, run).nothing_to_do
        world.write({"train.py": "lr = 9\n"})
        assert not prepare(reader, world.worktree, run).nothing_to_do


def test_a_live_run_of_this_work_tree(world: World) -> None:
    run = world.run()
    world.write({"train.py": "lr = 2\n"})
    live = world.run("exp05", state="running", alive=True, values={100: 3.0}, checkpoints=())
    error = refused(world, lambda: go(world, run))
    assert f"{live[:4]} exp05 is running from this work tree (step 100/300)" in error.message
    assert any("--worktree" in hint for hint in error.hints)


def test_a_run_that_starts_between_question_and_answer(world: World) -> None:
    run = world.run()
    world.write({"train.py": "lr = 2\n"})
    with world.reader() as reader:
        plan = prepare(reader, world.worktree, run)
        live = world.run("exp05", state="running", alive=True, checkpoints=())
        (world.folder(live) / "status.json").touch()
        error = refused(world, lambda: execute(reader, world.worktree, plan))
    assert "exp05 is running" in error.message


def test_a_run_of_another_work_tree_does_not_matter(world: World) -> None:
    run = world.run()
    live = world.run("exp05", state="running", alive=True, checkpoints=())
    path = world.folder(live) / "attempts/1/pin.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"work_tree": "/elsewhere/.git"}))
    (world.folder(live) / "status.json").touch()
    world.write({"train.py": "lr = 2\n"})
    go(world, run)
    assert (world.top / "train.py").read_text() == "lr = 1\n"


@pytest.mark.parametrize("what", ["merge", "rebase", "cherry-pick", "revert", "bisect"])
def test_git_in_the_middle_of_something(world: World, what: str) -> None:
    run = world.run()
    world.git("checkout", "-q", "-b", "side")
    world.write({"train.py": "lr = 5\n"})
    side = world.commit("side")
    world.git("checkout", "-q", "main")
    world.write({"train.py": "lr = 6\n"})
    world.commit("ours")
    command = {
        "merge": ("merge", "side"),
        "rebase": ("rebase", "side"),
        "cherry-pick": ("cherry-pick", side),
        "revert": ("revert", "--no-edit", "HEAD~1"),
        "bisect": ("bisect", "start"),
    }[what]
    world.git(*command, check=False)
    error = refused(world, lambda: go(world, run))
    assert f"a {what} is in progress" in error.message


def test_an_index_with_conflicts_of_no_known_origin(world: World) -> None:
    run = world.run()
    world.git("stash", "list")
    world.write({"train.py": "lr = 5\n"})
    world.git("stash")
    world.write({"train.py": "lr = 6\n"})
    world.commit("ours")
    world.git("stash", "apply", check=False)
    error = refused(world, lambda: go(world, run))
    assert "unresolved conflicts: train.py" in error.message


def test_damaged_and_missing_checkpoints(world: World) -> None:
    run = world.run(checkpoints=(200, 300))
    world.write({"train.py": "lr = 2\n"})
    weights = world.folder(run) / "checkpoints/step=300/model.pt"
    data = bytearray(weights.read_bytes())
    data[7] ^= 1
    weights.write_bytes(data)
    error = refused(world, lambda: go(world, f"{run}@300"))
    assert f"checkpoint 300 of {run[:4]} baseline is damaged: model.pt" in error.message
    assert error.hints == (f"expdb rollback {run[:4]}@200",)
    weights.unlink()
    go(world, run)  # the best retained one is 200 now
    assert (world.top / "train.py").read_text() == "lr = 1\n"


def test_no_checkpoint_at_all(world: World) -> None:
    run = world.run(checkpoints=())
    error = refused(world, lambda: go(world, run), kind=NotFound)
    assert "no complete checkpoint" in error.message


def test_a_commit_of_another_repository(world: World) -> None:
    pin = take_pin(world.worktree, store_root=world.store.root)
    run = world.run(pin=replace(pin, commit="4be1f02" + "0" * 33, remote="https://x.org/lab"))
    error = refused(world, lambda: go(world, run))
    assert f"commit 4be1f02 of {run[:4]} baseline is not in this repository" in error.message
    assert "https://x.org/lab" in error.hints[0]


def test_a_run_without_code(world: World) -> None:
    run = world.run(pin=Pin(reproducible=False, reasons=("not in a git repository",)))
    error = refused(world, lambda: go(world, run))
    assert "not in a git repository" in error.message


def in_the_way(world: World) -> str:
    """Make a run whose tree has paths that ignored and oversized files take up now."""
    world.write({"data/vocab.json": "[1]\n", "conf/model": "m\n", "big.txt": "small\n"})
    world.commit("with files")
    run = world.run()
    world.git("rm", "-q", "-r", "data", "conf/model", "big.txt")
    world.write({".gitignore": "/runs/\n*.bin\nvenv/\ndata/\n"})
    world.commit("without")
    return run


def test_an_ignored_file_in_the_way_and_force_saves_it(world: World) -> None:
    run = in_the_way(world)
    world.write({"data/vocab.json": b"precious\0" * 100, "data/other.json": "stays"})
    (world.top / "data/vocab.json").chmod(0o600)
    before = world.disk()
    error = refused(world, lambda: go(world, run))
    assert "would lose work that is saved nowhere; nothing written" in error.message
    assert error.details == ("data/vocab.json  ignored by git: no copy of it exists, 900 B",)
    assert any("--force" in hint for hint in error.hints)
    with world.reader() as reader:
        plan = prepare(reader, world.worktree, run)
        assert [(item.path, item.savable) for item in plan.blocked] == [("data/vocab.json", True)]
        with pytest.raises(Refused):
            require_clear(plan)
        plan = prepare(reader, world.worktree, run, force=True)
        require_clear(plan)
        execute(reader, world.worktree, plan, force=True)
        assert (world.top / "data/vocab.json").read_text() == "[1]\n"
        assert (world.top / "data/other.json").read_text() == "stays"
        undo(reader, world.worktree)
    assert world.disk() == before
    assert "data/vocab.json" not in world.staged()


def test_an_oversized_untracked_file_in_the_way(world: World) -> None:
    run = in_the_way(world)
    world.write({"big.txt": b"x" * 10_000_001})
    before = world.disk()
    error = refused(world, lambda: go(world, run))
    assert "big.txt  untracked and over 10 MB" in error.details[0]
    go(world, run, force=True)
    assert (world.top / "big.txt").read_text() == "small\n"
    with world.reader() as reader:
        undo(reader, world.worktree)
    assert world.disk() == before


def test_a_folder_in_the_way_is_never_removed(world: World) -> None:
    run = in_the_way(world)
    world.write({"conf/model/a.bin": "1", "conf/model/b.bin": "2"})
    for force in (False, True):
        error = refused(world, lambda f=force: go(world, run, force=f))  # type: ignore[misc]
        assert error.details == (
            "conf/model  a folder where a file must go, 2 unsaved files in it",
        )
        assert "move it away: conf/model" in error.hints


def test_a_linked_parent_in_the_way(world: World, tmp_path: Path) -> None:
    run = in_the_way(world)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/vocab.json").write_text("not ours")
    (world.top / "data").symlink_to(tmp_path / "elsewhere")
    world.write({".gitignore": "/runs/\ndata\n"})
    for force in (False, True):
        error = refused(world, lambda f=force: go(world, run, force=f))  # type: ignore[misc]
        assert error.details[0].startswith("data  a symbolic link")
    assert (tmp_path / "elsewhere/vocab.json").read_text() == "not ours"


def test_a_submodule_that_would_move(world: World, make_world: Callable[..., World]) -> None:
    lib = make_world("lib")
    run = world.run()
    world.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(lib.top), "lib")
    world.commit("with a submodule")
    error = refused(world, lambda: go(world, run, force=True))
    assert any("lib  a submodule" in line for line in error.details)


def test_a_filter_that_changes_bytes_is_undone_to_the_very_bytes(world: World) -> None:
    run = world.run()
    world.write({".gitattributes": "*.dat filter=upper\n", "x.dat": "a\n"})
    world.git("config", "filter.upper.clean", "tr a-z A-Z")
    world.git("config", "filter.upper.smudge", "cat")
    world.commit("filtered")
    before = world.disk(), world.status()
    go(world, run)
    assert not (world.top / "x.dat").exists()
    with world.reader() as reader:
        undo(reader, world.worktree)
    assert (world.disk(), world.status()) == before
    assert world.git("show", "HEAD:x.dat") == "A"


def test_a_filter_that_fails_on_the_goal(world: World) -> None:
    world.write({".gitattributes": "*.dat filter=upper\n", "x.dat": "a\n"})
    world.commit("filtered")
    run = world.run()
    world.write({"x.dat": "b\n"})
    world.commit("another")
    world.git("config", "filter.upper.smudge", "false")
    world.git("config", "filter.upper.required", "true")
    error = refused(world, lambda: go(world, run, force=True))
    assert "1 of 1 path cannot be written; nothing written" in error.message
    assert error.details == ("x.dat  the git filter upper fails: its content cannot be written",)


def test_a_sparse_checkout(world: World) -> None:
    run = world.run()
    world.write({"train.py": "lr = 2\n"})
    world.git("sparse-checkout", "set", "--no-cone", "/*", "!/tools/")
    error = refused(world, lambda: go(world, run, force=True))
    assert any("sparse" in line for line in error.details)


def test_a_store_that_git_tracks(world: World) -> None:
    run = world.run()
    world.git("add", "--force", "runs")
    world.commit("by mistake")
    error = refused(world, lambda: go(world, run, force=True))
    assert any("a file of the store" in line for line in error.details)


def test_a_locked_index_ends_the_op_at_once(world: World) -> None:
    run = world.run()
    world.write({"train.py": "lr = 2\n"})
    lock = world.git_dir / "index.lock"
    lock.touch()
    before = world.disk(), world.staged()
    with pytest.raises(Refused, match="locked"):
        go(world, run)
    assert (world.disk(), world.staged()) == before
    lock.unlink()
    assert [op.phase for op in read_ops(world.store.layout)] == ["begin", "abort"]
    go(world, run)
    assert (world.top / "train.py").read_text() == "lr = 1\n"


def test_another_process_at_the_same_work_tree(world: World) -> None:
    run = world.run()
    world.write({"train.py": "lr = 2\n"})
    with exclusive(lock_path(world.git_dir), what="this work tree"):
        refused(world, lambda: go(world, run), kind=Conflict)


def test_a_detached_head_and_a_linked_work_tree(world: World, tmp_path: Path) -> None:
    run = world.run()
    world.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = type(world)(world.top)
    linked.top = tmp_path / "linked"
    linked.write({"train.py": "lr = 7\n"})
    main = world.everything()
    with linked.reader() as reader:
        execute(reader, linked.worktree, prepare(reader, linked.worktree, run))
        assert (linked.top / "train.py").read_text() == "lr = 1\n"
        undo(reader, linked.worktree)
    assert (linked.top / "train.py").read_text() == "lr = 7\n"
    after = world.everything()
    mine = {k: v for k, v in after.items() if "/worktrees/" not in k and "/refs/expdb/" not in k}
    assert {k: v for k, v in mine.items() if "/ops/" not in k} == {
        k: v for k, v in main.items() if k in mine
    }


CHILD = """
import sys
from pathlib import Path
from expdb.actions.rollback import execute, prepare, require_clear
from expdb.errors import Refused
from expdb.git.worktree import find_worktree
from expdb.index.reader import open_reader
from expdb.store.store import open_store
top, run, own = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "own"
with open_reader(open_store(top / "runs")) as reader:
    worktree = find_worktree(top)
    plan = prepare(reader, worktree, run)
    try:
        require_clear(plan, own=own)
        execute(reader, worktree, plan, own=own)
    except Refused as error:
        print(error.message, *error.details, sep="|")
"""


def test_expdb_does_not_change_its_own_code_unasked(world: World) -> None:
    shutil.copytree(
        Path(expdb.__file__).parent,
        world.top / "expdb",
        ignore=shutil.ignore_patterns("cli", "report", "track"),
    )
    world.write({".gitignore": "/runs/\n__pycache__/\n", "expdb/demo/mine.py": "d = 1\n"})
    world.commit("with expdb")
    run = world.run()
    world.write({"expdb/errors.py": (world.top / "expdb/errors.py").read_text() + "# new\n"})
    world.write({"expdb/demo/mine.py": "d = 2\n"})

    def child(how: str) -> str:
        done = subprocess.run(
            [sys.executable, "-B", "-c", CHILD, str(world.top), run, how],
            cwd=world.top,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    before = world.disk()
    said = child("")
    assert said == (
        "it would change 1 file of expdb itself in this work tree; nothing written|expdb/errors.py"
    )
    assert world.disk() == before
    assert read_ops(world.store.layout) == []
    assert child("own") == ""
    assert (world.top / "expdb/demo/mine.py").read_text() == "d = 1\n"
    assert not (world.top / "expdb/errors.py").read_text().endswith("# new\n")


def test_refs_and_ops_are_untouched_by_reading(world: World) -> None:
    run = world.run()
    with world.reader() as reader:
        prepare(reader, world.worktree, run)
    assert read_refs(world.store.layout) == {}
    assert not (world.git_dir / "expdb").exists() or not list((world.git_dir / "expdb").iterdir())
    with pytest.raises(NotFound), world.reader() as reader:
        prepare(reader, world.worktree, new_id())
