"""Which declared runs get a job, with which command, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from expdb.actions.live import require_idle
from expdb.actions.run.go import pin_jobs, run_jobs
from expdb.actions.run.plan import plan_run
from expdb.actions.run.results import Going, Job, RunPlan, Which
from expdb.errors import BadInput, NotFound, Refused
from expdb.git.worktree import find_worktree
from expdb.index.reader import open_reader
from expdb.model import RunState
from expdb.query.declared_cache import declaration
from expdb.query.declared_results import Declaration
from expdb.query.entry import Entry
from expdb.store import jobs
from expdb.store.store import Store
from tests.query.made import make_run, make_store, write_run
from tests.query.test_code_and_status import git

pytestmark = pytest.mark.slow

G = "# @package _global_\n"
FILES = {
    "conf/train.yaml": "defaults: [expdb: default, _self_]\nseed: 0\nlr: 0.1\n",
    "conf/exp/a.yaml": f"{G}lr: 0.2\nhydra: {{sweeper: {{params: {{seed: '0,1,2'}}}}}}\n",
    "conf/exp/b.yaml": f"{G}lr: 0.3\nhydra: {{sweeper: {{params: {{lr: '0.5,0.6'}}}}}}\n",
    "conf/exp/bad.yaml": f"{G}defaults: [/nothing: here]\n",
    "train.py": "",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.fixture
def store(project: Path) -> Store:
    return make_store(project / "runs")


def declare(project: Path, store: Store, **more: Any) -> Declaration:
    entry = Entry(folder=project / "conf", name="train", script="train.py", **more)
    return declaration(entry, store.layout.index)


def plan(
    project: Path, store: Store, *words: str, which: Sequence[Which] = ("missing",), **more: Any
) -> RunPlan:
    with open_reader(store) as reader:
        found = declare(project, store)
        return plan_run(reader, found, places=[project], words=words, which=which, **more)


def said(found: RunPlan) -> list[str]:
    return [job.said for job in found.jobs]


def add(
    project: Path, store: Store, experiment: str, at: int, number: int, state: str, **more: Any
) -> str:
    """Write a run of what is declared."""
    one = {item.name: item for item in declare(project, store).experiments}[experiment]
    wanted = one.runs[at]
    run_id = f"a{number:09d}"
    made = make_run(run_id, experiment=experiment, seed=wanted.seed, minutes=number)
    known = {"variant": wanted.variant, "digest": wanted.digest, "canonical": wanted.canonical}
    write_run(store, replace(made, state=RunState(state), **{**known, **more}))
    return run_id


def test_what_is_missing_gets_its_declared_command(project: Path, store: Store) -> None:
    found = plan(project, store)
    assert said(found) == ["a:s0", "a:s1", "a:s2", "b+lr=0.5:s0", "b+lr=0.6:s0"]
    assert [" ".join(job.argv) for job in found.jobs[1:4:2]] == [
        "python train.py +exp=a seed=1", "python train.py +exp=b lr=0.5"
    ]  # fmt: skip
    assert [name for name, _ in found.invalid] == ["bad"]
    assert (dict(found.left_out), found.num_declared, found.folder) == ({"invalid": 1}, 5, project)
    assert all(job.estimate_s is None for job in found.jobs)


def test_words_name_experiments_seeds_and_variants(project: Path, store: Store) -> None:
    assert said(plan(project, store, "a:s1", "b+lr=0.6")) == ["a:s1", "b+lr=0.6:s0"]
    assert said(plan(project, store, "a:s1", "a:s2", "a:s1")) == ["a:s1", "a:s2"]
    assert said(plan(project, store, "b", most=1)) == ["b+lr=0.5:s0"]
    assert plan(project, store, most=2).more == 3
    assert [name for name, _ in plan(project, store, "bad").invalid] == ["bad"]
    for word, kind, text in (
        ("aa", NotFound, "no experiment is declared as aa"),
        ("a:s9", NotFound, "a declares no seed 9"),
        ("a@3", BadInput, "names no declared run"),
        ("a:prev", BadInput, "names no declared run"),
        ("a:s1:s2", BadInput, "names no declared run"),
    ):
        with pytest.raises(kind, match=text):
            plan(project, store, word)


def test_each_state_has_its_flag(project: Path, store: Store) -> None:
    add(project, store, "a", 0, 1, "finished")
    add(project, store, "a", 1, 2, "failed")
    add(project, store, "a", 2, 3, "finished", digest="v1:other", canonical='{"lr":9}')
    add(project, store, "b", 0, 4, "running")
    add(project, store, "b", 1, 5, "lost")
    states = {"up to date": 1, "failed": 1, "stale": 1, "running": 1, "lost": 1}

    def left(*which: Which) -> tuple[list[str], dict[str, int]]:
        found = plan(project, store, "a", "b", which=which)
        return said(found), dict(found.left_out)

    shown = {row: count for row, count in left("missing")[1].items()}
    assert set(shown) <= {*states, "crashed"}  # whose process is not there is not alive
    assert left("failed")[0] == ["a:s1"]
    assert left("stale")[0] == ["a:s2"]
    assert left("stale", "failed")[0] == ["a:s1", "a:s2"]
    assert left("all")[0][:3] == ["a:s0", "a:s1", "a:s2"]


def test_what_another_process_has_queued_is_left_to_it(project: Path, store: Store) -> None:
    store.layout.jobs.mkdir()
    with jobs.claim(store.layout, ("a", 1)):
        found = plan(project, store, "a")
        assert (said(found), dict(found.left_out)) == (["a:s0", "a:s2"], {"pending": 1})
    assert len(plan(project, store, "a").jobs) == 3


def test_costs_are_those_of_runs_of_the_experiment_by_their_steps(
    project: Path, store: Store
) -> None:
    def took(number: int, minutes: float, steps: int | None, **more: Any) -> None:
        made = make_run(f"a{number:09d}", experiment="a", seed=number + 10, minutes=number)
        known = {"max_steps": steps, "ended_at_ms": made.created_at_ms + int(minutes * 60_000)}
        write_run(store, replace(made, **{**known, **more}))

    def estimates(*words: str) -> dict[str, float | None]:
        return {job.said: job.estimate_s for job in plan(project, store, *words).jobs}

    for number, minutes in ((1, 2), (2, 4), (3, 40)):
        took(number, minutes, None)
    assert estimates("a:s0", "b+lr=0.5") == {"a:s0": 240.0, "b+lr=0.5:s0": None}
    for number, minutes in ((4, 6), (5, 8)):
        took(number, minutes, 100)
    assert estimates("a:s0") == {"a:s0": 420.0}  # no key says the steps: as many as before
    told = {"canonical": '{"loop":{"max_steps":400},"save_steps":400}'}
    took(6, 16, 400, **told)
    assert estimates("a:s0") == {"a:s0": 960.0}
    conf = project / "conf/exp/a.yaml"
    for steps, seconds in ((100, 420.0), (400, 960.0), (200, 720.0)):
        conf.write_text(f"{FILES['conf/exp/a.yaml']}loop: {{max_steps: {steps}}}\n")
        assert estimates("a:s0") == {"a:s0": seconds}


def test_jobs_of_this_work_tree_hold_a_rollback_back(project: Path, store: Store) -> None:
    store.layout.jobs.mkdir()
    git_dir = project / ".git"
    with open_reader(store) as reader, jobs.claim(store.layout, ("a", 1), work_tree=str(git_dir)):
        require_idle(reader, project / "other")
        with pytest.raises(Refused, match="1 job waits to run in this work tree"):
            require_idle(reader, git_dir)
    with open_reader(store) as reader, jobs.claim(store.layout, ("a", 1)):
        require_idle(reader, git_dir)


def test_a_base_that_has_the_group_gets_no_plus(project: Path, store: Store) -> None:
    (project / "conf/train.yaml").write_text(
        "defaults: [expdb: default, exp: a, _self_]\nseed: 0\nlr: 0.1\n"
    )
    assert plan(project, store, "a").invalid == ()
    assert plan(project, store, "a:s1").jobs[0].argv == ("python", "train.py", "exp=a", "seed=1")


def test_a_script_that_only_the_callback_pins_gets_it(project: Path, store: Store) -> None:
    words = ("python", "train.py", "+exp=a", "hydra/callbacks=expdb", "lr=3")
    write_run(store, replace(make_run("a000000001", experiment="a", seed=7), command=words))
    assert plan(project, store, "a:s1").jobs[0].argv == (
        "python", "train.py", "+exp=a", "seed=1", "hydra/callbacks=expdb"
    )  # fmt: skip


def test_without_a_script_nothing_can_be_trained(project: Path, store: Store) -> None:
    (project / "train.py").unlink()
    with pytest.raises(Refused, match=r"train\.py is not there"):
        plan(project, store)


def go(store: Store, found: RunPlan) -> tuple[list[tuple[str, str]], list[Going]]:
    told: list[Going] = []
    done = run_jobs(store, found, workers=2, announce=lambda source: None, tell=told.append)
    return [(one.job.said, one.end) for one in done.ended], told


def test_what_others_have_or_did_meanwhile_is_not_trained_again(
    project: Path, store: Store
) -> None:
    (project / "train.py").write_text("raise SystemExit('never to be started')\n")
    found = plan(project, store, "a")
    add(project, store, "a", 0, 1, "finished")
    add(project, store, "a", 2, 2, "failed")
    store.layout.jobs.mkdir()
    with jobs.claim(store.layout, ("a", 1)):
        ends, told = go(store, found)
    assert ends == [("a:s0", "done before"), ("a:s1", "taken"), ("a:s2", "failed")]
    assert [one.begun.said for one in told if one.begun is not None] == ["a:s2"]
    assert [path.name for path in store.layout.jobs.iterdir()] == ["a~s2.log"]
    assert "never to be started" in (store.layout.jobs / "a~s2.log").read_text()


SAYS_GPU = """\
import os, pathlib, time
here = pathlib.Path(__file__).parent
(here / f"gpu-{os.getpid()}").write_text(str(os.environ.get("CUDA_VISIBLE_DEVICES")))
for _ in range(500):
    if len(list(here.glob("gpu-*"))) >= 2:
        break
    time.sleep(0.02)
