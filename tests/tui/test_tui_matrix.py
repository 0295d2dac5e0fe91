"""Screen 5: cells and their reasons, means against the baseline, and running what is missing."""

from __future__ import annotations

import time

import pytest

from expdb.actions.run.plan import plan_run
from expdb.index.reader import open_reader
from expdb_tui.ink import width_of
from expdb_tui.marks import ASCII, UNICODE
from expdb_tui.matrix.cells import CELL, grid_of, head_of, line_of
from expdb_tui.matrix.plan import plan_shown, start
from expdb_tui.matrix.reading import MatrixRead, read_matrix
from expdb_tui.matrix.screen import MatrixScreen
from expdb_tui.runs.screen import RunsScreen
from expdb_tui.session import Session
from expdb_tui.widgets.dialog import Dialog
from tests.tui.driving import drive, press, screen_of, type_in

pytestmark = pytest.mark.slow


def text(pieces) -> str:
    return "".join(part for part, _ in pieces)


@pytest.fixture(scope="module")
def read(lab_folder) -> MatrixRead:
    from tests.tui.conftest import session_of

    lab = session_of(lab_folder)
    told: list[tuple[int, int]] = []
    with open_reader(lab.store) as reader:
        found = read_matrix(
            reader, directory=lab.directory, top=lab.directory, head=None,
            tick=lambda done, total: told.append((done, total)),
        )  # fmt: skip
    assert found is not None
    assert told[-1:] in ([], [(5, 5)])
    return found


def test_rows_of_every_width(read: MatrixRead) -> None:
    for width in (40, 52, 66, 80, 100, 118, 160, 200):
        grid = grid_of(read.matrix, width)
        for marks in (UNICODE, ASCII):
            rows = [head_of(read.matrix, grid, marks)]
            is_ascii = marks is ASCII
            rows += [
                line_of(read.matrix, row, grid, marks, cursor=0, ascii=is_ascii)
                for row in read.matrix.rows
            ]
            assert max(map(width_of, rows)) <= width, width
            assert all(text(row).isascii() for row in rows) or not is_ascii
    assert [grid_of(read.matrix, width).spread > 0 for width in (115, 116, 160)] == [
        False, True, True,
    ]  # fmt: skip
    assert not grid_of(read.matrix, 60).has_mean
    assert grid_of(read.matrix, 30).num_seeds == 1


def test_cells_say_state_and_objective(read: MatrixRead) -> None:
    grid = grid_of(read.matrix, 80)
    rows = {
        row.name: text(line_of(read.matrix, row, grid, UNICODE, cursor=None, ascii=False))
        for row in read.matrix.rows
    }
    assert rows["baseline"].split()[:8] == [
        "●", "baseline", "✓", "1.868", "✓", "1.867", "✓", "1.851",
    ]  # fmt: skip
    assert rows["baseline"].split()[8:] == ["1.862", "±0.010", "0"]
    assert rows["exp01"].split()[-4:] == ["2.032", "±0.005", "+0.170", "▼"]
    assert rows["exp06_moe"].split()[1:5] == ["↻", "1.857", "◌", "◌"]
    wide = grid_of(read.matrix, 200)
    moe = next(row for row in read.matrix.rows if row.name == "exp06_moe")
    said = text(line_of(read.matrix, moe, wide, UNICODE, cursor=None, ascii=False))
    assert said.rstrip().endswith("model.gamma 0 → 0.01")
    assert grid_of(read.matrix, 120).why == 0
    assert rows["exp07_leak"].split()[1:3] == ["✗", "@150"]


def test_seeds_that_do_not_fit_are_counted(read: MatrixRead) -> None:
    grid = grid_of(read.matrix, 40)
    assert grid.num_seeds < 3
    assert f"+{3 - grid.num_seeds}" in text(head_of(read.matrix, grid, UNICODE))


def test_the_cursor_is_a_cell_and_says_why(lab: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "5")
        screen = app.screen
        assert isinstance(screen, MatrixScreen)
        assert screen_of(app)[1].startswith(" 5 experiments × 3 seeds   ✓ 8   ↻ 1   ◌ 5   ✗ 1")
        assert screen_of(app)[1].endswith("R runs 5")
        await press(app, pilot, "down", "down", "down")
        shown = "\n".join(screen_of(app))
        assert "exp06_moe  seed 0  stale ─" in shown
        assert "model.gamma               0 → 0.01   declared in conf/exp/exp06_moe.yaml" in shown
        await press(app, pilot, "right")
        shown = "\n".join(screen_of(app))
        assert "exp06_moe  seed 1  missing" in shown
        assert "python train.py +exp=exp06_moe seed=1" in shown
        await press(app, pilot, "enter")
        assert "there is no run of this yet" in screen_of(app)[-1]
        await press(app, pilot, "down", "left")
        assert "the loss is NaN" in "\n".join(screen_of(app))
        await press(app, pilot, "enter")
        assert isinstance(app.screen, RunsScreen)
        assert "filter name = 'exp07_leak' and seed = 0" in screen_of(app)[1]

    drive(lab, story, size=(96, 24))


