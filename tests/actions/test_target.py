from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from expdb.actions.baseline import set_baseline
from expdb.actions.resume import plan_resume
from expdb.actions.rollback import prepare, to_worktree
from expdb.errors import BadInput, Corrupt, NotFound, Refused
from expdb.git.snapshot import take_pin
from expdb.git.worktree import WorkTree, find_worktree
from expdb.model import Objective, Pin
from expdb.query.lookup import lookup
from expdb.query.target import Target, choose_target
from expdb.store.files import write_json
from expdb.store.head import read_head
from expdb.store.ops import read_ops

if TYPE_CHECKING:
    from conftest import World

from expdb.actions.results import ResumePlan

pytestmark = pytest.mark.slow


def choose(world: World, word: str | None = None) -> Target:
    with world.reader() as reader:
        head = read_head(world.git_dir)
        return choose_target(reader, word, head=None if head is None else head.at)


def baseline(world: World, run: str) -> None:
    with world.reader() as reader:
        set_baseline(reader, lookup(reader, run))


def ends(value: float) -> dict[int, float]:
    return {100: 3.0, 200: 2.5, 300: value}


def test_the_ref_stands_until_a_run_is_better_beyond_noise(world: World) -> None:
    base = world.run(values=ends(1.848), noise=0.008)
    close = world.run("exp07", values=ends(1.839), noise=0.008)
    baseline(world, base)
    target = choose(world)
    assert (target.run.id, target.step, target.value, target.source) == (
        base, 300, 1.848, "ref baseline",
    )  # fmt: skip
    assert target.why == (f"{close[:4]} exp07 1.839 is not better beyond noise ±0.022",)
    better = world.run("exp08", values=ends(1.7), noise=0.008)
    target = choose(world)
    assert (target.run.id, target.source) == (better, "")
    assert target.why[0] == (
        f"better than {base[:4]} baseline (ref baseline, 1.848) by 0.148, beyond noise ±0.022"
    )
    assert choose(world, "baseline").run.id == base


def test_without_a_noise_band_nothing_takes_the_place_of_the_ref(world: World) -> None:
    base = world.run(values=ends(1.848))
    world.run("exp08", values=ends(1.0))
    baseline(world, base)
    target = choose(world)
    assert target.run.id == base
    assert "none is declared or measured" in target.why[0]


def _fail(world: World, how: str) -> None:
    better = ends(1.0)
    pin = take_pin(world.worktree, store_root=world.store.root)
    match how:
        case "crashed":
            world.run("exp08", values=better, noise=0.008, state="failed")
        case "other objective":
            other = Objective(metric="val/loss", mode="min", reading="best")
            world.run("exp08", values=better, noise=0.008, objective=other)
        case "other data":
            world.run("exp08", values=better, noise=0.008, data="sha256:2")
        case "other items":
            run = world.run("exp08", values=better, noise=0.008)
            _eval(world, run, "sha256:other")
        case "no checkpoint":
            world.run("exp08", values=better, noise=0.008, checkpoints=())
        case "no code":
            world.run("exp08", values=better, noise=0.008, pin=Pin(reasons=("no git",)))
        case "lacks a metric":
            require = {"noise": {"val/loss": 0.008}, "require": ["val/loss", "eval/cloze/acc"]}
            world.run("exp08", values=better, settings=require)
        case "NaN":
            world.run("exp08", values=ends(math.nan), noise=0.008)
        case "infinite":
            world.run("exp08", values=ends(-math.inf), noise=0.008)
    assert pin.commit


def _eval(world: World, run: str, digest: str) -> None:
    folder = world.folder(run) / "evals"
    folder.mkdir()
    body = {"id": "e1", "task": "cloze", "step": 300, "metrics": {"acc": 0.5}, "n": 10, "shots": 0}
    write_json(folder / "e1.json", body | {"items_digest": digest, "created_at_ms": 1})
    now = time.time() - 1800
    import os

    os.utime(world.folder(run) / "status.json", (now, now))


@pytest.mark.parametrize(
    "how",
    [
        "crashed",
        "other objective",
        "other data",
        "other items",
        "no checkpoint",
        "no code",
        "lacks a metric",
        "NaN",
        "infinite",
    ],
)
def test_a_run_that_cannot_be_compared_is_no_candidate(world: World, how: str) -> None:
    base = world.run(values=ends(1.848), noise=0.008)
    _eval(world, base, "sha256:items")
    baseline(world, base)
    _fail(world, how)
    assert choose(world).run.id == base


