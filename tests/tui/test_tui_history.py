"""Screen 6: lanes, folded seeds, operations; undo and going back through their plans."""

from __future__ import annotations

import subprocess

import pytest

from expdb_tui.history.lanes import LaneRow, lanes
from expdb_tui.history.lines import EDGES
from expdb_tui.history.screen import HistoryScreen
from expdb_tui.session import Session
from expdb_tui.widgets.dialog import Buttons, Dialog
from tests.tui.driving import drive, press, screen_of

pytestmark = pytest.mark.slow


def drawn(rows: list[LaneRow]) -> list[str]:
    out = []
    for row in rows:
        signs = "".join("o " if sign == "node" else EDGES[sign] for sign in row.signs)
        fold = f"+{row.num_folded}" if row.num_folded else ""
        out.append(f"{signs.rstrip()}{fold} {'' if row.node is None else row.node}".rstrip())
    return out


def test_children_stand_above_their_parent_each_in_a_lane() -> None:
    # Node 4 came from 1, which came from 0 as 2 and 3 did; 6 came from 5, which is older.
    parents = [None, 0, 0, 0, 1, None, 5]
    assert drawn(lanes(parents, [3, 5, 6, 7, 8, 1, 2])) == [
        "o 4", "o 1", "│ o 3", "│ │ o 2", "├─┴─╯", "o 0", "", "o 6", "o 5",
    ]  # fmt: skip


def test_of_more_lanes_than_five_the_last_column_holds_the_rest() -> None:
    rows = drawn(lanes([None, *[0] * 8], list(range(9))))
    assert rows[4:8] == ["│ │ │ │ o 4", "│ │ │ │ o 3", "│ │ │ │ o 2", "│ │ │ │ o 1"]
    assert rows[8:] == ["├─┴─┴─┴─╯", "o 0"]
    # A run in one of the first lanes says how many are drawn as one beside it.
    told = drawn(lanes([None, *[0] * 6, 1, 1], [0, 1, 90, 89, 88, 87, 86, 100, 50]))
    assert told[-5:] == [
        "├─┼─┼─┼─┤", "o │ │ │ ╎+2 1", "│ │ │ │ ╎+2", "├─┴─┴─┴─╯", "o 0",
    ]  # fmt: skip


def test_lanes_that_meet_cross_those_that_go_on() -> None:
    assert "├─┼─╯" in drawn(lanes([None, 0, 0, None, 3, 3], [0, 4, 6, 1, 5, 7]))


def test_roots_without_children_stand_close() -> None:
    assert drawn(lanes([None, None, None], [1, 2, 3])) == ["o 2", "o 1", "o 0"]


def test_damaged_parents_in_a_circle_end() -> None:
    rows = lanes([1, 2, 0, None, 3], [1, 2, 3, 4, 5])
    assert sorted(row.node for row in rows if row.node is not None) == [0, 1, 2, 3, 4]


def test_lineage_and_operations_at_every_size(lab: Session) -> None:
    for size in ((60, 16), (120, 36), (200, 50)):

        async def story(app, pilot, size=size):
            await press(app, pilot, "6")
            lines = screen_of(app)
            assert all(len(line) <= size[0] for line in lines)
            shown = "\n".join(lines)
            assert "Operations  u undoes the newest" in shown
            assert "HEAD follows the baseline" in lines[1]
            rows = [line[1:] for line in lines[3:] if " exp0" in line]
            assert rows[0].startswith("✗        exp07_leak")
            assert rows[3].startswith("│ │ │ ●  exp01")
            assert "s0-2" in rows[3]
            assert any(line.startswith(" ├─┴─┴─╯") for line in lines)
            assert any("HEAD" in line and "◉" in line for line in lines)
            assert ("commit  " in shown) is (size[0] >= 96)

        drive(lab, story, size=size)


def test_seeds_unfold_and_the_cursor_goes_from_run_to_run(lab: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "6")
        screen = app.screen
        assert isinstance(screen, HistoryScreen)
        assert screen.run_here is not None  # on HEAD, which is the baseline
        rows = []
        await press(app, pilot, "home")
        for _ in range(7):
            rows.append(screen.lineage.cursor)
            await press(app, pilot, "down")
        assert rows == [0, 1, 2, 3, 5, 5, 5]
        await press(app, pilot, "up", "up")
        assert screen.lineage.cursor == 2
        await pilot.click("#lineage", offset=(20, 5))  # the row of edges
        assert screen.run_here is not None
        await press(app, pilot, "end")
        assert "◉" in screen_of(app)[3 + screen.lineage.cursor]
        folded = sum(row.node is not None for row in screen.found.graph)
        run = screen.run_here
        await press(app, pilot, "g")
        assert sum(row.node is not None for row in screen.found.graph) == folded + 5
        assert screen.run_here == run
        await press(app, pilot, "tab")
        assert app.focused is screen.query_one("#ops")
        assert screen.command == "expdb ops"
        await press(app, pilot, "tab")
        assert screen.command == "expdb log --graph"

    drive(lab, story)


