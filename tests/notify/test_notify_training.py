"""A training process that tells people: it waits for nobody, says what it could not tell, and what
it left is told by who comes next.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.actions.watch import Watch
from expdb.notify import notifier
from expdb.notify.address import Reach
from expdb.notify.channel import channels_of
from expdb.notify.notifier import Notifier
from expdb.query.channels import declared_channels
from expdb.store.layout import RunLayout
from expdb.store.marks import add_event
from expdb.store.records import read_events
from expdb.store.store import open_store
from tests.notify.stubs import Web
from tests.notify.test_notify_delivery import STEP

KEY = "11aa22bb-KEY"
TEAM = {"kind": "wecom", "url_env": "EXPDB_WECOM_URL"}
NOWHERE = f"http://127.0.0.1:1/send?key={KEY}"
RULE = {
    "own": {
        "signal": "own/x", "detector": "threshold", "above": 3.0, "severity": "warn",
        "cooldown": 0, "decision": "lower the rate",
        "runbook": {"cause": "c", "checks": "look", "action": "lower it"},
    }
}  # fmt: skip


def begun(store: Path, *, notify: Any = None, monitor: Any = False, **given: Any) -> Any:
    settings = {
        "dirty": "allow", "monitor": monitor, "print": "lines", "watch": False,
        "notify": {"team": TEAM} if notify is None else notify,
    }  # fmt: skip
    return expdb.start({"seed": 1, "expdb": settings}, name="exp03", store=store, **given)


def steps(web: Web) -> list[int]:
    return [int(step) for text in web.texts for step in STEP.findall(text)]


def watching(store: Path, url: str) -> Watch:
    reach = Reach(env={"EXPDB_WECOM_URL": url}, base=store.parent, timeout_s=5)
    return Watch(open_store(store), channels_of({"team": TEAM}), reach)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a run waits as long as a busy machine may need."""
    monkeypatch.setattr(notifier, "FLUSH_S", 60.0)


@pytest.fixture
def hook(web: Web, monkeypatch: pytest.MonkeyPatch) -> Web:
    monkeypatch.setenv("EXPDB_WECOM_URL", web.url())
    return web


def test_500_firings_are_one_message_that_opens_and_one_that_ends_it(
    hook: Web, tmp_path: Path
) -> None:
    with begun(tmp_path / "runs", monitor=RULE) as run:
        for step in range(520):
            run.log({"own/x": 4.0 if step < 500 else 1.0}, step=step)
    assert [text.splitlines()[0] for text in hook.texts] == [
        f"warn: own at step 0 of {run.id[:4]} exp03",
        f"over: own at step 500 of {run.id[:4]} exp03",
    ]
    assert "do: lower it" in hook.texts[0].splitlines()
    assert hook.texts[0].splitlines()[2] == "value 4.000, threshold 3.000"
    assert hook.texts[0].splitlines()[-1] == f"expdb events {run.id[:4]}@0"


def test_training_waits_for_no_answer(hook: Web, tmp_path: Path) -> None:
    hook.gate.clear()
    run = begun(tmp_path / "runs")
    run.alert("first", step=0)
    assert hook.arrived.wait(20)
    for step in range(1, 61):  # while the other side has the first and says nothing
        run.log({"train/loss": 1.0}, step=step)
        run.alert("another", step=step)
    assert len(hook.got) == 1
    assert len(read_events(RunLayout(run.dir), [])) == 61
    hook.gate.set()
    run.finish()
    assert steps(hook) == list(range(61))


