"""Events that somebody has seen: `a`, the open count, the header, the title and the bell."""

from __future__ import annotations

import threading

import pytest

from expdb.store.layout import RunLayout
from expdb.store.marks import add_event, touch_status
from expdb_tui.screens import page
from expdb_tui.session import Session
from expdb_tui.window import BACK, SAVE, Window, has_title
from tests.tui.conftest import make_runs
from tests.tui.driving import drive, press, screen_of, settle

pytestmark = pytest.mark.slow


def layout_of(session: Session, name: str) -> RunLayout:
    """Return the folder of the only run of an experiment."""
    return RunLayout(next(session.store.root.glob(f"exp={name}/run=*")))


def fire(session: Session, name: str, step: int, severity: str, **facts: object) -> None:
    """Let a rule fire in a run."""
    layout = layout_of(session, name)
    add_event(layout, step, severity, "loss_spike", f"it rose at {step}", facts)
    touch_status(layout)


def tabs_of(app) -> str:
    """Return the line of the tabs."""
    return next(line for line in screen_of(app) if "Curves" in line)


def heard(said: list[str], text: str) -> bool:
    """Tell whether something was said; on a busy machine also that reading takes long."""
    return any(text in one for one in said)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What screens say at their foot: it stands there for a while only."""
    found: list[str] = []
    monkeypatch.setattr(page.Page, "say", lambda _, text, **how: found.append(text))
    return found


def test_an_event_is_acknowledged_and_undo_opens_it_again(
    own_session: Session, said: list[str]
) -> None:
    runbook = {"cause": "a bad batch", "checks": "look at it", "action": "skip it"}
    fire(own_session, "exp01", 4, "critical", runbook=runbook, batches=[7, 9])
    fire(own_session, "exp01", 6, "warn")

    async def story(app, pilot):
        await press(app, pilot, "down")
        assert screen_of(app)[4].split()[-3] == "2"
        await press(app, pilot, "enter", *["right_square_bracket"] * 3)
        assert "Events 2" in tabs_of(app)
        await press(app, pilot, "enter")
        shown = "\n".join(screen_of(app))
        assert "a bad batch" in shown
        assert "micro-batches of the step  7-9" in shown
        await press(app, pilot, "a")
        assert any("All 2 open" in line for line in screen_of(app))
        await press(app, pilot, "tab", "enter")
        assert heard(said, "acknowledged loss_spike at 4")
        assert "now  acknowledged" in "\n".join(screen_of(app))
        await press(app, pilot, "escape", "a")
        assert heard(said, "acknowledged already")
        assert "Events 1" in tabs_of(app)
        await press(app, pilot, "1")
        assert screen_of(app)[4].split()[-3] == "1"
        await press(app, pilot, "6", "u", "tab", "enter")
        await press(app, pilot, "1")
        assert screen_of(app)[4].split()[-3] == "2"
        await press(app, pilot, "enter", "a", "tab", "tab", "enter")
        assert heard(said, "acknowledged 2 events")

    drive(own_session, story, size=(120, 36))


def test_a_critical_event_rings_once_and_stands_in_the_title(
    own_session: Session, said: list[str]
) -> None:
    async def story(app, pilot):
        rings = []
        app.bell = lambda: rings.append(1)
        assert app.window.title.startswith("expdb: ")
        await press(app, pilot, "5")
        fire(own_session, "exp01", 8, "critical")
        app._next_pulse = own_session.looked_s = 0.0
        app.tick()
        await settle(app, pilot)
        assert rings == [1]
        assert app.window.title.startswith("! exp01 loss_spike - expdb: ")
        assert "exp01 loss_spike at 8" in said
        app._next_pulse = own_session.looked_s = 0.0
        app.tick()
        await settle(app, pilot)
        assert rings == [1], "it rang again"
        app.open_run(layout_of(own_session, "exp01").id)
        assert app.window.title.startswith("expdb: "), "somebody looks at it"

    drive(own_session, story)


def test_the_header_counts_on_every_screen_what_nobody_has_opened(own_session: Session) -> None:
    layout = layout_of(own_session, "exp01")
    status = layout.status_json.read_text()
    failed = status.replace('"state":"finished"', '"state":"failed"')
    assert failed != status

    async def story(app, pilot):
        assert screen_of(app)[0].endswith("idle")
        await press(app, pilot, "5")
        layout.status_json.write_text(failed)
        touch_status(layout)
        app._next_pulse = own_session.looked_s = 0.0
        app.tick()
        await settle(app, pilot)
        assert "✗1" in screen_of(app)[0]
        assert app.window.title == "expdb: 1 failed"
        app.open_run(layout.id)
        await settle(app, pilot)
        assert "✗1" not in screen_of(app)[0]

    drive(own_session, story)


def test_a_title_is_plain_text_and_given_back() -> None:
    said: list[str] = []
    window = Window(said.append)
    window.say("! a\x1b]2;b\x07 loss_spike")
    window.say("! a\x1b]2;b\x07 loss_spike")
    assert said == [f"{SAVE}\x1b]2;! a\\x1b]2;b\\x07 loss_spike\x07"]
    window.say("x" * 200)
    assert len(said[-1]) < 100
    window.reset(said.append)
    assert said[-1] == BACK
    window.reset(said.append)
    assert len(said) == 3
    assert has_title({"TERM": "screen-256color"})
    assert not any(has_title({"TERM": term}) for term in ("", "linux", "dumb", "vt220"))


def test_new_runs_are_counted_above_and_a_narrow_row_keeps_seed_and_events(
    own_session: Session,
) -> None:
    fire(own_session, "exp01", 6, "warn")

    async def story(app, pilot):
        row = next(line for line in screen_of(app) if "exp01" in line)
        assert "exp01:s0 !" in row
        parts = [part for strip in app.screen._compositor.render_strips() for part in strip]
        grounds = {part.style.bgcolor for part in parts if part.style is not None}
        assert all(ground is None or ground.is_default for ground in grounds), "its own ground"
        await press(app, pilot, "end")
        here = app.screen.run_here
        make_runs(own_session.directory)
        await press(app, pilot, "ctrl+r")
        assert app.screen.run_here == here
        assert "3 new above" in screen_of(app)[1]
        await press(app, pilot, "home")
        assert "new above" not in screen_of(app)[1]

    drive(own_session, story, size=(52, 6), depth="16")


def test_what_takes_long_can_be_given_up_and_what_nobody_expected_is_written_down(
    session: Session, tmp_path, monkeypatch, said: list[str]
) -> None:
    monkeypatch.setattr(page, "SLOW_S", 0.05)

    async def story(app, pilot):
        app.faults = tmp_path / "a" / "faults.log"
        done = threading.Event()
        taken = []
        said.clear()
        app.screen.read(lambda reader: done.wait(20), taken.append, group="long")
        while page.STILL not in said:
            await pilot.pause(0.01)
        await pilot.press("escape")
        assert heard(said, "stopped")
        done.set()
        await settle(app, pilot)
        assert taken == []
        app.screen.read(lambda reader: 1 / 0, taken.append, group="odd")
        await settle(app, pilot)
        assert heard(said, "ZeroDivisionError")
        assert "ZeroDivisionError: division by zero" in app.faults.read_text()

    drive(session, story)


def test_that_it_takes_long_stands_no_longer_than_it_takes(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "SLOW_S", 0.01)

    async def story(app, pilot):
        for keys in (("down", "enter"), ("right_square_bracket",), ("4",), ("6",)):
            await press(app, pilot, *keys)
            await pilot.pause(0.05)
            await settle(app, pilot)
            assert page.STILL not in screen_of(app)[-1]

    drive(session, story)
