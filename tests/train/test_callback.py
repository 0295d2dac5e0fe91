"""`hydra/callbacks=expdb` on a script that knows nothing of expdb."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from expdb.model import Run, RunState
from expdb.store.runs import read_run, run_dirs
from tests import warm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CALLBACK = "hydra/callbacks=expdb"
CONFIG = "lr: 0.1\nhow: well\nseed: 3\nhydra: {output_subdir: null}\n"
SCRIPT = """
import sys
import hydra

@hydra.main(version_base="1.3", config_path="conf", config_name="main")
def main(cfg):
    if cfg.how == "raises":
        raise ValueError("no data\\nat all")
    if cfg.how == "exits":
        sys.exit(3)
    if cfg.how == "exits_well":
        sys.exit()
    if cfg.how == "starts":
        import expdb
        with expdb.start(cfg, objective="val/loss") as run:
            run.log({"val/acc": 0.7}, step=4)
    return cfg.lr * 2

main()
"""


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("unchanged")
    (top / "conf").mkdir()
    (top / "conf" / "main.yaml").write_text(CONFIG)
    (top / "job.py").write_text(SCRIPT)
    (top / ".gitignore").write_text("/runs/\n/outputs/\n/multirun/\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=b")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "one")):
        subprocess.run([*git, *words], cwd=top, check=True, capture_output=True)
    return top


def job(top: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "expdb" / "_hydra")))
    env = {**os.environ, "PYTHONPATH": paths, "EXPDB_STORE": ""}
    done = warm.run(["job.py", *words], cwd=top, env=env, libraries=warm.LIGHT)
    assert done.returncode == code, done.stderr
    return done


def runs_of(top: Path) -> list[Run]:
    root = top / "runs"
    found = [read_run(folder, store_root=root) for _, folder, _ in run_dirs(root)]
    return sorted(found, key=lambda run: run.created_at_ms)


def new_runs(top: Path, *words: str, code: int = 0) -> tuple[Sequence[Run], str]:
    """Return the runs that a start of the script made, oldest first, and its stderr."""
    before = {run.id for run in runs_of(top)}
    said = job(top, *words, code=code).stderr
    return [run for run in runs_of(top) if run.id not in before], said


def test_a_job_that_returns_is_a_finished_run_and_its_number_the_objective(top: Path) -> None:
    [run], said = new_runs(top, "lr=0.25", CALLBACK, "hydra.callbacks.expdb.objective=val/acc")
    assert (run.name, run.seed, run.state) == ("adhoc+lr=0.25", 3, RunState.FINISHED)
    assert run.objective is not None
    assert (run.objective.metric, run.value(), run.last_step) == ("val/acc", (0.5, 0), 0)
    # The recorded command makes a run again.
    assert run.command == (
        "python", "job.py", "lr=0.25", CALLBACK,
    )  # fmt: skip
    assert (run.pin.branch, run.pin.dirty) == ("main", False)
    assert "job.py" in run.pin.used
    assert "hydra" not in run.canonical
    assert "Traceback" not in said


def test_a_job_that_raises_is_a_failed_run_and_hydra_says_the_error(top: Path) -> None:
    [run], said = new_runs(top, "how=raises", CALLBACK, code=1)
    assert (run.state, run.reason) == (RunState.FAILED, "ValueError: no data")
    assert said.count("Error executing job with overrides") == 1
    assert run.objective is None


def test_a_job_that_leaves_by_sys_exit_is_a_failed_run_with_its_code(top: Path) -> None:
    [run], _ = new_runs(top, "how=exits", CALLBACK, code=3)
    assert run.state is RunState.FAILED
    assert run.reason == "the script ended with exit code 3"


@pytest.mark.skipif(
    importlib.util.find_spec("joblib") is None,
    reason="hydra-joblib-launcher is not installed (extra `joblib`)",
)
@pytest.mark.parametrize(("how", "state"), [("exits", "failed"), ("exits_well", "finished")])
def test_a_job_that_leaves_a_worker_by_sys_exit_ends_as_it_says(
    top: Path, how: str, state: str
) -> None:
    """The worker lives on, or is killed by its parent: neither ends the run."""
    words = ("-m", "lr=0.1,0.2", f"how={how}", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    runs, _ = new_runs(top, *words, CALLBACK, code=3 if how == "exits" else 0)
    assert runs
    assert state in {run.state for run in runs}
    assert {run.state for run in runs} <= {state, RunState.CRASHED}, "one may be killed by then"


def test_each_job_of_a_sweep_is_a_run_and_start_in_a_job_is_its_run(top: Path) -> None:
    objective = "hydra.callbacks.expdb.objective={metric: val/acc, mode: max}"
    runs, said = new_runs(top, "-m", "how=starts,well", CALLBACK, objective)
    assert [run.name for run in runs] == ["adhoc+how=starts", "adhoc+how=well"]
    assert {run.state for run in runs} == {RunState.FINISHED}
    # What the job logged stays; the job without a point gets the number that it returned.
    assert [(run.value(), run.last_step) for run in runs] == [((0.7, 4), 4), ((0.2, 0), 0)]
    assert runs[0].objective is not None
    assert runs[0].objective.mode == "max"
    unused = "hydra/callbacks=expdb has started this run: objective of start() not used"
    assert said.count(f"warning: {unused}") == 1


@pytest.mark.parametrize("words", [(), ("-m",)])
def test_a_store_that_cannot_be_written_ends_the_job_before_it_begins(
    top: Path, words: tuple[str, ...]
) -> None:
    (top / "file").touch()
    before = [run.id for run in runs_of(top)]
    done = job(top, *words, CALLBACK, "how=raises", "+expdb.store=file/x", code=5)
    assert done.stderr.splitlines() == [
        "error: cannot write to the store file/x: a part of the path is a file",
        "hint: another place: python train.py ... expdb.store=DIR",
    ]
    assert [run.id for run in runs_of(top)] == before


def test_without_the_callback_nothing_is_recorded(top: Path) -> None:
    assert new_runs(top, "how=exits", code=3) == ([], "")