def test_without_a_ref_the_best_comparable_run(world: World) -> None:
    with pytest.raises(NotFound, match="no run has finished"):
        choose(world)
    world.run(values=ends(1.9))
    best = world.run("exp07", values=ends(1.8))
    world.run("exp08", values=ends(1.0), data="sha256:2")
    world.run("exp09", values=ends(2.8))
    target = choose(world)
    assert target.run.id == best
    assert target.source == "best of 4 finished runs, no baseline is set"
    assert any("exp08 1.000 is left out: its data differ" in line for line in target.why)
    assert target.why[0].startswith("then ")


def test_a_run_that_lacks_what_it_requires_is_never_chosen(world: World) -> None:
    require = {"noise": {"val/loss": 0.008}, "require": ["eval/cloze/acc", "train/x"]}
    lacking = world.run(values=ends(1.0), settings=require)
    with pytest.raises(NotFound) as caught:
        choose(world)
    assert caught.value.message == (
        f"no finished run counts: {lacking[:4]} baseline lacks eval/cloze/acc and 1 more, which it"
        " requires"
    )
    with pytest.raises(Refused, match="cannot be the baseline: it lacks eval/cloze/acc and 1 more"):
        baseline(world, lacking)
    other = world.run("exp07", values=ends(1.8))
    target = choose(world)
    assert target.run.id == other
    assert f"{lacking[:4]} baseline 1.000 is left out: it lacks eval/cloze/acc and 1 more" in (
        target.why
    )
    assert choose(world, lacking).run.id == lacking
    baseline(world, other)
    assert choose(world).run.id == other


def test_an_objective_to_be_maximised(world: World) -> None:
    more = Objective(metric="val/loss", mode="max", reading="last")
    base = world.run(values=ends(0.4), noise=0.01, objective=more)
    best = world.run("exp07", values={100: 0.9, 300: 0.6}, noise=0.01, objective=more)
    world.run("exp08", values=ends(0.3), noise=0.01, objective=more)
    baseline(world, base)
    assert choose(world).run.id == best


def test_the_step_is_the_best_that_has_a_checkpoint(world: World) -> None:
    values = {100: 2.47, 150: 2.284, 200: 2.9, 300: 2.871}
    run = world.run("exp03", values=values, checkpoints=(100, 300))
    target = choose(world, run)
    assert (target.step, target.value) == (100, 2.47)
    assert target.why == ("its best step 150 (2.284) has no checkpoint; 100 is the best that has",)
    assert choose(world, f"{run}@300").step == 300
    with pytest.raises(NotFound, match="no checkpoint 150"):
        choose(world, f"{run}@150")
    (world.folder(run) / "checkpoints/step=100/model.pt").unlink()
    assert choose(world, run).step == 300


def test_a_step_without_a_finite_value_is_the_last_resort(world: World) -> None:
    run = world.run("exp03", values={100: math.nan, 300: 5.0}, checkpoints=(100, 300))
    assert choose(world, run).step == 300
    odd = world.run("exp04", values={50: 2.0}, checkpoints=(100, 300))
    target = choose(world, odd)
    assert (target.step, target.value) == (300, None)
    assert target.why == ("no checkpoint has a val/loss; this is the last one",)
    none = world.run("exp05", objective=None)
    assert choose(world, none).why == ("it declares no objective; this is its last checkpoint",)


def test_a_ref_to_a_removed_run_and_a_damaged_ref_are_named(world: World) -> None:
    run = world.run()
    baseline(world, run)
    folder = world.folder(run)
    folder.rename(folder.with_name("gone"))
    with pytest.raises(NotFound, match=f"names {run}"):
        choose(world)
    world.store.layout.ref("baseline").write_text("{")
    with pytest.raises(Corrupt, match=r"baseline\.json"):
        choose(world)


def test_the_code_is_that_of_the_attempt_that_wrote_the_checkpoint(world: World) -> None:
    run = world.run(checkpoints=(200, 300))
    old = take_pin(world.worktree, store_root=world.store.root)
    world.write({"train.py": "lr = 2\n"})
    new = take_pin(world.worktree, store_root=world.store.root)
    attempts = world.folder(run) / "attempts"
    data = json.loads((attempts / "1/pin.json").read_text())
    (attempts / "2").mkdir()
    (attempts / "2/owner.json").write_bytes((attempts / "1/owner.json").read_bytes())
    git = {**data["git"], "tree": new.tree, "snapshot": new.snapshot}
    (attempts / "2/pin.json").write_text(json.dumps(data | {"attempt": 2, "git": git}))
    manifest = world.folder(run) / "checkpoints/step=300/manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"attempt": 2}))
    (world.folder(run) / "status.json").touch()
    with world.reader() as reader:
        assert prepare(reader, world.worktree, f"{run}@200").tree == old.tree
        assert prepare(reader, world.worktree, f"{run}@300").tree == new.tree


