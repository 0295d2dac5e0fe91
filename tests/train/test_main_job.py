"""The main job, word for word: train two experiments, compare, rank, edit, roll back, undo."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from expdb.model import Run, RunState
from expdb.store.runs import read_run
from tests.train.conftest import Trained
from tests.train.project import TINY, Project

pytestmark = pytest.mark.slow


@pytest.fixture
def project(trained: Project, tmp_path: Path) -> Project:
    """A copy of the trained project that a test may change."""
    shutil.copytree(trained.top, tmp_path / "p", symlinks=True)
    return Project(tmp_path / "p")


def contents(top: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and not {".git", "runs", "__pycache__"} & set(path.relative_to(top).parts)
    }


def run_in(project: Project, experiment: str) -> Run:
    return read_run(project.run_of(experiment), store_root=project.store)


def test_two_experiments_in_one_sweep(sweep: Trained) -> None:
    project, err, out = sweep.project, sweep.stderr.splitlines(), sweep.stdout
    baseline, exp01 = run_in(project, "baseline"), run_in(project, "exp01")
    name = "".join(sorted(f"+{word}" for word in TINY))
    for run in (baseline, exp01):
        assert (run.variant, run.seed, run.state) == (name, 0, RunState.FINISHED)
        assert (run.last_step, run.max_steps) == (20, 20)
        assert run.command == ("python", "train.py", f"+exp={run.experiment}", *TINY)
        assert [item.step for item in run.checkpoints] == [10, 20]
        assert run.pin.branch == "main"
        assert not run.pin.dirty
        assert set(run.pin.used) >= {"train.py", "expdb/demo/model.py"}
        assert run.settings["noise"] == {"val/loss": 0.008}
        assert {item.task for item in run.evals} == {"cloze"}
        assert run.attempts[0].data["train"]["name"] == "pydoc"
        assert run.value() is not None
    assert exp01.parent is not None
    assert exp01.parent.run == baseline.id
    start = err.index(f"exp01{name}  {exp01.id}  seed 0  from scratch")
    value = baseline.series["val/loss"].last
    commit = (baseline.pin.commit or "")[:7]
    assert err[start + 1 : start + 8] == [
        f"  parent     {baseline.id[:4]} baseline{name}, 1 key differs",
        "               optim.lr  0.003 -> 0.01",
        f"  code       main {commit}, clean",
        f"  objective  val/loss, lower is better; to beat {value:.3f} ({baseline.id[:4]}),"
        " noise +-0.022",
        f"  path       runs/exp=exp01/run={exp01.id}",
        err[start + 6],
        "",
    ]
    assert err[start + 6].startswith("  data       pydoc, ")
    assert err[start + 6].endswith(" val bytes")
    kinds = [line.split()[2] for line in err[start + 8 :] if line.startswith("  step ")]
    assert kinds == ["eval", "train", "eval", "saved", "eval", "saved"]
    log = (project.store / exp01.path / "attempts" / "1" / "log.txt").read_text()
    assert log.splitlines()[0] == err[start]
    assert [word for word in ("worse", "better", "no difference") if f"{word}  val/loss" in out]


@pytest.mark.soak
def test_a_fork_named_by_the_run_grammar_goes_on_from_its_weights(project: Project) -> None:
    exp01 = run_in(project, "exp01")
    words = ("+exp=exp01", "loop.max_steps=21", "expdb.fork=exp01@best", "expdb.print=quiet")
    done = project.train(*words)
    forked = run_in(project, "exp01")
    assert done.stdout == f"{forked.id}\n"
    assert done.stderr == ""
    assert forked.fork is not None
    assert (forked.fork.run, forked.fork.step, forked.last_step) == (exp01.id, 20, 21)
    assert min(series.first_step for series in forked.series.values()) == 20


def test_compare_names_the_one_key_and_the_noise(trained: Project) -> None:
    found = trained.json("compare", "baseline", "exp01")
    assert found["schema_version"] == 1
    assert [item["key"] for item in found["config"]] == ["optim.lr"]
    assert found["config"][0]["values"] == [0.003, 0.01]
    assert found["code"]["same_tree"] is True
    assert found["verdict"]["outcome"] in ("better", "worse", "no_difference")
    assert "noise" in found["verdict"]["reason"]
    objective = next(item for item in found["metrics"] if item["key"] == "val/loss")
    left, right = objective["values"]
    assert objective["delta"] == pytest.approx(right - left)
    text = trained.expdb("compare", "baseline", "exp01").stdout
    assert "declared seed sd 0.008" in text
    assert "\x1b" not in text


def test_rank_is_by_the_objective(trained: Project) -> None:
    rows = trained.json("rank")["runs"]
    values = [row["objective"]["value"] for row in rows]
    assert len(rows) == 2
    assert values == sorted(values)
    assert rows[0]["objective"]["metric"] == "val/loss"


@pytest.mark.slow
def test_the_store_moved_by_cp_answers_the_same(trained: Project, tmp_path: Path) -> None:
    shutil.copytree(trained.store, tmp_path / "elsewhere")
    for words in (("ls",), ("rank",), ("compare", "baseline", "exp01")):
        here = trained.json(*words)
        there = trained.json("--store", str(tmp_path / "elsewhere"), *words)
        assert json.dumps(here, sort_keys=True) == json.dumps(there, sort_keys=True)


def test_nothing_stray_is_left(trained: Project) -> None:
    assert trained.git("status", "--porcelain") == ""
    names = {path.name for path in trained.top.rglob("*")}
    assert not names & {"outputs", "multirun", ".hydra", "train.log", "multirun.yaml"}
    runs = list(trained.store.glob("exp=*/run=*"))
    assert len(runs) == 2
    assert all((run / "run.json").is_file() for run in runs)


@pytest.mark.slow
def test_edit_train_roll_back_undo(project: Project) -> None:
    baseline = project.run_of("baseline")
    pin = json.loads((baseline / "attempts" / "1" / "pin.json").read_text())["git"]
    (project.top / "train.py").open("a").write("\n# an edit that is staged\n")
    project.git("add", "train.py")
    (project.top / "train.py").open("a").write("# an edit that is not\n")
    (project.top / "extra_module.py").write_text("VALUE = 1\n")
    said = project.train("+exp=exp01").stderr
    assert "kept as snapshot" in said

    before, status = contents(project.top), project.git("status", "--porcelain=v2")
    plan = project.json("rollback", "baseline", "--dry-run")
    assert {row["path"]: row["action"] for row in plan["plan"]} == {
        "train.py": "change",
        "extra_module.py": "delete",
    }
    assert contents(project.top) == before
    asked = project.expdb("rollback", "baseline", rc=4)
    assert "expdb rollback" in asked.stderr
    assert contents(project.top) == before

    project.expdb("rollback", "baseline", "-y")
    assert not (project.top / "extra_module.py").exists()
    assert project.git("write-tree").strip() == pin["tree"]
    assert project.git("diff", "--name-only") == ""
    work_tree = project.json("status")["work_tree"]
    assert work_tree["equals_head"] is True

    project.expdb("undo")
    assert contents(project.top) == before
    assert project.git("status", "--porcelain=v2") == status


def test_an_unknown_experiment_keeps_hydras_text(trained: Project) -> None:
    done = trained.call("train.py", "+exp=typo", rc=1)
    assert "typo" in done.stderr + done.stdout
    assert len(list(trained.store.glob("exp=*"))) == 2
