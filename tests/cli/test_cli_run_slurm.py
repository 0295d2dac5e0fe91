"""`expdb run --on slurm`, through a real SLURM of two virtual nodes."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from expdb.actions.run import on_node
from expdb.errors import BadInput
from expdb.store import attempts, owner, slurm
from expdb.store.files import read_json, write_json
from expdb.store.layout import RunLayout
from tests.cli.slurm_cluster import cluster, lacking
from tests.cli.test_cli_run import FILES, SEEDS, G, Lab, _state

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(lacking()), reason=f"SLURM is not installed: {lacking()}"),
    pytest.mark.skipif(
        importlib.util.find_spec("submitit") is None,
        reason="submitit is not installed (extra `slurm`)",
    ),
]


@pytest.fixture(scope="module")
def conf() -> Iterator[Path]:
    with ExitStack() as stack:
        try:
            made = stack.enter_context(cluster())
        except RuntimeError as error:
            pytest.skip(str(error))
        yield made


@pytest.fixture
def lab(tmp_path: Path, conf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("SLURM_CONF", str(conf))
    made = Lab(tmp_path / "repo", tmp_path / "temp")
    yield made
    for child in made.begun:
        child.kill()
        child.communicate()
    subprocess.run(["scancel", f"--user={os.getuid()}"], check=False)


def queue() -> Counter[str]:
    slurm.forget()
    return Counter((slurm.states() or {}).values())


def is_clean(lab: Lab) -> bool:
    left = [path.name for path in lab.top.glob("runs/.expdb/jobs/*") if path.suffix != ".log"]
    assert left == []
    return lab.is_clean()


def test_jobs_run_on_nodes_from_their_pin_and_one_that_fails_stops_no_other(lab: Lab) -> None:
    lab.write("conf/exp/b.yaml", f"{G}name: b\nfail: true\n")
    lab.write("conf/exp/a.yaml", f"{G}name: a\n{SEEDS}expdb: {{slurm: {{comment: mine}}}}\n")
    before = lab.seen()
    child = lab.begin("a:s0", "a:s1", "b", "--on", "slurm", "--slurm", "time=7", "--json")
    lab.until(lambda: sum(queue().values()) == 3, child)
    said = subprocess.run(
        ["squeue", "-h", "-o", "%j|%k|%l"], check=True, capture_output=True, text=True
    )
    assert sorted(said.stdout.split()) == ["a:s0|mine|7:00", "a:s1|mine|7:00", "b:s0|(null)|7:00"]
    assert Counter(lab.status().values())["pending"] + len(lab.runs()) >= 3
    assert len(lab.git("worktree", "list").splitlines()) == 4
    lab.write("train.py", "raise SystemExit('edited meanwhile')\n")
    out, err = child.communicate(timeout=60)
    assert child.returncode == 1, err
    found = json.loads(out)
    assert [(job["experiment"], job["seed"], job["end"]) for job in found["jobs"]] == [
        ("a", 0, "done"), ("a", 1, "done"), ("b", 0, "failed")
    ]  # fmt: skip
    assert found["jobs"][2]["said"].startswith("exit 1, failed")
    assert "told to fail" in Path(found["jobs"][2]["log"]).read_text()
    for run in lab.runs():
        git = run["pin"]["git"]
        assert (git["tree"], git["dirty"]) == (found["tree"], False)
        who = read_json(run["dir"] / "attempts/1/owner.json")
        assert who[attempts.WITHIN]["cluster"] == slurm.cluster()
    assert is_clean(lab)
    lab.write("train.py", FILES["train.py"])
    assert lab.seen() == before
    assert Counter(lab.status().values())["up to date"] == 2


@pytest.mark.soak
def test_ctrl_c_empties_the_queue_lets_what_runs_save_and_the_same_command_goes_on(
    lab: Lab,
) -> None:
    child = lab.begin("a", "--on", "slurm", SLEEP="0.5")
    lab.until(lambda: len([*lab.top.glob("runs/exp=*/run=*/attempts/1/live.json")]) == 2, child)
    assert queue() == {"RUNNING": 2, "PENDING": 1}
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "ran        2 stopped, 1 not begun, in " in err
    assert sum(queue().values()) == 0
    assert is_clean(lab)
    assert Counter(lab.status().values()) == {"preempted": 2, "missing": 7}
    found = lab.run("a", "--on", "slurm", "-j", "2")
    assert [job["end"] for job in found["jobs"]] == ["done"] * 3
    assert Counter(run["attempts"] for run in lab.runs()) == {1: 1, 2: 2}
    assert is_clean(lab)


@pytest.mark.soak
def test_jobs_outlive_who_submitted_them_and_nobody_trains_them_twice(lab: Lab) -> None:
    words = ("a:s0", "a:s1", "--on", "slurm")
    child = lab.begin(*words, "--slurm", "nodelist=n1", SLEEP="1")
    lab.until(lambda: queue() == {"RUNNING": 1, "PENDING": 1} and len(lab.runs()) == 1, child)
    child.kill()
    child.communicate()
    assert lab.run(*words)["left_out"] == {"running": 1, "pending": 1}
    assert len(lab.git("worktree", "list").splitlines()) == 3
    lab.until(lambda: not queue())
    assert [_state(run) for run in lab.runs()] == ["finished"] * 2
    assert lab.run(*words)["left_out"] == {"up to date": 2}
    assert is_clean(lab)


@pytest.mark.soak
def test_a_hang_up_leaves_the_queue_as_it_is_also_without_work_trees(lab: Lab) -> None:
    child = lab.begin("a", "--on", "slurm", "--in-place", SLEEP="0.3")
    lab.until(lambda: queue() == {"RUNNING": 2, "PENDING": 1}, child)
    child.send_signal(signal.SIGHUP)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "3 left in the queue" in err
    assert sum(queue().values()) == 3
    refused = lab.expdb("rollback", "a", "-y")
    assert refused.returncode in (3, 4)
    lab.until(lambda: not queue())
    assert [_state(run) for run in lab.runs()] == ["finished"] * 3
    assert lab.run("a", "--on", "slurm")["left_out"] == {"up to date": 3}
    assert is_clean(lab)


@pytest.mark.soak
def test_what_slurm_does_not_take_or_ends_is_said(lab: Lab) -> None:
    done = lab.expdb("run", "a:s0", "--on", "slurm", "--slurm", "partitio=x")
    assert (done.returncode, "hint: nearest: partition" in done.stderr) == (2, True)
    done = lab.expdb("run", "a:s0", "--on", "slurm", "--slurm", "partition=x")
    assert done.returncode == 1
    assert "SLURM does not take it: sbatch: error: Batch job submission failed" in done.stderr
    assert is_clean(lab)
    child = lab.begin("a:s0", "--on", "slurm", SLEEP="100")
    lab.until(lambda: len(lab.runs()) == 1, child)
    (job,) = slurm.states() or {}
    subprocess.run(["scancel", "--signal=KILL", job], check=True)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, "failed     a:s0" in err) == (1, True), err
    assert is_clean(lab)
    assert lab.run("a:s0", "--on", "slurm")["jobs"][0]["end"] == "done"


def test_a_silent_run_of_another_host_is_dead_if_its_job_is_gone(tmp_path: Path, conf: Path,
    monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("SLURM_CONF", str(conf))
    monkeypatch.setenv("SLURM_JOB_ID", "999999")
    monkeypatch.setenv("SLURM_CLUSTER_NAME", str(slurm.cluster()))
    layout = RunLayout(tmp_path / "run")
    layout.root.mkdir()
    number = attempts.claim(layout)
    path = layout.attempt(number) / "owner.json"
    write_json(path, {**read_json(path), "host": "elsewhere"})
    (layout.attempt(number) / "live.json").touch()
    meta = tmp_path / "meta"
    meta.mkdir()
    slurm.forget()
    assert attempts.life(layout, number, store_meta=meta) == "alive"  # it has just said so
    os.utime(layout.attempt(number) / "live.json", (time.time() - 90,) * 2)
    assert attempts.life(layout, number, store_meta=meta) == "dead"
    write_json(path, {**read_json(path), attempts.WITHIN: {**slurm.describe("999999"), "uid": -1}})
    assert attempts.life(layout, number, store_meta=meta) == "alive"
    gone = {**owner.describe(), "pid": 2**22 - 1, owner.QUEUED_AS: slurm.describe("999999")}
    assert owner.is_dead(gone)
    elsewhere = {**gone, owner.QUEUED_AS: {**slurm.describe("999999"), "cluster": "another"}}
    assert not owner.is_dead(elsewhere)


def test_settings_have_the_names_of_submitit() -> None:
    from expdb.actions.run.submit import require_slurm

    with pytest.raises(BadInput, match="submitit has no setting gpus"):
        require_slurm({"--slurm": {"gpus": 1}})


def test_a_job_whose_claim_is_anothers_or_that_is_told_to_stop_trains_nothing(
    tmp_path: Path,
) -> None:
    claim, made = tmp_path / "claim.json", tmp_path / "made"
    write_json(claim, {"token": "b"})
    told = on_node.Told(
        argv=("python", "-c", f"open({str(made)!r}, 'w')"), cwd=str(tmp_path), environment={},
        without=(), log=str(tmp_path / "log"), claim=str(claim), token="a", folder=str(tmp_path),
    )  # fmt: skip
    before = {number: signal.getsignal(number) for number in on_node.HEEDED}
    try:
        on_node.work(told)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["claim.json"]
        (tmp_path / on_node.STOP).touch()
        on_node.work(replace(told, token="b"))
        assert not made.exists()
        (tmp_path / on_node.STOP).unlink()
        on_node.begin(on_node.plain(replace(told, token="b")))
        assert made.exists()
        assert read_json(tmp_path / f"{on_node.END}0.json")["status"] == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
