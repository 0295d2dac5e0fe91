"""Screen 1: rows, filter, order, marks, names, and a store that changes underneath."""

from __future__ import annotations

import shutil

from expdb_tui.runs.screen import SORTS, RunsScreen
from expdb_tui.session import Session
from expdb_tui.widgets.rowtable import RowTable
from tests.tui.driving import drive, press, screen_of, settle, type_in


def rows_of(app) -> list[str]:
    """Return the rows under the head, without the cursor's column."""
    lines = screen_of(app)
    head = next(at for at, line in enumerate(lines) if "experiment" in line)
    table = app.screen.query_one("#runs", RowTable)
    return [line[1:] for line in lines[head + 1 : head + 1 + len(table.lines)]]


def test_runs_stand_newest_first_with_their_difference(session: Session) -> None:
    async def story(app, pilot):
        lines, rows = screen_of(app), rows_of(app)
        assert lines[0].startswith(" expdb  1 Runs  2 Run  3 Comp")
        assert lines[0].endswith("idle")
        assert lines[1].startswith(" 3 runs   baseline ")
        assert lines[2].split() == ["experiment", "s", "step", "val/loss", "Δ", "base", "!", "age"]
        assert "\\x1b[31m[red]odd" in rows[0]
        assert rows[0].split()[-3:-1] == ["NaN", "1"]
        assert rows[1].split()[:6] == ["✓", "exp01", "0", "10", "2.028", "+0.180"]
        assert "▼" in rows[1]
        assert rows[2].split()[:6] == ["●", "✓", "baseline", "0", "10", "1.848"]
        assert lines[-1].startswith(" enter open  space mark")
        assert lines[-1].endswith("? help")

    drive(session, story)


def test_every_row_fits_every_size(session: Session) -> None:
    for size in ((40, 10), (64, 20), (200, 50)):

        async def story(app, pilot, size=size):
            assert all(len(line) <= size[0] for line in screen_of(app))
            assert any("exp01" in line for line in rows_of(app))

        drive(session, story, size=size)


def test_a_wide_screen_has_curves_and_a_preview(session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "down")
        await pilot.pause(0.2)
        await settle(app, pilot)
        shown = "\n".join(screen_of(app))
        assert "tok/s" in shown
        assert "19.0k" in shown
        assert "Changed from baseline  1 key" in shown
        assert "baseline → exp01" in shown
        assert "train/loss" in shown
        assert any("\u2800" < char <= "\u28ff" for char in rows_of(app)[1])

    drive(session, story, size=(140, 40))


def test_a_filter_is_followed_and_its_error_stands_beside_it(session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "slash")
        await type_in(app, pilot, "val/loss < 2")
        assert [row.split()[2] for row in rows_of(app)] == ["baseline"]
        await press(app, pilot, "enter")
        assert "1 of 3   filter val/loss < 2" in screen_of(app)[1]
        assert app.screen.command == "expdb ls -w 'val/loss < 2'"
        await press(app, pilot, "escape")
        assert len(rows_of(app)) == 3
        await press(app, pilot, "slash")
        await type_in(app, pilot, "nosuch == 1")
        assert len(rows_of(app)) == 3
        await press(app, pilot, "enter")
        assert "nosuch" in screen_of(app)[1]

    drive(session, story)


def test_the_leaderboard_and_folded_seeds(session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "r")
        rows = rows_of(app)
        assert rows[0].split()[:4] == ["●", "1", "✓", "baseline"]
        assert rows[1].split()[:3] == ["2", "✓", "exp01"]
        assert "odd" in rows[2]
        assert app.screen.command == "expdb rank"
        await press(app, pilot, "g")
        assert "val/loss ± sd" in screen_of(app)[2]
        await press(app, pilot, "escape")
        assert app.screen.view == "list"

    drive(session, story)


def test_marks_stay_with_their_runs(session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "down", "space")
        assert rows_of(app)[1].startswith("■")
        assert screen_of(app)[1].endswith("1 marked")
        await press(app, pilot, "s")
        assert sum(row.startswith("■") for row in rows_of(app)) == 1
        marked = next(row for row in rows_of(app) if row.startswith("■"))
        assert "exp01" in marked

    drive(session, story)


def test_every_order_is_one_and_the_first_comes_again(session: Session) -> None:
    async def story(app, pilot):
        first = [row[:40] for row in rows_of(app)]
        for name in SORTS[1:]:
            await press(app, pilot, "s")
            assert f"sort {name}" in screen_of(app)[1]
            assert "!" not in screen_of(app)[-1], "an error"
            assert len(rows_of(app)) == 3
        await press(app, pilot, "s")
        assert [row[:40] for row in rows_of(app)] == first

    drive(session, story)


def test_names_and_notes_are_asked_for_and_written(own_session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "down")
        run = app.screen.run_here
        await press(app, pilot, "t")
        await pilot.press(*"paper")
        await press(app, pilot, "enter")
        assert " paper " in rows_of(app)[1]
        await press(app, pilot, "t")
        await pilot.press(*"paper")
        await press(app, pilot, "enter")
        assert "! the tag paper exists" in screen_of(app)[-1]
        await press(app, pilot, "n")
        await pilot.press(*"so", "space", *"so")
        await press(app, pilot, "enter")
        with own_session.reader() as reader:
            assert reader.run(run).notes == ("so so",)
        await press(app, pilot, "b", "enter")
        assert rows_of(app)[2].startswith("●"), "Cancel has the focus"
        await press(app, pilot, "b")
        assert any("Make exp01 the baseline" in line for line in screen_of(app))
        await press(app, pilot, "tab", "enter")
        assert rows_of(app)[1].startswith("●")
        await press(app, pilot, "b")
        assert "is the baseline already" in screen_of(app)[-1]
        await press(app, pilot, "Y")
        assert f"copied {run}" in screen_of(app)[-1]

    drive(own_session, story)


def test_a_store_that_changes_underneath_keeps_the_cursor_on_its_run(own_session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "down")
        before = app.screen.run_here
        newest = next(own_session.store.root.glob("exp=%1B*/run=*"))
        shutil.rmtree(newest)
        await press(app, pilot, "ctrl+r")
        assert len(rows_of(app)) == 2
        assert app.screen.run_here == before
        shutil.rmtree(own_session.store.root)
        await press(app, pilot, "ctrl+r")
        assert "is gone" in screen_of(app)[-1]
        assert app.screen.run_here == before

    drive(own_session, story)


def test_an_empty_store_says_how_to_begin(empty_session: Session) -> None:
    async def story(app, pilot):
        shown = "\n".join(screen_of(app))
        assert "No runs yet." in shown
        assert "python train.py +exp=baseline" in shown
        await press(app, pilot, "enter", "space", "b", "r", "escape")
        assert isinstance(app.screen, RunsScreen)

    drive(empty_session, story)


def test_a_poor_terminal_gets_ascii_alone(session: Session) -> None:
    async def story(app, pilot):
        shown = "".join(screen_of(app))
        assert shown.isascii(), [char for char in shown if not char.isascii()]
        assert rows_of(app)[2].split()[:3] == ["a", "+", "baseline"]

    drive(session, story, size=(120, 36), ascii=True, depth="16")


def test_help_names_keys_and_signs(session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "question_mark")
        shown = "\n".join(screen_of(app))
        assert "fold seeds" in shown
        assert "inside the noise" in shown
        await press(app, pilot, "escape")
        assert isinstance(app.screen, RunsScreen)

    drive(session, story, size=(100, 30))


def test_quit_leaves(session: Session) -> None:
    async def story(app, pilot):
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running

    drive(session, story)