def test_the_plan_tells_config_code_and_weights(world: World) -> None:
    run = world.run(config={"optim": {"lr": 0.003}, "loop": {"z": 1}})
    world.write({"train.py": "lr = 2\n"})
    world.run("exp07", config={"optim": {"lr": 0.01}, "new": None})
    with world.reader() as reader:
        plan = prepare(reader, world.worktree, run)
    assert [(diff.key, *map(repr, diff.values)) for diff in plan.config] == [
        ("loop.z", "-", "1"),
        ("new", "None", "-"),
        ("optim.lr", "0.01", "0.003"),
    ]
    assert plan.config_of is not None
    assert plan.config_of.experiment == "exp07"
    assert (plan.checkpoint.step, plan.checkpoint.complete) == (300, True)
    assert plan.checkpoint_path == f"exp=baseline/run={run}/checkpoints/step=300"
    assert (plan.branch, plan.head_commit, plan.num_edits) == (
        "main", world.git("rev-parse", "HEAD"), 1,
    )  # fmt: skip


def test_incomplete_code_is_said(world: World) -> None:
    pin = take_pin(world.worktree, store_root=world.store.root)
    run = world.run(pin=replace(pin, reproducible=False, reasons=("big.txt is too large",)))
    with world.reader() as reader:
        plan = prepare(reader, world.worktree, run)
    assert plan.target.why[-1] == "its code is not all there: big.txt is too large"


def test_a_fresh_work_tree_leaves_this_one_alone(world: World, tmp_path: Path) -> None:
    target = world.disk()
    run = world.run()
    world.write({"train.py": "lr = 2\n", "zloss.py": "z\n"})
    before = world.disk(), world.status()
    with world.reader() as reader:
        made = to_worktree(reader, world.worktree, tmp_path / "at", run)
        with pytest.raises(BadInput, match=r"there is something at .* already"):
            to_worktree(reader, world.worktree, tmp_path / "at", run)
        to_worktree(reader, world.worktree, tmp_path / "named", run, branch="again")
    assert (world.disk(), world.status()) == before
    fresh = find_worktree(tmp_path / "at")
    assert isinstance(fresh, WorkTree)
    assert {path: (fresh.top / path).read_bytes() for path in target} == {
        path: data for path, (_, data) in target.items()
    }
    head = read_head(fresh.git_dir)
    assert head is not None
    assert (head.run, head.step, head.op) == (run, 300, made.op)
    assert read_head(world.git_dir) is None
    assert read_ops(world.store.layout)[0].work_tree == str(fresh.git_dir)
    assert world.git("rev-parse", "again") == made.commit


def resume(world: World, run: str) -> ResumePlan:
    with world.reader() as reader:
        return plan_resume(reader, lookup(reader, run))


def test_resume_runs_the_recorded_command(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.top)
    command = ["python", "train.py", "+exp=exp01", "expdb.fork=x", "+expdb.resume=y", "optim.lr=1"]
    run = world.run("exp01", state="preempted", checkpoints=(100, 200), command=command)
    plan = resume(world, run)
    assert plan.argv == ("python", "train.py", "+exp=exp01", "optim.lr=1", f"expdb.resume={run}")
    assert (plan.step, plan.note, plan.cwd, plan.question) == (200, "resumes at step 200", "", "")
    (world.folder(run) / "checkpoints/step=200/model.pt").unlink()
    assert resume(world, run).note == "resumes at step 100 (checkpoint 200 is not complete)"
    monkeypatch.chdir("/")
    assert resume(world, run).cwd == str(world.top)
    none = world.run("exp01", state="failed", checkpoints=())
    assert resume(world, none).note == "no checkpoint: starts from scratch"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, "is finished"),
        ({"state": "running", "alive": True}, "is running"),
        ({"state": "failed", "command": []}, "has no recorded command"),
        ({"state": "failed", "command": ["python", "train.py", "k=<redacted>"]}, "secret"),
        ({"state": "failed", "command": ["python", "train.py", "-m", "s=1,2"]}, "sweep"),
        ({"state": "failed", "command": ["python", "elsewhere.py"]}, "not found from here"),
    ],
)
def test_resume_is_refused(world: World, how: dict[str, object], said: str) -> None:
    run = world.run("exp01", **how)  # type: ignore[arg-type]
    with pytest.raises(Refused, match=said):
        resume(world, run)