def test_a_channel_that_is_down_stops_nothing_and_what_is_left_is_told_later(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EXPDB_WECOM_URL", NOWHERE)
    store = tmp_path / "runs"
    run = begun(store)
    for step in range(30):
        run.log({"train/loss": 1.0}, step=step)
        run.alert("x", step=step)
    run.fail("ValueError: bad")
    said = capfd.readouterr().err
    assert "team took nothing (Connection refused); " in said
    assert said.count("took nothing") == 1
    assert (
        "warning: notify: not told yet: 31 through team; the next attempt does,"
        " or: expdb events --watch --notify" in said
    )
    watch = watching(store, web.url())
    [told] = watch.look().told
    assert (told.num_told, told.num_waiting) == (31, 0)
    assert [step for step in steps(web) if step < 29] == list(range(29))
    assert "critical: run_failed at step 29 of" in web.texts[-1]
    assert watching(store, web.url()).look().told == ()


def test_no_key_is_written_or_said(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hook").write_text(web.url())
    monkeypatch.setenv("EXPDB_WECOM_URL", web.url())
    web.answers = [(500, f"no {web.url()}".encode())] * 2
    named = {"team": TEAM, "file": {"kind": "webhook", "url_file": str(tmp_path / "hook")}}
    with begun(tmp_path / "runs", notify=named) as run:
        run.alert(f"look at {web.url()} or {KEY}", step=3)
        run.note(f"posted to {web.url()}")
        run.log_text("said", web.url(), step=3)
        assert web.arrived.wait(20)
    assert len(web.got) >= 2
    assert KEY not in capfd.readouterr().err
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert any(b"EXPDB_WECOM_URL" in path.read_bytes() for path in files)
    assert not any(KEY.encode() in path.read_bytes() for path in files)


@pytest.mark.slow
def test_the_next_attempt_tells_what_the_one_before_left(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EXPDB_WECOM_URL", raising=False)
    store = tmp_path / "runs"
    run = begun(store)
    run.alert("left", step=7)
    run.preempt("stopped")
    assert web.got == []
    monkeypatch.setenv("EXPDB_WECOM_URL", web.url())
    again = begun(store, resume=run.id)
    assert web.arrived.wait(20)
    again.alert("new", step=8)
    again.finish()
    assert steps(web) == [7, 8]


def test_a_long_outage_becomes_an_event(tmp_path: Path, store_root: Path) -> None:
    layout = RunLayout(store_root / "exp=exp03" / "run=e7s5g2p0va")
    layout.root.mkdir(parents=True)
    now, said, events = [1_795_000_000.0], list[str](), list[tuple[Any, ...]]()
    heard, spoken = threading.Event(), threading.Event()

    def alert(*event: Any) -> None:
        events.append(event)
        heard.set()

    def say(line: str) -> None:
        said.append(line)
        spoken.set()

    made = Notifier(
        channels_of({"team": TEAM}), layout, "exp03", env={"EXPDB_WECOM_URL": NOWHERE}, say=say,
        alert=alert, step=lambda: 12, clock=lambda: now[0],
    )  # fmt: skip
    made.start()
    add_event(layout, 3, "warn", "alert", "x", {"created_at_ms": int(now[0] * 1000)})
    made.poke()
    assert spoken.wait(20)
    assert said == [
        "notify: team took nothing (Connection refused); 1 to be told; it is tried again"
    ]
    now[0] += notifier.OUTAGE_S + 1
    made.poke()
    assert heard.wait(20)
    message = "channel team took nothing (Connection refused); 1 to be told, for 10m01s"
    assert events == [(12, "warn", "notify", message)]
    now[0] += 1000
    made.poke()
    made.close("finished", "", 1)
    assert len(events) == 1
    assert said[-1].startswith("notify: not told yet: 1 through team;")


def test_without_channels_there_is_no_thread(tmp_path: Path) -> None:
    with begun(tmp_path / "runs", notify={}):
        assert "expdb-notify" not in {thread.name for thread in threading.enumerate()}
    assert not (tmp_path / "runs/.expdb/notify").exists()


@pytest.mark.slow
def test_a_kill_with_much_to_tell_loses_nothing(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPDB_WECOM_URL", NOWHERE)
    store = tmp_path / "runs"
    child = os.fork()
    if child == 0:
        run = begun(store)
        for step in range(60):
            run.alert("x", step=step)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    watch = watching(store, web.url())
    assert sum(told.num_told for told in watch.look().told) == 61
    text = "\n".join(web.texts)
    assert steps(web)[:60] == list(range(60))
    assert text.count("run_crashed") == 1
    for _ in range(2):
        assert watching(store, web.url()).look().told == ()


def test_without_a_config_here_the_channels_are_those_of_the_newest_run(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    pager = {"kind": "command", "command": ["touch", "pwned"]}
    with begun(store, notify={"pager": pager, "team": TEAM}) as run:
        pass
    found = declared_channels([tmp_path], open_store(store), {})
    # The run may be another's, so nothing that it names is started here.
    assert [one.name for one in found.channels] == ["team"]
    assert found.where == f"the config of run {run.id[:4]}"
    assert found.note.startswith("left out: pager; the config of run ")
