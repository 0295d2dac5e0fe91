"""Used files have the content that was imported, whatever is on disk when a run starts."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from expdb.git.worktree import WorkTree, find_worktree
from expdb.store.store import open_store
from expdb.track.pin import pin_code
from expdb.track.settings import DEFAULTS

GIT = ("git", "-c", "user.name=T", "-c", "user.email=t@example.org")


def test_an_edit_after_the_import_is_said_and_a_reload_is_not_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_knobs.py").write_text("WIDTH = 1\n")
    (tmp_path / "train.py").write_text("")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        subprocess.run([*GIT, *words], cwd=tmp_path, check=True)
    script = str(tmp_path / "train.py")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", script, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.import_module("late_knobs")
    found = find_worktree(tmp_path)
    assert isinstance(found, WorkTree)
    store = open_store(tmp_path / "runs", create=True)

    def pin(dirty: str = "snapshot"):
        return pin_code(found, store_root=store.root, code=DEFAULTS["code"], dirty=dirty)

    first = pin()
    assert (first.reproducible, list(first.used)) == (True, ["late_knobs.py", "train.py"])
    (tmp_path / "late_knobs.py").write_text("WIDTH = 22\n")
    for dirty in ("snapshot", "allow"):
        again = pin(dirty)
        assert (again.used, again.dirty, again.reproducible) == (first.used, True, False)
        assert again.reasons[-1] == (
            "late_knobs.py ran as imported before an edit: the tree has the edit"
        )
    importlib.reload(module)
    assert module.WIDTH == 22
    reloaded = pin()
    assert reloaded.used["late_knobs.py"] != first.used["late_knobs.py"]
    assert reloaded.reproducible
    (tmp_path / "late_knobs.py").write_text("WIDTH = 1\n")
    assert not pin().reproducible