"""
LISTED = """\
GPU 0: NVIDIA H200 (UUID: GPU-0a)
GPU 1: NVIDIA H200 (UUID: GPU-1b)
  MIG 1g.18gb     Device  0: (UUID: MIG-2c)
  MIG 1g.18gb     Device  1: (UUID: MIG-3d)
"""


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("4,GPU-7,2", {"4", "GPU-7"}),
        ("4", {"4"}),
        ("1,-1,2", {"1,-1,2"}),
        ("", {""}),
        (None, {"None"}),
        (LISTED, {"GPU-0a", "MIG-2c"}),
    ],
)
def test_each_of_several_workers_has_a_gpu_of_its_own(
    project: Path, store: Store, monkeypatch: pytest.MonkeyPatch, given: str | None, seen: set[str]
) -> None:
    (project / "train.py").write_text(SAYS_GPU)
    (project / "bin").mkdir()
    if given is None or given == LISTED:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setenv("PATH", f"{project}/bin")
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    if given == LISTED:
        program = project / "bin/nvidia-smi"
        program.write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{LISTED}END\n")
        program.chmod(0o755)
    go(store, plan(project, store, "a:s0", "a:s1"))
    assert {path.read_text() for path in project.glob("gpu-*")} == seen


def test_edits_that_are_not_to_be_trained_stop_it(project: Path, store: Store) -> None:
    refuse = "expdb: {dirty: refuse}\n"
    (project / "conf/train.yaml").write_text(FILES["conf/train.yaml"] + refuse)
    git(project, "init", "-q")
    git(project, "add", "conf", "train.py")
    git(project, "commit", "-qm", "first")
    found = plan(project, store, "a")
    worktree = find_worktree(project)
    assert pin_jobs(store, worktree, found).commit == git(project, "rev-parse", "HEAD")
    (project / "train.py").write_text("edited\n")
    with pytest.raises(Refused, match=r"the work tree has 1 edit, and expdb\.dirty=refuse"):
        pin_jobs(store, worktree, found)
    (project / "conf/train.yaml").write_text(FILES["conf/train.yaml"])
    source = pin_jobs(store, worktree, plan(project, store, "a"))
    assert source.pin is not None
    assert source.commit == source.pin.snapshot != git(project, "rev-parse", "HEAD")
    in_place = pin_jobs(store, worktree, found, in_place=True)
    assert (in_place.commit, in_place.why_in_place) == (None, "--in-place")


def test_a_job_names_itself() -> None:
    made = Job(experiment="a", variant="+b=1", seed=None, state="missing", argv=(), digest="")
    assert (made.said, made.key) == ("a+b=1", ("a+b=1", None))
