"""Requests to a run: files by which nothing but five verbs gets through, each answered once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from expdb.actions.ctl import ask
from expdb.actions.resume import plan_resume
from expdb.errors import BadInput, Corrupt, Refused
from expdb.index.reader import open_reader
from expdb.model import RunState
from expdb.store import control
from expdb.store.layout import RunLayout
from expdb.store.resolve import Resolved
from expdb.store.runs import read_run
from expdb.store.status import Status, write_status
from expdb.track.control import LOOK_S, NOTHING, Asked, Control, wait_for_go
from tests.query.made import make_run, make_store, write_run

RUN = "k3f9x2m7qd"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    folder = tmp_path / f"run={RUN}"
    (folder / "attempts/1").mkdir(parents=True)
    return RunLayout(folder)


def test_requests_come_in_order_and_leave_when_they_are_answered(layout: RunLayout) -> None:
    assert control.pending(layout, 1) == ()
    asked = [control.request(layout, 1, verb, who="ada") for verb in ("save", "pause", "go")]
    assert control.pending(layout, 1) == tuple(asked)
    assert control.answer(layout, asked[0]) is None
    control.done(layout, asked[0], step=7, ok=True, outcome="checkpoint saved")
    assert control.pending(layout, 1) == tuple(asked[1:])
    found = control.answer(layout, asked[0])
    assert found is not None
    assert (found.step, found.ok, found.outcome) == (7, True, "checkpoint saved")
    [path] = layout.control(1).glob("*.done")
    body = json.loads(path.read_text())
    assert (body["verb"], body["who"], body["step"]) == ("save", "ada", 7)
    assert body["done_at_ms"] >= body["asked_at_ms"]
    with pytest.raises(BadInput, match="cannot be asked to rm"):
        control.request(layout, 1, "rm")


def test_names_that_are_no_request_are_named_once_and_left_alone(
    layout: RunLayout, tmp_path: Path
) -> None:
    folder = layout.control(1)
    folder.mkdir()
    strange = ["1-rm.json", "x.json", "1-stop.sh", "-stop.json", "01-stop.json", "1-STOP.json"]
    strange += ["\x1b[31mred", "9" * 30 + "-stop.json", "1-stop.json.json"]
    for name in [*strange, ".tmp-2-stop.json-ab", "3-stop.done"]:
        (folder / name).write_text("{}")
    (folder / "4-save.json").symlink_to(tmp_path / "nowhere")
    said: list[str] = []
    clock = Clock()
    desk = Control(layout, 1, on_trouble=said.append, clock=clock)
    assert desk.take(3) == Asked(save=True)
    clock.now += LOOK_S
    assert desk.take(3) == NOTHING
    assert len(said) == len(strange)
    assert "control/\\x1b[31mred is no request; it is left alone" in said
    desk.finish("save", 3, "checkpoint saved")
    assert not (tmp_path / "nowhere").exists()
    assert {path.name for path in folder.iterdir()} >= set(strange)


def test_a_look_is_at_most_every_half_second(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Any] = []
    pending = control.pending
    monkeypatch.setattr(
        control, "pending", lambda *args, **named: looks.append(args) or pending(*args, **named)
    )
    clock = Clock()
    desk = Control(layout, 1, clock=clock)
    for _ in range(1000):
        desk.take(0)
        clock.now += 0.01
    assert len(looks) == pytest.approx(10 / LOOK_S, abs=1)
    assert Control(None).take(0) is NOTHING


def test_each_request_is_told_once_and_go_without_a_pause_is_answered(layout: RunLayout) -> None:
    clock = Clock()
    desk = Control(layout, 1, clock=clock)
    go = control.request(layout, 1, "go")
    pause = control.request(layout, 1, "pause")
    assert desk.take(5) == Asked(pause=True)
    found = control.answer(layout, go)
    assert found is not None
    assert found.outcome == "it was not paused"
    clock.now += LOOK_S
    assert desk.take(5) == NOTHING
    assert desk.is_open("pause")
    done: list[Asked] = []
    asks = iter([("save",), (), ("pause", "eval"), ("go",)])

    def poll() -> Asked:
        clock.now += LOOK_S
        for verb in next(asks):
            control.request(layout, 1, verb)
        return desk.take(5)

    last = wait_for_go(desk, 5, poll=poll, act=done.append, sleep=lambda seconds: None)
    assert last == Asked(go=True)
    assert done == [Asked(save=True), Asked(evaluate=True, pause=True)]
    assert desk.is_open("go")
    desk.finish("go", 5, "goes on")
    clock.now += LOOK_S
    assert desk.take(6) == NOTHING
    answers = [control.answer(layout, pause)]
    assert [one and one.outcome for one in answers] == ["paused"]
    assert [one.verb for one in control.pending(layout, 1)] == ["save", "eval"]


def test_a_store_that_cannot_be_read_or_written_stops_nothing(layout: RunLayout) -> None:
    said: list[str] = []
    clock = Clock()
    layout.control(1).write_text("a file")
    desk = Control(layout, 1, on_trouble=said.append, clock=clock)
    assert desk.take(1) == NOTHING
    assert "requests cannot be read" in said[0]
    layout.control(1).unlink()
    layout.control(1).mkdir()
    (layout.control(1) / "5-stop.json").mkdir()
    clock.now += LOOK_S
    assert desk.take(1) == Asked(stop=True)
    desk.finish("stop", 1, "checkpoint saved")
    assert "the answer to `stop` is not written" in said[1]
    clock.now += LOOK_S
    assert desk.take(1) == NOTHING


@pytest.fixture
def live(tmp_path: Path) -> RunLayout:
    store = make_store(tmp_path / "runs")
    return RunLayout(write_run(store, make_run(RUN, state=RunState.RUNNING, value=1.8)))


def send(live: RunLayout, verb: str, **more: Any) -> Any:
    at = Resolved(run=RUN, step=None, said="", is_literal=True)
    with open_reader(make_store(live.root.parents[1])) as reader:
        return ask(reader, at, verb, **more)


def test_a_live_run_is_asked_and_its_answer_told(live: RunLayout) -> None:
    assert send(live, "save").done_at_ms is None
    [asked] = control.pending(live, 1)

    def reply(result: Any) -> None:
        found = control.pending(live, 1)[-1]
        control.done(live, found, step=9, ok=False, outcome="it has no evaluation")

    result = send(live, "eval", wait_s=30, on_asked=reply)
    assert (result.done_step, result.ok, result.outcome) == (9, False, "it has no evaluation")
    assert control.pending(live, 1) == (asked,)


def test_a_run_that_ends_before_it_answers(live: RunLayout) -> None:
    def end(result: Any) -> None:
        write_status(live, Status(state="preempted", reason="SIGTERM at step 3"))

    result = send(live, "pause", wait_s=30, on_asked=end)
    assert (result.ended, result.done_at_ms) == ("preempted: SIGTERM at step 3", None)
    with pytest.raises(Refused, match="k3f9 baseline is not running: it is preempted") as caught:
        send(live, "stop")
    assert caught.value.hints == ("take it up again: expdb resume k3f9",)
    assert len(control.pending(live, 1)) == 1
    assert read_run(live.root, store_root=live.root.parents[1]).problems == ()


def test_a_store_that_cannot_be_written_is_said(live: RunLayout) -> None:
    live.control(1).write_text("a file")
    with pytest.raises(Corrupt, match="cannot write to the store"):
        send(live, "save")


def test_a_run_is_paused_from_the_answer_to_pause_until_that_to_go(live: RunLayout) -> None:
    def state() -> RunState:
        return read_run(live.root, store_root=live.root.parents[1]).state

    pause, go = (control.request(live, 1, verb) for verb in ("pause", "go"))
    assert state() is RunState.RUNNING
    control.done(live, pause, step=9, ok=True, outcome="paused")
    assert state() is RunState.PAUSED
    assert send(live, "save").run.state is RunState.PAUSED  # it takes requests while it waits
    control.done(live, go, step=9, ok=True, outcome="goes on")
    assert state() is RunState.RUNNING
    refused = control.request(live, 1, "pause")
    control.done(live, refused, step=9, ok=False, outcome="it does not pause")
    assert state() is RunState.RUNNING
    control.done(live, control.request(live, 1, "pause"), step=9, ok=True, outcome="paused")
    write_status(live, Status(state="preempted", reason="SIGTERM at step 9"))
    assert state() is RunState.PREEMPTED


def test_a_go_that_came_from_a_host_whose_clock_is_behind_counts(live: RunLayout) -> None:
    pause = control.request(live, 1, "pause")
    control.done(live, pause, step=9, ok=True, outcome="paused")
    early = control.Request(attempt=1, asked_us=5, verb="go")
    (live.control(1) / f"{early.name}.json").write_text("{}")
    time.sleep(0.002)
    control.done(live, early, step=9, ok=True, outcome="goes on")
    assert not control.is_held(live, 1)


def test_what_a_paused_run_refuses_says_how_it_goes_on(live: RunLayout) -> None:
    control.done(live, control.request(live, 1, "pause"), step=9, ok=True, outcome="paused")
    at = Resolved(run=RUN, step=None, said="", is_literal=True)
    with open_reader(make_store(live.root.parents[1])) as reader:
        assert reader.rows("SELECT state FROM runs") == [("paused",)]
        with pytest.raises(Refused, match="k3f9 baseline is paused") as caught:
            plan_resume(reader, at)
    assert caught.value.hints == ("let it go on: expdb ctl k3f9 go",)
