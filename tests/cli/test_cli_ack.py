"""`events --ack`: somebody has seen what rules found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import expdb


@pytest.fixture
def alerted(tmp_path: Path) -> tuple[str, Path]:
    """A store with one run that said two things, and the id of that run."""
    settings = {"print": "quiet", "dirty": "allow"}
    run = expdb.start({"seed": 1, "expdb": settings}, name="exp03", store=tmp_path / "runs")
    run.alert("[red]it jumped", level="warn", step=3)
    run.alert("it burst", level="critical", step=5)
    run.finish()
    return run.id, tmp_path


def test_events_are_acknowledged_by_step_and_all_at_once(here, alerted):
    run, top = alerted
    done = here("-C", str(top), "events", f"{run}@5", "--ack")
    assert (done.code, done.out) == (0, "")
    assert "acknowledged 1 event of" in done.err
    data = json.loads(here("-C", str(top), "events", run, "--json").out)
    assert [one["acknowledged"] for one in data["events"]] == [False, True]
    assert "seen" in here("-C", str(top), "events", run).out
    done = here("-C", str(top), "events", run, "--ack", "--json")
    assert [one["step"] for one in json.loads(done.out)["acknowledged"]] == [3]
    assert "(as it was)" in here("-C", str(top), "events", run, "--ack").err
    done = here("-C", str(top), "undo")
    assert done.code == 0
    assert "1 event open again" in done.out + done.err


def test_what_cannot_be_acknowledged_is_refused(here, alerted):
    run, top = alerted
    done = here("-C", str(top), "events", f"{run}@4", "--ack")
    assert done.code == 3
    assert "has no event at step 4" in done.err
    for more in (("--replay",), ("--severity", "warn"), ("--csv",), (run,)):
        assert here("-C", str(top), "events", run, "--ack", *more).code == 2
