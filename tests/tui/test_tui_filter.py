"""The filter while it is typed: what can come next, the nearest name, and from every screen."""

from __future__ import annotations

import pytest

from expdb_tui.runs.screen import RunsScreen
from expdb_tui.session import Session
from tests.tui.driving import drive, press, screen_of, settle, type_in

pytestmark = pytest.mark.slow


def test_what_can_come_next_is_suggested_and_taken(session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "slash")
        assert screen_of(app)[2].split()[:3] == ["train/loss", "train/tokens_per_s", "val/loss"]
        await type_in(app, pilot, "val")
        assert screen_of(app)[2].split()[0] == "val/loss"
        await press(app, pilot, "tab")
        assert screen_of(app)[2].split()[:2] == ["<", "<="]
        await press(app, pilot, "tab")
        await type_in(app, pilot, "1.9 a")
        await press(app, pilot, "tab")
        await type_in(app, pilot, "stat")
        await press(app, pilot, "tab", "tab")
        assert "finished" in screen_of(app)[2]
        await press(app, pilot, "down", "up", "up", "down", "down")
        assert app.screen._at == 0, "it goes round"
        await type_in(app, pilot, "fini")
        await press(app, pilot, "down", "enter")
        await pilot.pause(0.25)
        await settle(app, pilot)
        assert app.screen.filter == "val/loss < 1.9 and state = finished "
        await press(app, pilot, "enter")
        assert "1 of 3   filter val/loss < 1.9 and state = finished" in screen_of(app)[1]
        assert len(app.screen.lines) == 1

    drive(session, story)


def test_an_error_stands_beside_what_is_typed_with_the_nearest_name(session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "slash")
        await type_in(app, pilot, "vall/loss < 2")
        assert "no run has a metric vall/loss  nearest: val/loss (3 runs)" in screen_of(app)[2]
        assert len(app.screen.lines) == 3
        await press(app, pilot, *["backspace"] * 13)
        await pilot.pause(0.25)
        await settle(app, pilot)
        assert "nearest" not in screen_of(app)[2]
        await press(app, pilot, "escape")
        assert screen_of(app)[1].startswith(" 3 runs")

    drive(session, story, size=(100, 24))


@pytest.mark.slow
def test_a_filter_can_be_typed_from_every_screen(session: Session) -> None:
    async def story(app, pilot):
        for screen in ("2", "3", "4", "6"):
            await press(app, pilot, screen, "slash")
            assert isinstance(app.screen, RunsScreen)
            assert app.screen.is_typing
            await press(app, pilot, "escape")
            assert not app.screen.is_typing

    drive(session, story)


@pytest.mark.slow
def test_columns_are_chosen_and_sorted_by(session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "c")
        await pilot.press("a", "g", "e")
        await press(app, pilot, "space", *["backspace"] * 3, *"train/loss", "space", "enter")
        assert screen_of(app)[2].split() == [
            "experiment", "s", "step", "val/loss", "Δ", "base", "loss", "!",
        ]  # fmt: skip
        assert screen_of(app)[4].split()[-1] == "0.555556"
        await press(app, pilot, *["s"] * 5)
        assert "sort train/loss" in screen_of(app)[1]
        assert len(app.screen.lines) == 3
        await press(app, pilot, "s")
        assert "sort" not in screen_of(app)[1]
        await press(app, pilot, "c", "space", "escape")
        assert screen_of(app)[2].split()[1] == "s", "esc leaves it as it was"
        await press(app, pilot, "c", *"nothing", "space", *"x", "enter")
        assert "loss" in screen_of(app)[2].split()

    drive(session, story)


@pytest.mark.slow
def test_a_command_is_completed_and_the_look_changes(session: Session) -> None:
    session.verbs = {"ls": "list runs", "label": "put a word on runs", "log": "runs as trees"}

    async def story(app, pilot):
        await press(app, pilot, "colon", "l")
        assert screen_of(app)[-2].split()[:4] == ["ls", "label", "log", "light"]
        assert "list runs" in screen_of(app)[-2]
        await press(app, pilot, "a", "tab", *"exp", "tab")
        assert screen_of(app)[-1].split() == ["label", "exp01"]
        assert "put a word on runs" in screen_of(app)[-2]
        await press(app, pilot, "escape", "colon", *"light", "enter")
        assert app.palette.ground == "light"
        assert app.theme == "expdb-light"
        await press(app, pilot, "4", "colon", *"ascii", "enter")
        assert "".join(screen_of(app)).isascii()
        await press(app, pilot, "1")
        assert "".join(screen_of(app)).isascii()
        await press(app, pilot, "colon", *"unicode", "enter")
        assert "●" in "".join(screen_of(app))

    drive(session, story)


def test_a_hidden_filter_takes_no_key(session: Session, empty_session: Session) -> None:
    async def story(app, pilot):
        for key in ("5", "ctrl+r", "6", "5", "1"):
            await press(app, pilot, key)
        assert isinstance(app.screen, RunsScreen), "a key went into a field that nobody sees"
        await press(app, pilot, "slash")
        await type_in(app, pilot, "state")
        await press(app, pilot, "escape", "4")
        assert app.current_mode == "plot"

    drive(session, story)
    drive(empty_session, story)
