from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import DataTable, Static

from expdb.store.store import open_store
from expdb_tui.app import RunsApp
from expdb_tui.detail import DetailScreen
from expdb_tui.load import Source


def drive(source: Source, story, *, size=(80, 24), ascii=False):
    """Run the app without a terminal, read the store, and play a story."""

    async def play():
        app = RunsApp(source, ascii=ascii)
        async with app.run_test(size=size) as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            await story(app, pilot)

    asyncio.run(play())


def table_of(app: RunsApp) -> DataTable:
    return app.query_one("#runs", DataTable)


def row_texts(app: RunsApp) -> list[list[str]]:
    table = table_of(app)
    return [[str(cell) for cell in table.get_row_at(at)] for at in range(table.row_count)]


def context_of(app: RunsApp) -> str:
    return str(app.query_one("#context", Static).render())


def test_the_table_lists_runs_newest_first(source):
    async def story(app, pilot):
        rows = row_texts(app)
        labels = [str(column.label) for column in table_of(app).columns.values()]
        assert labels == ["", "experiment", "s", "step", "val/loss", "vs baseline", "age"]
        assert [row[1] for row in rows] == ["\\x1b[31m[red]odd", "exp01", "baseline"]
        assert rows[1][:6] == ["✓", "exp01", "0", "10", "2.028", "+0.180 worse"]
        assert rows[0][4] == "NaN"
        assert "3 runs" in context_of(app)
        assert "val/loss" in context_of(app)

    drive(source, story)


def test_the_table_fits_a_small_terminal(source):
    async def story(app, pilot):
        table = table_of(app)
        assert table.virtual_size.width <= 80
        assert table.display
        assert not app.query_one("#empty").display

    drive(source, story, size=(80, 24))


def test_enter_opens_a_run_and_escape_goes_back(source):
    async def story(app, pilot):
        await pilot.press("down", "enter")
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, DetailScreen)
        assert screen.text.startswith("exp01  ")
        assert "val/loss (objective)" in screen.text
        assert "parent       " in screen.text
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, DetailScreen)
        assert table_of(app).cursor_row == 1

    drive(source, story)


def test_names_are_never_markup(source):
    async def story(app, pilot):
        await pilot.press("enter")
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert app.screen.text.startswith("\\x1b[31m[red]odd")
        shown = str(app.screen.query_one("#detail", Static).render())
        assert "[red]odd" in shown

    drive(source, story)


def test_refresh_keeps_the_cursor_on_its_run(tui_folder, source, tmp_path):
    shutil.copytree(tui_folder / "runs", tmp_path / "runs")
    own = replace(source, store=open_store(tmp_path / "runs"), directory=tmp_path)

    async def story(app, pilot):
        await pilot.press("down")
        before = app.run_at_cursor()
        newest = next(iter((tmp_path / "runs").glob("exp=%1B*/run=*")))
        shutil.rmtree(newest)
        await pilot.press("r")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert table_of(app).row_count == 2
        assert app.run_at_cursor() == before
        assert table_of(app).cursor_row == 0

    drive(own, story)


def test_an_empty_store_says_how_to_begin(empty_source):
    async def story(app, pilot):
        assert app.query_one("#empty").display
        assert "python train.py +exp=baseline" in str(app.query_one("#empty", Static).render())
        assert not table_of(app).display
        await pilot.press("enter")
        assert not isinstance(app.screen, DetailScreen)

    drive(empty_source, story)


def test_a_run_that_went_away_is_an_error_on_its_screen(tui_folder, source, tmp_path):
    shutil.copytree(tui_folder / "runs", tmp_path / "runs")
    own = replace(source, store=open_store(tmp_path / "runs"), directory=tmp_path)

    async def story(app, pilot):
        for folder in (tmp_path / "runs").glob("exp=*"):
            shutil.rmtree(folder)
        await pilot.press("enter")
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert app.screen.text.startswith("error: the store has no run")

    drive(own, story)


def test_quit_leaves(source):
    async def story(app, pilot):
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running

    drive(source, story)


def test_ascii_signs_on_a_poor_terminal(source):
    async def story(app, pilot):
        assert row_texts(app)[1][0] == "+"

    drive(source, story, ascii=True)


@pytest.mark.parametrize("name", ["command.py", "load.py", "rows.py"])
def test_only_the_app_imports_textual(name):
    import expdb_tui

    folder = Path(str(expdb_tui.__file__)).parent
    assert "import textual" not in (folder / name).read_text()
    assert "from textual" not in (folder / name).read_text()
