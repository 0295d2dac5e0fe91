"""The lines of `expdb run`: the plan, how far it is, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from expdb.actions.run.results import (
    End,
    Ended,
    Going,
    Job,
    RunPlan,
    RunResult,
    Source,
    cost,
)
from expdb.model import Pin
from expdb.query.status_results import Reason
from expdb.report import run

COMMIT, TREE = "7c1e88a" + "b" * 33, "4d2f6a1" + "d" * 33
PIN = Pin(commit="4be1f02" + "a" * 33, tree=TREE, dirty=True, snapshot=COMMIT)


def job(experiment: str, seed: int | None, state: str, **more: Any) -> Job:
    words = ["python", "train.py", f"+exp={experiment}"]
    words += [] if seed is None else [f"seed={seed}"]
    known = {"variant": "", "argv": tuple(words), "digest": "v1:0"}
    return Job(experiment=experiment, seed=seed, state=state, **{**known, **more})


def plan(**more: Any) -> RunPlan:
    ratio = Reason(kind="config", name="schedule.min_ratio", old=0.1, new=0)
    moe = Reason(kind="file", name="expdb/demo/moe.py")
    jobs = (
        job("exp02_cosine", 0, "stale", reasons=(ratio, moe), estimate_s=252.0),
        job("exp04_bad_batch", 1, "missing", estimate_s=250.0),
        job("exp06_moe", 1, "crashed", resumes="a9m4y7h3pq", step=100, estimate_s=160.0),
        job("exp07\x1b[31m", None, "preempted"),
    )
    known: dict[str, Any] = {
        "jobs": jobs,
        "num_declared": 12,
        "left_out": {"up to date": 5, "failed": 1, "running": 1},
        "invalid": (("exp10_long", "schedule=linear: no such file in conf/schedule"),),
        "folder": Path("/p"),
        "code": {},
    }
    return RunPlan(**{**known, **more})


def ended(one: Job, end: End, **more: Any) -> Ended:
    return Ended(job=one, end=end, **more)


def result(*ends: Ended, stopped: bool = False) -> RunResult:
    return RunResult(source=Source(pin=PIN), ended=ends, seconds=252.0, was_stopped=stopped)


def some() -> RunResult:
    first, second, third, last = plan().jobs
    log = Path("/p/runs/.expdb/jobs/exp04_bad_batch~s1.log")
    return result(
        ended(first, "done", run="k3f9x2m7qd", seconds=250.0),
        ended(second, "failed", run="b3w9t6d1zm", said="exit 1, failed: NaN", log=log, seconds=9.0),
        ended(third, "taken", said="exp06_moe seed 1 is held by process 7 on this host"),
        ended(last, "not begun"),
    )


def test_the_plan(screen, golden):
    pipe = screen(terminal=False, ascii=True)
    golden("run-plan-100.txt", run.render_plan(plan(), screen(), workers=2, cost_s=None))
    golden("run-plan-pipe.txt", run.render_plan(plan(more=3), pipe, workers=2, cost_s=412.0))
    nothing = plan(jobs=(), left_out={"up to date": 5, "stale": 2})
    assert run.render_plan(nothing, pipe, workers=1, cost_s=0.0) == [
        "nothing to do: 2 stale (--stale), 5 up to date"
    ]
    assert run.quiet_plan(plan().jobs)[:2] == ["exp02_cosine:s0", "exp04_bad_batch:s1"]


def test_which_code_they_run(screen):
    assert run.source_lines(Source(pin=PIN), screen()) == [
        "code       snapshot 7c1e88a, tree 4d2f6a1; jobs have work trees of their own: edit on"
    ]
    (line,) = run.source_lines(Source(why_in_place="not in a git repository"), screen())
    assert line.startswith("code       not in a git repository: jobs run in this folder")
    (line,) = run.source_lines(Source(why_in_place="--in-place"), screen())
    assert line.startswith("code       jobs run in this folder")


def test_how_far_it_is(screen):
    first = plan().jobs[0]
    going = Going(num_done=3, num_failed=1, num_running=2, num_all=9, eta_s=240.0)
    assert run.progress_line(going) == "3/9 done, 2 running, 1 failed  eta 4:00"
    assert run.event_line(going, screen()) == ""
    begun = Going(num_done=0, num_failed=0, num_running=1, num_all=9, eta_s=None, begun=first)
    assert run.event_line(begun, screen()) == ("begins     exp02_cosine:s0  0/9 done, 1 running")
    done = ended(first, "done", run="k3f9x2m7qd", seconds=250.0)
    over = Going(num_done=1, num_failed=0, num_running=0, num_all=9, eta_s=240.0, ended=done)
    assert run.event_line(over, screen()) == (
        "done       exp02_cosine:s0  k3f9  4m10s  1/9 done, 0 running, eta 4:00"
    )
    assert "Ctrl-C again kills them" in run.progress_line(
        Going(num_done=0, num_failed=0, num_running=1, num_all=2, eta_s=9.0, is_stopping=True)
    )


def test_what_came_of_it(screen, golden):
    golden("run-result-100.txt", run.render_result(some(), screen(), start=Path("/p")))
    assert run.next_commands(some(), screen()) == [
        ("look", "expdb show b3w9"),
        ("again", "expdb run --missing --failed"),
    ]
    assert run.new_runs(some()) == ["k3f9x2m7qd", "b3w9t6d1zm"]
    stopped = result(ended(plan().jobs[0], "stopped", run="k3f9x2m7qd"), stopped=True)
    assert run.next_commands(stopped, screen()) == [("go on", "expdb run --missing")]
    stale = plan().jobs[0]
    left = result(ended(stale, "stopped", run="k3f9x2m7qd"), ended(stale, "not begun"))
    assert run.next_commands(left, screen()) == [("go on", "expdb run --missing --stale")]
    odd = ended(plan().jobs[0], "done", said="it recorded tree 1234567, not the pinned 4d2f6a1")
    assert run.warnings(result(odd)) == [f"exp02_cosine:s0: {odd.said}"]
    assert run.next_commands(result(odd), screen()) == []


def test_the_documents(golden):
    from expdb.report.json import dumps

    made = run.json_of_run(plan(), None, workers=2, cost_s=None)
    golden("run-plan.json", dumps(made).splitlines())
    done = run.json_of_run(plan(), some(), workers=2, cost_s=412.0)
    assert (done["commit"], done["tree"], done["dry_run"]) == (COMMIT, TREE, False)
    assert [one["end"] for one in done["jobs"]] == ["done", "failed", "taken", "not begun"]


@pytest.mark.parametrize(
    ("estimates", "workers", "whole"),
    [((), 2, 0.0), ((3.0, 1.0, 1.0), 2, 3.0), ((3.0, 1.0, 1.0), 1, 5.0), ((1.0, None), 2, None)],
)
def test_what_it_costs(estimates, workers, whole):
    assert cost(estimates, workers) == whole
