from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from textual.widget import Widget

from expdb.index.reader import open_reader
from expdb.store.store import open_store
from expdb_tui.run.screen import RunScreen
from expdb_tui.session import Session
from expdb_tui.widgets.dialog import Buttons, Dialog
from tests.tui.driving import drive, press, screen_of, settle
from tests.tui.rich_project import environment, make_rich

pytestmark = pytest.mark.slow

TABS = ("Curves", "Log", "Config", "Code", "Events", "Layers", "Evals", "Samples", "System", "Pins")


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rich")
    make_rich(folder)
    return folder


@pytest.fixture
def session(rich: Path) -> Session:
    return Session(store=open_store(rich / "runs"), directory=rich)


async def go_to(app, pilot, name: str) -> RunScreen:
    """Open the newest run, if none is open, and a tab of it."""
    if app.screen.NUMBER == 1:
        await press(app, pilot, "enter")
    screen = app.screen
    assert isinstance(screen, RunScreen)
    at = [tab.NAME for tab in screen.tabs].index(name)
    screen.open_tab(at)
    await settle(app, pilot)
    return screen


def text_of(app) -> str:
    return "\n".join(screen_of(app))


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
def test_every_tab_fits_every_size_and_says_what_it_is_about(session, size):
    said = {
        "Curves": ("train/loss", "val/loss"),
        "Log": ("60 steps in", "loss_spike"),
        "Config": ("Changed from the parent", "optim.lr", "0.003 → 0.1", "[red]実験"),
        "Code": ("1 file", "train.py", "+1", "+# an edit"),
        "Events": ("loss_spike", "non_finite", "critical"),
        "Layers": ("layer/*/grad_norm", "5 modules", "b10.attn"),
        "Evals": ("cloze", "▼", "Radar"),
        "Samples": ("sample/fox", "step 60", "\\x1b[31m"),
        "System": ("sys/cpu_pct",),
        "Pins": ("commit", "snapshot", "command"),
    }

    async def story(app, pilot):
        for name in TABS if size[0] != 120 else ("Code", "Events", "Evals"):
            await go_to(app, pilot, name)
            shown = text_of(app)
            for word in said[name]:
                assert word in shown, (name, word, shown)
            assert "exp03_lr_jump" in screen_of(app)[1]

    drive(session, story, size=size)


def test_brackets_pass_by_a_tab_without_data_and_its_screen_says_how_to_fill_it(session):
    async def story(app, pilot):
        screen = await go_to(app, pilot, "Layers")
        await press(app, pilot, "right_square_bracket")
        assert screen.tab.NAME == "Evals"
        await press(app, pilot, "left_square_bracket")
        assert screen.tab.NAME == "Layers"
        await pilot.click("#tabs", offset=(screen_of(app)[2].index("Conf") + 1, 0))
        await settle(app, pilot)
        assert screen.tab.NAME == "Config"
        await go_to(app, pilot, "Checkpoints")
        assert "run.checkpoint(step, state)" in text_of(app)
        await press(app, pilot, "C")
        assert not isinstance(app.screen, Dialog)
        assert "does not train: it is finished" in screen_of(app)[-1]

    drive(session, story)


def test_a_metric_is_zoomed_crossed_turned_and_left_again(session):
    async def story(app, pilot):
        await go_to(app, pilot, "Curves")
        assert "val/loss" in text_of(app)
        await press(app, pilot, "enter")
        assert "val/loss" not in text_of(app)
        assert "dotted: the baseline" in text_of(app)
        await press(app, pilot, "home")
        assert "at step 1" in text_of(app)
        await press(app, pilot, "right")
        assert "at step 2 " in text_of(app)
        await press(app, pilot, "shift+right")
        assert "at step 12 " in text_of(app)
        assert "log" in screen_of(app)[3]
        await press(app, pilot, "y", "x")
        assert " log" not in screen_of(app)[3]
        assert "x tokens" in text_of(app)
        await press(app, pilot, "x", "x", "escape")
        assert "val/loss" in text_of(app)
        await pilot.press(*["down"] * 6)
        await settle(app, pilot)
        assert "負荷 [x]" in text_of(app)
        assert "train/loss" not in text_of(app)
        await press(app, pilot, "escape")
        assert app.screen.NUMBER == 1

    drive(session, story)


def test_enter_on_an_event_shows_what_is_around_its_step(session):
    async def story(app, pilot):
        await go_to(app, pilot, "Events")
        await press(app, pilot, "enter")
        shown = text_of(app)
        assert "loss_spike step 41" in shown
        assert "41 deviations up" in shown
        assert "data/batch" in shown
        assert "7041" in shown
        assert "no checkpoint before it" in shown
        assert " 41 " in screen_of(app)[-2]
        await press(app, pilot, "down")
        assert "non_finite step 44" in text_of(app)
        await press(app, pilot, "escape")
        assert "severity" in text_of(app)

    drive(session, story, size=(120, 36))


