"""Work trees of jobs and probes: whose are removed by the next command, and whose stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from expdb.actions.place import OWNER, Place, clear, throwaway
from expdb.git.worktree import WorkTree, find_worktree
from expdb.store import owner
from expdb.store.locate import JOB, may_have_places
from tests.query.test_code_and_status import git


@pytest.fixture
def worktree(tmp_path: Path) -> WorkTree:
    top = tmp_path / "repo"
    top.mkdir()
    (top / "a.py").write_text("a = 1\n")
    git(top, "init", "-q")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    found = find_worktree(top)
    assert isinstance(found, WorkTree)
    return found


def gone() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def disown(place: Place) -> None:
    """Let a place be that of a process that was killed."""
    for path in (place.folder / OWNER, place.tree.private_dir / OWNER):
        said = {**owner.describe(), **json.loads(path.read_text()), "pid": gone(), "start": 1}
        path.write_text(json.dumps(said))


def test_a_place_stays_while_its_job_lives_and_goes_with_it(worktree: WorkTree) -> None:
    commit = worktree.head()
    assert commit is not None
    job = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with throwaway(worktree, commit, prefix=JOB) as place:
        assert may_have_places(worktree.top)
        clear(worktree)
        assert (place.tree.top / "a.py").is_file()
        place.hold(job.pid)
        disown(place)
        clear(worktree)
        assert (place.tree.top / "a.py").is_file()  # it may save, and import on its way
        job.communicate(b"\n")
        clear(worktree)
        assert not place.folder.exists()
    assert not may_have_places(worktree.top)
    assert len(git(worktree.top, "worktree", "list").splitlines()) == 1
