"""In each state of git a pin is right or says what is missing; a rollback loses nothing, or writes
nothing.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from expdb.actions.change import Goal, carry_out
from expdb.actions.undo import undo_goal
from expdb.errors import Refused
from expdb.git.restore import verify
from expdb.git.snapshot import take_pin
from expdb.git.status import read_edits
from expdb.git.worktree import WorkTree, find_worktree
from expdb.store.store import open_store
from tests.git.states import STATES

pytestmark = pytest.mark.slow

ALL = pytest.mark.parametrize("state", STATES.values(), ids=lambda state: state.name)


@ALL
def test_a_pin_is_right_and_leaves_no_trace(repo, tmp_path, state):
    made = state.make(repo, tmp_path)
    work = made.repo
    worktree = find_worktree(work.top)
    assert isinstance(worktree, WorkTree)
    before, disk, status = work.fingerprint(), work.disk(), work.status()
    pin = take_pin(worktree, store_root=tmp_path / "store")
    assert (work.fingerprint(), work.disk(), work.status()) == (before, disk, status)
    assert list(worktree.private_dir.iterdir()) == []
    assert len(pin.reasons) == len(state.reasons)
    assert all(map(fnmatchcase, pin.reasons, state.reasons)), pin.reasons
    assert (pin.reproducible, pin.dirty) == (state.complete, state.dirty)
    head = work.git("rev-parse", "--verify", "--quiet", "HEAD", check=False).decode().strip()
    assert pin.commit == (head or None)
    expected = work.tree("HEAD") if head else {}
    for path, entry in made.files.items():
        expected.pop(path, None)
        if entry is not None:
            expected[path] = entry
    assert {p: e for p, e in work.tree(pin.pinned).items() if e[0] != "160000"} == {
        p: e for p, e in expected.items() if e[0] != "160000"
    }
    links = {p: e[1].decode() for p, e in made.files.items() if e and e[0] == "160000"}
    for path, commit in links.items():
        assert work.text("rev-parse", f"{pin.pinned}:{path}") == commit
    assert work.text("rev-parse", f"refs/expdb/pins/{pin.pinned}") == pin.pinned
    assert (pin.num_edits > 0) is state.dirty


@ALL
def test_a_rollback_is_undone_or_refused(repo, tmp_path, state):
    made = state.make(repo, tmp_path)
    work = made.repo
    worktree = find_worktree(work.top)
    store = open_store(tmp_path / "store", create=True)
    tree = work.text("rev-parse", f"{made.goal}^{{tree}}")
    index = str(worktree.index_path)
    prints, disk, look = work.fingerprint(), work.disk(), looks(work)
    goal = Goal(kind="rollback", what="x", tree=tree, commit=tree)
    if state.refused:
        with pytest.raises(Refused) as caught:
            carry_out(store, worktree, goal)
        said = "\n".join([caught.value.message, *caught.value.details])
        assert state.refused in said
        assert (work.fingerprint(), work.disk()) == (prints, disk)
        return
    done = carry_out(store, worktree, goal)
    assert done.edited_outside == ()
    assert verify(worktree, tree, done.change.rows) == []
    assert not {path for path, _ in read_edits(worktree)} & {
        row.path for row in done.change.rows
    } - (set(work.text("diff", "--cached", "--name-only", "-z").split("\0")))
    now = work.fingerprint()
    assert {k: v for k, v in now.items() if k != index} == {
        k: v for k, v in prints.items() if k != index
    }
    untouched = disk.keys() - {row.path for row in done.change.rows}
    assert {path: work.disk()[path] for path in untouched} == {p: disk[p] for p in untouched}
    back = carry_out(store, worktree, undo_goal(done.op))
    assert back.edited_outside == ()
    assert work.disk() == disk
    if not state.stale:
        assert looks(work) == look
    now = work.fingerprint()
    assert {k: v for k, v in now.items() if k != index} == {
        k: v for k, v in prints.items() if k != index
    }


def looks(work):
    """What git says of the index and the files, flags and staged blobs included."""
    staged = work.git("ls-files", "-s", "-v", "-z", check=False)
    return work.status(), staged


def test_edits_without_number_take_one_pack(repo, tmp_path):
    made = STATES["more edits than are looked at one by one"].make(repo, tmp_path)
    objects = made.repo.top / ".git/objects"
    before = {path for path in objects.rglob("*") if path.is_file()}
    take_pin(made.repo.worktree, store_root=tmp_path / "store")
    new = [p for p in objects.rglob("*") if p.is_file() and p not in before]
    assert sorted(path.suffix for path in new if path.parent.name == "pack") == [".idx", ".pack"]
    assert len(new) < 10
