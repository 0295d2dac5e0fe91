"""The main job, word for word: train two experiments, compare, rank, edit, roll back, undo."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.train.project import Project


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
