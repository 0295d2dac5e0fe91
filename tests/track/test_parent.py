"""What a new run descends from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.model import Op, RunAt
from expdb.store.head import Head, write_head
from expdb.store.refs import move_ref
from expdb.store.runs import read_run
from expdb.store.store import open_store
from expdb.track.parent import find_parent


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def made(root: Path, name: str = "baseline", **end: Any) -> str:
    run = expdb.start({"expdb": {"print": "quiet"}}, store=root, name=name)
    run.fail(end["fail"]) if "fail" in end else run.finish()
    return str(run.id)


def parent(root: Path, git_dir: Path | None = None, fork: RunAt | None = None) -> RunAt | None:
    found = find_parent(open_store(root), git_dir, fork)
    return found[0] if found is not None else None


def test_without_a_baseline_there_is_none(root: Path) -> None:
    made(root, "exp01")
    made(root, fail="broken")
    assert parent(root) is None


def test_the_latest_finished_baseline(root: Path) -> None:
    made(root)
    second = made(root)
    made(root, fail="broken")
    made(root, "exp01")
    assert parent(root) == RunAt(run=second)


def test_head_then_the_ref_and_a_fork_before_all(root: Path, tmp_path: Path) -> None:
    first, second, third = made(root), made(root), made(root, "exp01")
    assert parent(root, tmp_path) == RunAt(run=second)
    layout = open_store(root).layout
    at = RunAt(run=first, step=3)
    move_ref(
        layout, "baseline", "ref", before=None, after=at, op=Op(id="abcdefghj1", kind="baseline")
    )
    assert parent(root, tmp_path) == RunAt(run=first, step=3)
    write_head(tmp_path, Head(run=third, step=20, op="abcdefghj2"))
    assert parent(root, tmp_path) == RunAt(run=third, step=20)
    assert parent(root) == RunAt(run=first, step=3)
    assert parent(root, tmp_path, RunAt(run=second, step=7)) == RunAt(run=second, step=7)
    (tmp_path / "expdb" / "HEAD").write_text("{")
    assert parent(root, tmp_path) == RunAt(run=first, step=3)
    # A name that outlived its run says nothing.
    write_head(tmp_path, Head(run="zzzzzzzzzz", step=None, op="abcdefghj3"))
    assert parent(root, tmp_path) == RunAt(run=first, step=3)


def test_a_damaged_baseline_is_passed_over(root: Path) -> None:
    first, second = made(root), made(root)
    (root / "exp=baseline" / f"run={second}" / "run.json").write_text("{")
    (root / "exp=baseline" / "run=abcdefghjk").mkdir()
    (root / "exp=baseline" / "notes.txt").write_text("")
    assert parent(root) == RunAt(run=first)


def started(root: Path, name: str, seed: int, *, lr: float = 0.1, **more: Any) -> Any:
    config = {"seed": seed, "lr": lr, "expdb": {"print": "quiet", **more}}
    run = expdb.start(config, store=root, name=name)
    run.finish()
    return read_run(run.dir, store_root=root)


def test_other_seeds_of_the_parents_config_get_its_own_parent(root: Path) -> None:
    base = started(root, "baseline", 0, lr=0.2)
    first = started(root, "exp01", 0)
    assert (base.parent, first.parent) == (None, RunAt(run=base.id))
    layout = open_store(root).layout
    at = RunAt(run=first.id)
    move_ref(
        layout, "baseline", "ref", before=None, after=at, op=Op(id="abcdefghj1", kind="baseline")
    )
    second = started(root, "exp01", 1)
    assert second.parent == RunAt(run=base.id)
    # A repeat, another config and another name descend from it.
    for name, seed, lr in (("exp01", 0, 0.1), ("exp01", 1, 0.3), ("exp02", 1, 0.1)):
        assert started(root, name, seed, lr=lr).parent == at
    assert started(root, "baseline", 3, lr=0.2).parent == at


def test_the_seeds_of_the_first_config_have_no_parent(root: Path) -> None:
    found = [started(root, "baseline", seed) for seed in (0, 1, 2)]
    assert [run.parent for run in found] == [None, None, None]


def test_a_chain_of_seeds_leads_to_the_parent_of_the_first(root: Path) -> None:
    """Stores have runs whose recorded parent is another seed of their config."""
    base, first = started(root, "baseline", 0, lr=0.2), started(root, "exp01", 0)
    second = started(root, "exp01", 1)
    for run, parent in ((second, first.id), (first, second.id)):
        path = root / run.path / "run.json"
        body = json.loads(path.read_text())
        body["parent"] = {"run": parent, "step": None}
        path.write_text(json.dumps(body))
        layout = open_store(root).layout
        if run is second:
            op = Op(id="abcdefghj1", kind="baseline")
            at = RunAt(run=second.id)
            move_ref(layout, "baseline", "ref", before=None, after=at, op=op)
            assert started(root, "exp01", 2).parent == RunAt(run=base.id)
    assert started(root, "exp01", 3).parent is None  # a circle has no first
