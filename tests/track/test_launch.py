"""How the processes of a launch find one run, and how a restarted one finds it again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from expdb.model import RunState
from expdb.store.runs import read_run, run_dirs
from expdb.track.launch import find_launch

pytestmark = pytest.mark.slow

TORCHRUN = {"RANK": "2", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "abc"}


def place(env: Mapping[str, str]) -> tuple[int, int]:
    found = find_launch("d", env)
    return found.rank, found.world_size


@pytest.mark.parametrize(
    ("env", "rank", "world"),
    [
        ({}, 0, 1),
        (TORCHRUN, 2, 4),
        ({"RANK": "0"}, 0, 2),
        ({"RANK": "3"}, 3, 4),
        ({"SLURM_PROCID": "1"}, 1, 2),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "4"}, 1, 4),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "8"}, 1, 2),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, 0, 1),
        # The batch script itself is one process, whatever its tasks will be.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"}, 0, 1),
        ({**TORCHRUN, "SLURM_PROCID": "0", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, 2, 4),
        ({"RANK": "x", "WORLD_SIZE": "y"}, 0, 2),
    ],
)  # fmt: skip
def test_the_place_of_a_process(env: dict[str, str], rank: int, world: int) -> None:
    assert place(env) == (rank, world)


def name(*environments: Mapping[str, str], digests: tuple[str, ...] = ("d",)) -> list[str]:
    return [
        find_launch(d, env).name.partition(":start")[0] for env in environments for d in digests
    ]


def test_ranks_of_one_launch_have_one_name_and_other_launches_another() -> None:
    slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"}
    for env in (
        {"EXPDB_LAUNCH": "mine", "WORLD_SIZE": "2"},
        {"TORCHELASTIC_RUN_ID": "abc", "WORLD_SIZE": "2"},
        {"MASTER_ADDR": "h", "MASTER_PORT": "1", "WORLD_SIZE": "2"},
        {**slurm, "WORLD_SIZE": "2"},
        {},
    ):
        one, two = name({**env, "RANK": "0"}, {**env, "RANK": "1"})
        assert one == two != ""
    ranks = [{**slurm, "SLURM_PROCID": str(rank)} for rank in range(2)]
    assert name(ranks[0]) == name(ranks[1])
    others = [{**ranks[0], **more} for more in ({"SLURM_JOB_ID": "8"}, {"SLURM_STEP_ID": "1"})]
    assert len({*name(ranks[0]), *name(*others)}) == 3
    assert (
        name({"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "h", "RANK": "0"})[0][:9] == "master:h:"
    )


def test_a_process_alone_has_a_name_only_where_a_scheduler_may_restart_it() -> None:
    assert name({}) == [""]
    job = {"SLURM_JOB_ID": "7"}
    assert name(job) == name({**job, "SLURM_RESTART_COUNT": "1"}) != [""]
    # A batch job may train one config after another.
    one, two = name(job, digests=("d", "e"))
    assert one != two


def test_restarts_are_counted() -> None:
    assert find_launch("d", {}).restart == 0
    assert find_launch("d", {"TORCHELASTIC_RESTART_COUNT": "2"}).restart == 2
    assert find_launch("d", {"SLURM_RESTART_COUNT": "1"}).restart == 1


# ------------------------------------------------------------------------------ real processes

SCRIPT = """
import json, sys, time, expdb
from pathlib import Path
root, rounds = Path(sys.argv[1]), int(sys.argv[2])
out = []
for number in range(rounds):
    with expdb.start({"lr": 0.1, "n": number}, store=root, name="ddp", seed=0) as run:
        run.log({"train/loss": 1.0}, step=3 + run.step)
        run.log({"val/loss": 2.0 if run.store else None}, step=1)
        out.append([run.id, run.attempt, str(run.dir)])
        # The last rank to arrive must still find the run alive.
        mark = root / f"mark{number}-{sys.argv[3]}"
        mark.touch()
        while len(list(root.glob(f"mark{number}-*"))) < int(sys.argv[4]):
            time.sleep(0.01)
        if sys.argv[5] == "preempt":
            run.preempt("SIGTERM")
print(json.dumps(out))
"""


def launch(root: Path, envs: list[dict[str, str]], *, rounds: int = 1, end: str = "finish") -> Any:
    for mark in root.glob("mark*"):
        mark.unlink()
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                SCRIPT,
                str(root),
                str(rounds),
                str(number),
                str(len(envs)),
                end,
            ],
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, env in enumerate(envs)
    ]
    answers = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(envs), answers
    # Rank 0 alone speaks.
    assert [bool(err) for _, err in answers] == [True] + [False] * (len(envs) - 1)
    return [json.loads(out) for out, _ in answers]


VARIANTS = {
    "RANK only": [{"RANK": str(rank)} for rank in range(2)],
    "SLURM_PROCID only": [{"SLURM_PROCID": str(rank)} for rank in range(2)],
    "torchrun": [{**TORCHRUN, "WORLD_SIZE": "2", "RANK": str(rank)} for rank in range(2)],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_ranks_share_one_run(tmp_path: Path, variant: str) -> None:
    root = tmp_path / "runs"
    rounds = 2 if variant == "torchrun" else 1
    answers = launch(root, VARIANTS[variant], rounds=rounds)
    assert answers[0] == answers[1]
    assert len(list(run_dirs(root))) == rounds == len({run for run, *_ in answers[0]})
    for run, attempt, folder in answers[0]:
        kept = read_run(Path(folder), store_root=root)
        assert (kept.id, attempt, kept.state) == (run, 1, RunState.FINISHED)
        assert kept.attempts[0].environment["world_size"] == "2"
        # A smaller step of another kind of value is a point like any other.
        assert (kept.series["train/loss"].last_step, kept.series["val/loss"].last_step) == (3, 1)


def test_a_restart_is_an_attempt_of_the_same_run_also_with_fewer_ranks(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    env = {"TORCHELASTIC_RUN_ID": "abc", "WORLD_SIZE": "3"}
    first = launch(root, [{**env, "RANK": str(rank)} for rank in range(3)], end="preempt")
    env = {**env, "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "1"}
    second = launch(root, [{**env, "RANK": str(rank)} for rank in range(2)])
    run, _, folder = first[0][0]
    assert second == [[[run, 2, folder]]] * 2
    kept = read_run(Path(folder), store_root=root)
    assert [attempt.environment["world_size"] for attempt in kept.attempts] == ["3", "2"]
    assert kept.state is RunState.FINISHED
    # The same name used again for a new launch: a new run, which late ranks find too.
    env = {"TORCHELASTIC_RUN_ID": "abc", "WORLD_SIZE": "2"}
    third = launch(root, [{**env, "RANK": str(rank)} for rank in range(2)])
    assert third[0] == third[1]
    assert third[0][0][0] != run


def test_a_requeued_batch_job_takes_up_the_run_of_its_config(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    job = {"SLURM_JOB_ID": "7"}
    [first] = launch(root, [job], rounds=2, end="preempt")
    [again] = launch(root, [{**job, "SLURM_RESTART_COUNT": "1"}], rounds=2)
    assert [(run, attempt) for run, attempt, _ in again] == [(run, 2) for run, *_ in first]
    [other] = launch(root, [{"SLURM_JOB_ID": "8"}])
    assert other[0][1] == 1