def test_the_plan_of_what_is_missing_is_shown_first(lab: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "5", "R")
        assert isinstance(app.screen, Dialog)
        shown = "\n".join(screen_of(app))
        assert "Run what is missing  5 runs" in shown
        assert "exp02_cosine:s2          missing" in shown
        assert "1 failed, 1 stale, 8 up to date" in shown
        await press(app, pilot, "enter")
        assert isinstance(app.screen, MatrixScreen)
        assert app.screen._runner is None

    drive(lab, story, size=(100, 30))


def test_with_nothing_to_run_there_is_no_deed(lab: Session, read: MatrixRead) -> None:
    with open_reader(lab.store) as reader:
        plan = plan_run(reader, read.declared, places=read.places, words=["baseline"])
    shown = plan_shown(plan, UNICODE)
    assert text(shown.title) == "Nothing to run"
    assert shown.deeds == ()
    with open_reader(lab.store) as reader:
        plan = plan_run(
            reader, read.declared, places=read.places, words=["exp06_moe", "exp07_leak"]
        )
    assert [one.label for one in plan_shown(plan, UNICODE).deeds] == ["Run"]


def test_the_process_that_runs_it_says_how_it_ended(empty_session: Session) -> None:
    runner = start(empty_session.store, empty_session.directory, 1)
    until = time.monotonic() + 60
    while not runner.is_over and time.monotonic() < until:
        time.sleep(0.05)
    said = runner.said()
    runner.log.unlink()
    assert said.startswith("expdb run ended with exit 3: error: no conf/train.yaml here")


def test_no_experiments_teach_how_to_declare_one(empty_session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "5", "R", "enter", "right", "down")
        assert "No experiments are declared here." in "\n".join(screen_of(app))

    drive(empty_session, story)


def test_a_cell_is_as_wide_as_every_other(read: MatrixRead) -> None:
    grid = grid_of(read.matrix, 120)
    row = read.matrix.rows[0]
    pieces = line_of(read.matrix, row, grid, UNICODE, cursor=1, ascii=False)
    chosen = [part for part, role in pieces if role.endswith("+on-sel")]
    assert sum(map(len, chosen)) == CELL


def test_ascii_alone_on_a_poor_terminal(lab: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "5", "down")
        assert "\n".join(screen_of(app)).isascii()
        await press(app, pilot, "R")
        assert "\n".join(screen_of(app)).isascii()

    drive(lab, story, ascii=True, depth="16", size=(120, 30))


def test_cells_are_marked_and_rows_filtered(own_lab: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "5")
        total = len(app.screen.table.lines)
        run = app.screen.run_here
        await press(app, pilot, "space")
        assert app.chosen.runs == (run,)
        assert "■" in screen_of(app)[3]
        assert "1 marked" in screen_of(app)[1]
        assert app.screen.run_here != run, "the cursor went on"
        await press(app, pilot, "slash")
        assert "missing" in screen_of(app)[2]
        await type_in(app, pilot, "missing")
        rows = app.screen.table.lines.matrix.rows
        assert 0 < len(rows) < total
        assert all(any(c and c.state == "missing" for c in row.cells) for row in rows)
        await press(app, pilot, "enter")
        assert f"{len(rows)} of {total} experiments" in screen_of(app)[1]
        assert "filter missing" in screen_of(app)[1]
        await press(app, pilot, "escape")
        assert len(app.screen.table.lines) == total

    drive(own_lab, story)


def test_another_metric_fills_the_cells(own_lab: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "5")
        before = [row.mean for row in app.screen.found.matrix.rows]
        await press(app, pilot, "m")
        matrix, metric = app.screen.found.matrix, app.screen.metric
        assert matrix.objective.metric == metric
        assert metric in screen_of(app)[1]
        assert [row.mean for row in matrix.rows] != before
        for _ in app.screen.found.metrics[1:]:
            await press(app, pilot, "m")
        assert app.screen.metric is None
        assert [row.mean for row in app.screen.found.matrix.rows] == before

    drive(own_lab, story)
