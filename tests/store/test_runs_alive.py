"""Who lives: the state of a run that is true now."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expdb.model import Run, RunState
from expdb.store import attempts, owner, recorder, runs
from expdb.store.files import write_bytes
from expdb.store.layout import RunLayout
from expdb.store.recorder import Recorder
from expdb.store.status import Status, write_status

MakeRun = Callable[..., RunLayout]


Read = Callable[[RunLayout], Run]


def test_a_live_run_is_read_from_its_journal(make_run_dir: MakeRun, read: Read) -> None:
    layout = make_run_dir(max_steps=9)
    assert read(layout).last_step is None
    item = Recorder(layout, run=layout.id, attempt=1)
    for step in range(7):
        item.write(("a",), (float(step),), step, 0)
        if step == 3:
            item.save_book()
    run = read(layout)
    assert (run.state, run.last_step, run.ended_at_ms) == (RunState.RUNNING, 6, None)
    assert (run.series["a"].count, run.series["a"].last) == (7, 6.0)
    item.close()
    assert read(layout).series["a"].count == 7  # between the last part and the last status


def test_a_live_run_is_read_though_its_summaries_change_all_the_time(
    make_run_dir: MakeRun, read: Read
) -> None:
    """Looking again until nothing has changed meanwhile would never end."""
    layout = make_run_dir()
    item = Recorder(layout, run=layout.id, attempt=1)
    for step in range(20_000):
        item.write(("a",), (float(step),), step, 0)
        if step == 10:
            item.save_book()
    data, is_over = layout.series_json.read_bytes(), threading.Event()

    def change() -> None:
        while not is_over.is_set():
            write_bytes(layout.series_json, data, durable=False)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        assert [read(layout).series["a"].count for _ in range(3)] == [20_000] * 3
    finally:
        is_over.set()
        thread.join()
    item.close()


def test_the_summary_of_a_live_run_misses_nothing_while_it_seals(
    make_run_dir: MakeRun, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 200)
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    layout, written = make_run_dir(), 0
    item = Recorder(layout, run=layout.id, attempt=1)

    def write() -> None:
        nonlocal written
        for step in range(3000):
            item.write(("a",), (float(step),), step, 0)
            written = step + 1
            if step % 20 == 0:
                time.sleep(0.001)

    thread = threading.Thread(target=write)
    thread.start()
    looks = 0
    while thread.is_alive():
        before, run = written, read(layout)
        count = run.series["a"].count if "a" in run.series else 0
        assert count >= before
        assert count == 0 or run.series["a"].last_step == count - 1
        assert run.problems == ()
        looks += 1
    thread.join()
    item.close()
    assert looks > 2
    assert read(layout).series["a"].count == 3000


def test_states_of_runs_whose_process_is_gone_or_elsewhere(
    make_run_dir: MakeRun, read: Read, dead: dict[str, Any]
) -> None:
    assert read(make_run_dir("running", who=dead)).state is RunState.CRASHED
    assert read(make_run_dir("running", who=dead)).reason == runs.SILENT
    for state in ("finished", "failed", "preempted", "crashed"):
        assert read(make_run_dir(state, who=dead)).state == state
        assert read(make_run_dir(state)).state == state
    assert read(make_run_dir(None, who=dead)).state is RunState.CRASHED
    assert read(make_run_dir(None)).state is RunState.RUNNING
    away = make_run_dir("running", who={**dead, "host": "elsewhere"})
    assert read(away).state is RunState.RUNNING
    then = time.time() - 700
    os.utime(away.attempt(1), (then, then))
    run = read(away)
    assert (run.state, run.reason) == (RunState.LOST, "another host, no sign for 10 minutes")


def test_a_run_is_crashed_as_soon_as_its_process_is_killed(
    make_run_dir: MakeRun, read: Read
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        start = owner.process_start(child.pid)
        layout = make_run_dir(who={**owner.describe(), "pid": child.pid, "start": start})
        assert read(layout).state is RunState.RUNNING
        child.kill()
        child.wait()
    assert read(layout).state is RunState.CRASHED


def test_a_live_run_is_never_crashed_because_a_file_of_it_is_damaged(
    make_run_dir: MakeRun, read: Read, dead: dict[str, Any]
) -> None:
    layout = make_run_dir("running", who=dead)
    number = attempts.claim(layout)
    for path in (layout.attempt(number) / "pin.json", layout.status_json, layout.series_json):
        path.write_bytes(b"{")
        assert read(layout).state is RunState.RUNNING
    run = read(layout)
    assert [item.number for item in run.attempts] == [1, 2]
    assert run.pin.reasons == ("its pin.json is damaged",)
    assert len(run.problems) == 3


def test_a_run_that_goes_on_is_running_before_its_status_says_so(
    make_run_dir: MakeRun, read: Read, dead: dict[str, Any]
) -> None:
    for state in ("crashed", "preempted"):
        layout = make_run_dir(state, who=dead)
        assert read(layout).state == state
        attempts.claim(layout)
        assert read(layout).state is RunState.RUNNING


def test_a_run_that_ends_between_two_looks_did_not_crash(
    make_run_dir: MakeRun, read: Read, dead: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_run_dir("running", who=dead)
    real = attempts.life

    def life(at: RunLayout, number: int, *, store_meta: Path) -> str:
        write_status(layout, Status(state="finished", last_step=5))
        return real(at, number, store_meta=store_meta)

    monkeypatch.setattr(attempts, "life", life)
    run = read(layout)
    assert (run.state, run.last_step) == (RunState.FINISHED, 5)


def test_counts_of_an_earlier_attempt_are_not_taken_for_this_one(
    make_run_dir: MakeRun, read: Read
) -> None:
    layout = make_run_dir()
    item = Recorder(layout, run=layout.id, attempt=1)
    for step in range(9):
        item.write(("a",), (1.0,), step, 0)
    item.close()
    number = attempts.claim(layout)
    item = Recorder(layout, run=layout.id, attempt=number)
    item.write(("a",), (1.0,), 9, 0)
    assert read(layout).series["a"].count == 10
