"""Claims of declared runs: one process each, and a dead one counts for nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from expdb.errors import Conflict
from expdb.store import jobs, owner
from expdb.store.layout import StoreLayout


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    made = StoreLayout(tmp_path / "runs")
    made.jobs.mkdir(parents=True)
    return made


def test_a_declared_run_is_held_by_one(layout: StoreLayout) -> None:
    assert jobs.pending(layout) == {}
    with jobs.claim(layout, ("exp01", 1), work_tree="/repo/.git"):
        assert jobs.pending(layout) == {"exp01~s1": "/repo/.git"}
        with pytest.raises(Conflict, match="exp01 seed 1 is held by process"):
            jobs.claim(layout, ("exp01", 1)).__enter__()
        with jobs.claim(layout, ("exp01", 2)):
            assert len(jobs.pending(layout)) == 2
    assert list(layout.jobs.iterdir()) == []


def test_names_never_meet(layout: StoreLayout) -> None:
    keys: list[jobs.Key] = [
        ("a", None), ("a", 1), ("a", -1), ("a~s1", None), ("A", 1), ("a:s1", None), ("a/../b", 1),
        ("a+lr=0.1", 1), ("x" * 300, 1), ("x" * 301, 1), ("x" * 300, None),
    ]  # fmt: skip
    names = [jobs.file_name(key) for key in keys]
    assert len(set(names)) == len(keys)
    assert all(len(name) < 240 and "/" not in name for name in names)


def test_a_claim_of_a_dead_process_counts_for_nothing_and_is_taken_over(
    layout: StoreLayout,
) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead = {**owner.describe(), "pid": child.pid, "start": 1}
    (layout.jobs / "a~s1.json").write_text(json.dumps(dead))
    (layout.jobs / "b.json").write_text("{half")
    assert jobs.pending(layout) == {}
    with jobs.claim(layout, ("a", 1)):
        assert set(jobs.pending(layout)) == {"a~s1"}


def test_what_it_is_about_never_stands_for_its_owner(layout: StoreLayout) -> None:
    with jobs.claim(layout, ("a", 1), work_tree="/x"):
        said = json.loads((layout.jobs / "a~s1.json").read_text())
    assert (said["work_tree"], said["pid"]) == ("/x", os.getpid())
