"""Forks, spawned workers, loaders, pickles; many processes that start or claim at one moment."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.errors import BadInput, Conflict, Refused
from expdb.index.reader import open_reader
from expdb.model import RunState
from expdb.store import attempts, writers
from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from expdb.store.runs import read_run
from expdb.store.store import open_store
from tests import warm
from tests.faults.counting import Tally
from tests.faults.killing import Barrier, Child, die
from tests.faults.lives import SOAK, config, only_run, run_dirs_of, steps, unsound

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]


# ------------------------------------------------------------------------------------ children


def test_a_fork_can_change_nothing_of_its_parents_run(tmp_path: Path, faults: Tally) -> None:
    run: Any = expdb.start(config(), name="parent", store=tmp_path / "runs")
    run.log({"a": 0.0}, step=0)
    run.log_text("said", "a", step=0)
    (tmp_path / "given.txt").write_text("x")
    calls: list[Callable[[], object]] = [
        lambda: run.log({"a": 9.0}, step=9),
        lambda: run.log_text("said", "b"),
        lambda: run.log_eval("cloze", {"acc": 1.0}),
        lambda: run.note("of the child"),
        lambda: run.event(1, "warn", "own", "of the child"),
        lambda: run.alert("of the child"),
        lambda: run.artifact(tmp_path / "given.txt"),
        lambda: run.use_data("train", "x", digest="sha256:1"),
        lambda: run.checkpoint(1, None),
    ]

    def work(child: Child) -> None:
        for at, call in enumerate(calls):
            with pytest.raises(BadInput, match="a fork of it"):
                call()
            child.tell(at)
        run.finish()
        run.fail("by the child")
        run.__exit__(None, None, None)

    before = {path: path.read_bytes() for path in run.dir.rglob("*") if path.is_file()}
    child = Child(work)
    faults.fault(len(calls))
    assert child.survives()
    assert child.told == len(calls) - 1
    assert {path: path.read_bytes() for path in before} == before
    assert set(before) == {path for path in run.dir.rglob("*") if path.is_file()}
    run.log({"a": 1.0}, step=1)
    assert read_run(run.dir, store_root=tmp_path / "runs").state is RunState.RUNNING
    run.finish()
    faults.compare(range(2), steps(run.layout))
    assert unsound(tmp_path / "runs") == []


def test_handles_cannot_be_given_to_another_process(tmp_path: Path, faults: Tally) -> None:
    run: Any = expdb.start(config(), name="parent", store=tmp_path / "runs")
    run.log({"a": 0.0}, step=0)
    with expdb.attach(run.id, store=tmp_path / "runs") as other:
        for handle in (run, other, run._recorder, run._media):
            for copied in (pickle.dumps, copy.deepcopy, copy.copy):
                with pytest.raises(TypeError, match="pickle"):
                    copied(handle)
    spawn = multiprocessing.get_context("spawn")
    with pytest.raises(TypeError, match="cannot be pickled"):
        spawn.Process(target=print, args=(run,)).start()
    faults.fault(13)
    run.log({"a": 1.0}, step=1)
    run.finish()
    faults.compare(range(2), steps(run.layout))


LOADERS = """
import json, sys
import torch
from torch.utils.data import DataLoader, Dataset
import expdb
from expdb.errors import BadInput

class Items(Dataset):
    def __init__(self, run):
        self.run = run
    def __len__(self):
        return 8
    def __getitem__(self, at):
        try:
            self.run.log({"of a worker": float(at)}, step=at)
        except BadInput as error:
            return int("a fork of it" in error.message)
        return 7

def main():
    run = expdb.start({"expdb": {"print": "quiet"}}, name="loads", store=sys.argv[1])
    said = []
    forked = DataLoader(Items(run), num_workers=2, multiprocessing_context="fork")
    for step, batch in enumerate(forked):
        run.log({"a": float(step)}, step=step)
        said.append(int(batch))
    try:
        list(DataLoader(Items(run), num_workers=1, multiprocessing_context="spawn"))
    except TypeError as error:
        said.append("cannot be pickled" in str(error))
    run.log({"a": 8.0}, step=8)
    run.finish()
    print(json.dumps(said))

if __name__ == "__main__":
    main()