def test_layers_stand_in_the_order_of_depth_and_answer_their_keys(session):
    async def story(app, pilot):
        await go_to(app, pilot, "Layers")
        rows = [row.split()[0] for row in screen_of(app)[5:10]]
        assert rows == ["▌embed", "b0.attn", "b2.attn", "b10.attn", "head"]
        await press(app, pilot, "down", "home")
        assert "b0.attn" in screen_of(app)[3]
        assert "at step 1" in screen_of(app)[3]
        await pilot.press("escape", "z", "m")
        await settle(app, pilot)
        assert "z-score" in screen_of(app)[3]
        assert "layer/*/act_rms" in screen_of(app)[3]
        await press(app, pilot, "enter")
        assert "b0.attn" in screen_of(app)[3]
        assert "embed" not in text_of(app)

    drive(session, story)


def test_a_poor_terminal_gets_ascii_alone(session):
    async def story(app, pilot):
        for name in TABS:
            await go_to(app, pilot, name)
            odd = {char for char in text_of(app) if not char.isascii()}
            assert odd <= set("実験負荷"), name

    drive(session, story, size=(100, 30), ascii=True, depth="16")


def test_a_run_that_is_gone_is_said_and_what_was_read_stays(rich, tmp_path):
    shutil.copytree(rich / "runs", tmp_path / "runs")
    own = Session(store=open_store(tmp_path / "runs"), directory=tmp_path)

    async def story(app, pilot):
        await go_to(app, pilot, "Curves")
        shutil.rmtree(tmp_path / "runs" / "exp=exp03_lr_jump")
        await press(app, pilot, "ctrl+r")
        assert "! " in screen_of(app)[-1]
        assert "train/loss" in text_of(app)
        await press(app, pilot, "down", "enter", "right_square_bracket")
        shutil.rmtree(tmp_path / "runs")
        await press(app, pilot, "ctrl+r", "right_square_bracket", "4")
        assert app.screen.NUMBER == 4

    drive(own, story)


def test_without_a_run_it_says_how_to_open_one(empty_session):
    async def story(app, pilot):
        await press(app, pilot, "2")
        assert "No run is open." in text_of(app)
        await press(app, pilot, "right_square_bracket", "y", "C", "4")
        assert "Nothing marked." in text_of(app)

    drive(empty_session, story)


def wait_for(found, seconds=30.0):
    end = time.monotonic() + seconds
    while not (value := found()):
        if time.monotonic() > end:
            raise AssertionError("it did not come")
        time.sleep(0.05)
    return value


@pytest.mark.slow
def test_a_live_run_is_followed_and_asked_only_through_the_dialog(rich, tmp_path):
    (tmp_path / "train.py").write_text((rich / "train.py").read_text())
    shutil.copytree(rich / "runs", tmp_path / "runs")
    with subprocess.Popen(
        [sys.executable, "train.py", "live"], cwd=tmp_path, env=environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        try:
            store = open_store(tmp_path / "runs")

            def is_there() -> bool:
                with open_reader(store) as reader:
                    sql = "SELECT count(*) FROM runs WHERE state = 'running' AND last_step > 60"
                    return bool(reader.rows(sql)[0][0])

            wait_for(is_there)
            _play_live(Session(store=store, directory=tmp_path), child)
        finally:
            child.kill()


def _play_live(session: Session, child: subprocess.Popen[bytes]) -> None:
    async def story(app, pilot):
        screen = await go_to(app, pilot, "Curves")
        assert "exp09_live" in screen_of(app)[1]
        before = screen.facts.run.last_step
        for _ in range(100):
            screen._next_look = 0.0
            app.tick()
            await settle(app, pilot)
            if screen.facts.run.last_step > before:
                break
        assert screen.facts.run.last_step > before

        await press(app, pilot, "C")
        assert isinstance(app.screen, Dialog)
        assert "writes a checkpoint and ends" in text_of(app)
        focused: Widget | None = app.focused
        assert isinstance(focused, Buttons)
        await pilot.press("s", "y", "space", "x")
        await pilot.press("enter")  # Cancel has the focus
        await pilot.pause()
        assert app.screen is screen
        assert child.poll() is None

        await pilot.press("C")
        await pilot.pause()
        await pilot.press("tab", "enter")
        await settle(app, pilot)
        assert "did save" in screen_of(app)[-1]
        assert child.poll() is None

        await pilot.press("C")
        await pilot.pause()
        await pilot.press("shift+tab", "enter")
        await settle(app, pilot)
        assert "did stop" in screen_of(app)[-1] or "it ended" in screen_of(app)[-1]
        child.wait(30)

    drive(session, story, size=(100, 30))
