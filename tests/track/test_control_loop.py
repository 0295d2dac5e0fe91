"""What `expdb ctl` asks is done between two updates; training gives the same bits as without."""

from __future__ import annotations

from pathlib import Path

import pytest

from expdb.store import control
from expdb.store.checkpoints import read_manifests
from expdb.track.control import Control
from tests.track import tiny_training as tiny

ASKS = {3: ("save",), 5: ("eval", "save"), 8: ("pause",), 12: ("go",), 15: ("eval",)}


class Asking(tiny.StandIn):
    """A stand-in that requests come to, and that looks at each border."""

    def __init__(self, root, **more):
        super().__init__(root, **more)
        self.layout.attempt(self.attempt).mkdir(parents=True, exist_ok=True)
        self.id = "k3f9x2m7qd"
        self.now = 0.0
        self.control = Control(self.layout, self.attempt, clock=self.clock)
        self.asked = {}

    def clock(self):
        self.now += 1.0  # every look is due
        return self.now

    def ask(self, verb):
        self.asked.setdefault(verb, []).append(control.request(self.layout, self.attempt, verb))

    def event(self, step, severity, rule, message, runbook=""):
        self.events.append((step, severity, rule, message))

    def answers(self):
        found = {verb: [control.answer(self.layout, one) for one in self.asked[verb]]
                 for verb in self.asked}  # fmt: skip
        return {
            verb: [one and (one.step, one.ok, one.outcome) for one in answers]
            for verb, answers in found.items()
        }


@pytest.fixture
def no_sleep(monkeypatch):
    """Each poll of a pause brings the next request."""

    def install(run, *verbs):
        left = iter(verbs)
        instead = {"sleep": lambda seconds: run.ask(next(left))}
        monkeypatch.setattr("expdb.track.control.wait_for_go.__kwdefaults__", instead)

    return install


def trace(run, asks, **options):
    def at_step(step):
        for verb in asks.get(step, ()):
            run.ask(verb)

    return tiny.train(run, tiny.build(), steps=20, seed=1, at_step=at_step, **options)


def test_the_same_bits_with_and_without_requests(tmp_path: Path, no_sleep) -> None:
    tiny.torch.manual_seed(1)
    plain = trace(tiny.StandIn(tmp_path / "plain"), {})
    tiny.torch.manual_seed(1)
    run = Asking(tmp_path / "asked")
    no_sleep(run, "save", "eval", "go")
    asked = trace(run, ASKS)
    assert asked["points"] == plain["points"]
    assert asked["ids"] == plain["ids"]
    assert asked["digest"] == plain["digest"]
    assert run.answers() == {
        "save": [(3, True, "checkpoint saved"), (5, True, "checkpoint saved"),
                 (8, True, "checkpoint saved")],
        "eval": [(5, True, "evaluated"), (8, True, "evaluated"), (15, True, "evaluated")],
        "pause": [(8, True, "paused")],
        "go": [(8, True, "goes on"), (12, True, "it was not paused")],
    }  # fmt: skip
    assert run.events == [
        (8, "info", "ctl", "paused; go on: expdb ctl k3f9 go"),
        (8, "info", "ctl", "goes on"),
    ]
    assert ("phase", "paused") in run.console.said
    assert [item.step for item in read_manifests(run.layout)] == [3, 5, 8, 10, 20]
    assert sorted(run.series("val/loss")) == [0, 5, 7, 8, 14, 15, 20]


def test_a_resume_from_a_checkpoint_that_was_asked_for_is_exact(tmp_path: Path) -> None:
    tiny.torch.manual_seed(1)
    whole = trace(tiny.StandIn(tmp_path / "whole"), {})
    tiny.torch.manual_seed(1)
    first = Asking(tmp_path / "run")
    with pytest.raises(SystemExit) as end:
        trace(first, {4: ("eval",), 6: ("stop",)})
    assert end.value.code == 143
    assert first.answers()["stop"] == [(6, True, "checkpoint saved")]
    assert first.events == [("preempted", "ctl stop at step 6, checkpoint saved")]
    again = Asking(tmp_path / "run", attempt=2, resumed_from=6)
    rest = trace(again, {})
    for key, points in whole["points"].items():
        assert rest["points"][key] == {k: v for k, v in points.items() if int(k) >= 6}
    assert rest["digest"] == whole["digest"]


def test_a_stop_ends_a_pause(tmp_path: Path, no_sleep) -> None:
    run = Asking(tmp_path / "run")
    no_sleep(run, "stop")
    with pytest.raises(SystemExit):
        trace(run, {2: ("pause",)})
    assert run.answers()["stop"] == [(2, True, "checkpoint saved")]
    assert run.events[-1] == ("preempted", "ctl stop at step 2, checkpoint saved")


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    run = Asking(tmp_path / "run")
    run.ask("save")
    run.ask("eval")
    trace(run, {}, evaluate=None)
    assert run.answers() == {
        "save": [(0, False, "nothing to save before the first update")],
        "eval": [(0, False, "it has no evaluation")],
    }