def test_ascii_alone_on_a_poor_terminal(lab: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "6")
        shown = "\n".join(screen_of(app))
        assert shown.isascii()
        assert "[HEAD]" in shown
        assert "|-+-+-'" in shown

    drive(lab, story, ascii=True, depth="16", size=(120, 30))


def test_an_empty_store_teaches(empty_session: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "6", "g", "tab", "down", "enter", "G")
        assert "No runs yet." in "\n".join(screen_of(app))
        await press(app, pilot, "u")
        assert "nothing to undo in this work tree" in "\n".join(screen_of(app))

    drive(empty_session, story)


def baseline_of(app) -> None:
    screen = app.screen
    screen.lineage.cursor = len(screen.found.graph) - 1


def test_going_back_shows_every_path_and_undo_brings_them_back(own_lab: Session) -> None:
    top = own_lab.directory
    edited = (top / "conf/exp/exp06_moe.yaml").read_text()
    code = (top / "train.py").read_text()

    async def story(app, pilot):
        await press(app, pilot, "6")
        baseline_of(app)
        await press(app, pilot, "G")
        assert isinstance(app.screen, Dialog)
        shown = "\n".join(screen_of(app))
        assert "Go back to baseline" in shown
        assert "M conf/exp/exp06_moe.yaml" in shown
        assert "edited: it is saved first" in shown
        assert "M train.py" in shown
        assert "checkpoint 300" in shown
        # No letter confirms, and what has the focus is Cancel.
        await press(app, pilot, "y", "g", "enter")
        assert isinstance(app.screen, HistoryScreen)
        assert (top / "train.py").read_text() == code
        await press(app, pilot, "G", "tab", "enter")
        assert "rollback to" in screen_of(app)[-1]
        assert "clip = 1.0" in (top / "train.py").read_text()
        assert app.head is not None
        assert "work tree 1 edited" in screen_of(app)[1]
        assert any("rollback" in line and "2 files" in line for line in screen_of(app))
        await press(app, pilot, "u")
        shown = "\n".join(screen_of(app))
        assert "Undo rollback to" in shown
        assert "M train.py" in shown
        await press(app, pilot, "tab", "enter")
        assert screen_of(app)[-1].startswith(" undone: rollback to")
        assert (top / "train.py").read_text() == code
        assert (top / "conf/exp/exp06_moe.yaml").read_text() == edited
        struck = [op for op in app.screen.found.ops if op.undone_by is not None]
        assert len(struck) == 1

    drive(own_lab, story, size=(100, 30))


def test_a_work_tree_beside_leaves_this_one(own_lab: Session) -> None:
    top = own_lab.directory
    code = (top / "train.py").read_text()

    async def story(app, pilot):
        await press(app, pilot, "6")
        baseline_of(app)
        run = app.screen.run_here
        await press(app, pilot, "G", "w")
        assert "A work tree at baseline" in "\n".join(screen_of(app))
        await press(app, pilot, "tab", "enter")
        assert screen_of(app)[-1].startswith(" made ")
        there = top.parent / f"at-{run[:4]}"
        assert "clip = 1.0" in (there / "train.py").read_text()
        assert (top / "train.py").read_text() == code

    drive(own_lab, story, size=(120, 30))


def test_what_is_in_the_way_has_no_deed(own_lab: Session) -> None:
    top = own_lab.directory
    own = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]
    (top / ".gitignore").write_text("__pycache__/\n/runs/\n/train.py\n")
    subprocess.run([*own, "rm", "-q", "--cached", "train.py"], cwd=top, check=True)
    subprocess.run([*own, "commit", "-qam", "ignore the script"], cwd=top, check=True)

    async def story(app, pilot):
        await press(app, pilot, "6")
        baseline_of(app)
        await press(app, pilot, "G")
        shown = "\n".join(screen_of(app))
        assert "train.py" in shown
        assert "in the way, nothing is written" in shown
        assert "--force" in shown
        dialog = app.screen
        assert dialog.plan.deeds == ()
        await press(app, pilot, "tab")
        assert dialog.query_one(Buttons).chosen == 0
        await press(app, pilot, "escape")
        assert isinstance(app.screen, HistoryScreen)

    drive(own_lab, story, size=(100, 30))


def test_a_run_without_a_checkpoint_says_why(lab: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "6", "home", "G")
        shown = "\n".join(screen_of(app))
        assert "This cannot be gone back to" in shown
        assert "has no complete checkpoint" in shown
        await press(app, pilot, "enter")
        assert isinstance(app.screen, HistoryScreen)

    drive(lab, story)