"""


def test_a_worker_of_a_loader_cannot_log_and_its_parent_goes_on(
    tmp_path: Path, faults: Tally
) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOADERS)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    done = warm.run([str(script), str(tmp_path / "runs")], cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [*[1] * 8, True]
    faults.fault(9)
    run = only_run(tmp_path / "runs")
    assert run is not None
    assert set(run.series) == {"a"}
    faults.compare(range(9), steps(RunLayout(tmp_path / "runs" / run.path)))
    assert unsound(tmp_path / "runs") == []


# -------------------------------------------------------------------------------------- claims


@pytest.mark.parametrize("round_number", range(2 * SOAK))
def test_of_many_that_resume_one_run_at_once_one_goes_on(
    tmp_path: Path, faults: Tally, round_number: int
) -> None:
    root = tmp_path / "runs"

    def begin(child: Child) -> None:
        run = expdb.start(config(), name="one", store=root)
        for step in range(5):
            run.log({"a": float(step)}, step=step)
        die()

    assert not Child(begin).survives()
    made = only_run(root)
    assert made is not None
    barrier, ended = Barrier(), Barrier()

    def resume(child: Child) -> None:
        barrier.wait()
        try:
            run = expdb.start(config(), name="one", store=root, resume=made.id)
        except (Refused, Conflict):
            return
        run.log({"a": 5.0}, step=5)
        child.tell(1)
        ended.wait()
        run.finish()

    children = [Child(resume) for _ in range(8)]
    time.sleep(0.05)
    barrier.open()
    while not any(child.told == 1 for child in children):
        time.sleep(0.01)
    time.sleep(0.3)
    ended.open()
    assert all(child.survives() for child in children)
    faults.fault(8)
    assert [child.told for child in children].count(1) == 1
    run = read_run(root / made.path, store_root=root)
    assert (run.state, run.problems) == (RunState.FINISHED, ())
    found = read_series(root / made.path, ["a"], attempts=True).to_pylist()
    rows = [(row["attempt"] > 1, row["step"]) for row in found]
    faults.compare([*((False, step) for step in range(5)), (True, 5)], rows)
    assert unsound(root) == []


def test_an_attempt_and_a_rank_are_claimed_once(make_run_dir: MakeRun, faults: Tally) -> None:
    layout = make_run_dir()
    barrier = Barrier()

    def claim(child: Child) -> None:
        barrier.wait()
        number = attempts.claim(layout)
        try:
            writers.claim_rank(layout, 1, 3)
            rank = 1000
        except Conflict:
            rank = 0
        attached = writers.claim_attached(layout, 1)
        child.tell(number + rank + 10_000 * (attached - writers.ATTACHED))

    children = [Child(claim) for _ in range(20)]
    barrier.open()
    assert all(child.survives() for child in children)
    faults.fault(20)
    told = [child.told for child in children]
    assert sorted(number % 1000 for number in told) == list(range(2, 22))
    assert sum(number // 1000 % 10 for number in told) == 1
    assert sorted(number // 10_000 for number in told) == list(range(20))


# ------------------------------------------------------------------------------------ case A28


@pytest.mark.parametrize("number", [50])
def test_case_a28_fifty_processes_start_in_an_empty_store_at_one_moment(
    tmp_path: Path, faults: Tally, number: int
) -> None:
    root = tmp_path / "runs"
    barrier = Barrier()

    def begin(child: Child) -> None:
        barrier.wait()
        with expdb.start(config(), name="e", store=root) as run:
            for step in range(20):
                run.log({"a": float(step)}, step=step)
                child.tell(step)

    children = [Child(begin) for _ in range(number)]
    barrier.open()
    assert all([child.survives() for child in children])
    faults.fault(number)
    folders = run_dirs_of(root)
    assert len({folder.name for folder in folders}) == number
    assert {folder.parent.name for folder in folders} == {"exp=e"}
    for folder in folders:
        faults.compare(range(20), steps(RunLayout(folder)))
    with open_reader(open_store(root)) as reader:
        assert reader.warnings == ()
        assert reader.rows("SELECT count(*), count(DISTINCT id) FROM runs") == [(number, number)]
        assert reader.rows("SELECT DISTINCT experiment, state FROM runs") == [("e", "finished")]
        assert reader.rows("SELECT sum(count) FROM series") == [(20 * number,)]
    assert unsound(root) == []
    said = Counter(folder.name for folder in folders)
    assert max(said.values()) == 1
