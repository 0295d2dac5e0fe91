"""A run as its folder describes it, and the run folders of a store."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from expdb.errors import NotFound
from expdb.model import Objective, Run, RunAt, RunState
from expdb.store import folders, runs, status
from expdb.store.layout import RunLayout
from expdb.store.recorder import Recorder
from expdb.store.runs import find_run_dir, read_run, run_dirs
from expdb.store.store import open_store

MakeRun = Callable[..., RunLayout]


Read = Callable[[RunLayout], Run]


def test_a_run_is_read_whole(whole: RunLayout, read: Read, store_root: Path) -> None:
    run = read(whole)
    assert (run.id, run.name, run.seed) == (whole.id, "baseline+lr=1", 3)
    assert (run.state, run.reason, run.last_step, run.max_steps) == ("finished", "", 4, 5)
    assert (run.created_at_ms, run.ended_at_ms, run.digest) == (17, 99, "v1:ab")
    assert run.parent == RunAt(run="t1h6y3cz8r", step=300)
    assert run.fork == RunAt(run="t1h6y3cz8r")
    assert run.objective == Objective(metric="a", mode="max", reading="best")
    assert run.value() == (4.0, 4)
    assert run.command == ("python", "t.py")
    assert run.settings == {"keep": {"last": 2}}
    assert run.pin.tree == "t" * 40
    assert run.series["b"].nonfinite == 5
    assert (run.labels, run.notes) == (("keep",), ("é",))
    assert [(item.rule, item.step) for item in run.events] == [("spike", 3)]
    assert run.evals[0].metrics["acc"] == 0.5
    assert math.isnan(run.evals[0].metrics["x"])
    assert [(item.step, item.complete) for item in run.checkpoints] == [(4, True)]
    assert run.problems == ()
    assert run.bytes == sum(
        path.stat().st_size
        for path in whole.root.rglob("*")
        if path.is_file() and path != whole.status_json
    )
    assert run.path == whole.root.relative_to(store_root).as_posix()
    assert run.version == runs.version_of(whole.root) != (0, 0, 0)


def test_folders_that_are_no_runs_are_passed_over(store_root: Path, make_run_dir: MakeRun) -> None:
    layout, other = make_run_dir(), make_run_dir(None)
    for name in ("exp=baseline/run=x", "exp=baseline/k3f9x2m7qd", "x/run=k3f9x2m7qd"):
        (store_root / name).mkdir(parents=True)
    (store_root / "exp=file").write_text("")
    found = {run: (path, version) for run, path, version in run_dirs(store_root)}
    assert set(found) == {layout.id, other.id}
    assert found[other.id] == (other.root, (0, 0, 0))
    stat = layout.status_json.stat()
    assert found[layout.id][1] == (stat.st_mtime_ns, stat.st_ino, stat.st_size)
    assert list(run_dirs(store_root / "none")) == []
    for experiment, stamps in folders.scan_stamps(store_root):
        for stamp in stamps:
            run = folders.run_in(stamp)
            folder = Path(folders.run_folder(experiment, run))
            assert found.pop(run) == (folder, folders.version_in(stamp))
            assert stamp.startswith(f"{run}:")
    assert not found


def test_a_run_is_found_by_its_full_id(store_root: Path, make_run_dir: MakeRun) -> None:
    layout = make_run_dir()
    assert find_run_dir(store_root, layout.id) == layout.root
    for name in ("k3f9x2m7qd", "..", "", "*", layout.id[:4]):
        with pytest.raises(NotFound, match="has no run"):
            find_run_dir(store_root, name)


def as_user(work: Callable[[], None]) -> int:
    """Run `work` in a child that is not root."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_store_of_another_user_is_read(
    whole: RunLayout, store_root: Path, make_run_dir: MakeRun
) -> None:
    live = make_run_dir()
    item = Recorder(live, run=live.id, attempt=1)
    item.write(("a",), (1.0,), 1, 0)
    for folder in (store_root, *store_root.parents):
        if folder.stat().st_uid == 0 and folder != Path("/") and "pytest" in str(folder):
            folder.chmod(0o755)

    def work() -> None:
        store = open_store(store_root)
        assert not store.writable
        assert open_store(store_root, create=True).id == store.id
        assert read_run(whole.root, store_root=store_root).problems == ()
        assert read_run(live.root, store_root=store_root).state is RunState.RUNNING
        assert read_run(live.root, store_root=store_root).series["a"].count == 1

    assert as_user(work) == 0

    def without_right() -> None:
        run = read_run(whole.root, store_root=store_root)
        assert run.problems == ("series.json cannot be read: no permission",)
        assert len(list(run_dirs(store_root))) == 2

    whole.series_json.chmod(0)
    closed = store_root / "exp=closed"
    closed.mkdir(mode=0o700)
    assert as_user(without_right) == 0


def test_a_read_only_store_is_read(
    whole: RunLayout, store_root: Path, tmp_path: Path, make_run_dir: MakeRun
) -> None:
    live = make_run_dir()
    frozen = tmp_path / "frozen"
    frozen.mkdir()
    bind = ["mount", "--bind", str(store_root), str(frozen)]
    if subprocess.run(bind, capture_output=True).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(frozen)], check=True)
        store = open_store(frozen)
        assert not store.writable
        assert open_store(store_root).writable
        for layout in (whole, live):
            there = frozen / layout.root.relative_to(store_root)
            run = read_run(there, store_root=frozen)
            assert run.problems == ()
            assert run.state == read_run(layout.root, store_root=store_root).state
    finally:
        subprocess.run(["umount", "-l", str(frozen)], check=True)


def test_the_json_of_a_run_is_what_the_format_says(whole: RunLayout) -> None:
    data = json.loads(whole.status_json.read_text())
    assert data["format"] == 1
    assert data["needs"] == "0.1.0"
    assert set(status.KINDS) <= set(data)
