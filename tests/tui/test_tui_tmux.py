"""The app in a real terminal: the best run found, compared, gone back to, and that undone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tui.terminal import END, HAS_TMUX, Terminal, app_words, terminal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_TMUX, reason="tmux is not installed"),
]
TERMS = ("xterm-256color", "screen-256color", "screen")
SIZES = ((80, 24), (200, 50))
WALKS = [
    pytest.param(
        term, size, id=f"{term}-{size[0]}x{size[1]}",
        marks=() if (term, size) == ("screen-256color", SIZES[0]) else pytest.mark.soak,
    )
    for term in TERMS
    for size in SIZES
]  # fmt: skip


def said_by_git(top: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=top, capture_output=True, text=True, check=True)
    return done.stdout


def files_of(top: Path) -> dict[str, str]:
    """Return every file of the project with its text, but for the store."""
    names = said_by_git(top, "ls-files", "-co", "--exclude-standard").splitlines()
    return {name: (top / name).read_text() for name in names if (top / name).exists()}


def confirm(shown: Terminal, deed: str) -> None:
    """Wait for a plan, and carry it out: its first button is Cancel."""
    shown.wait_for(deed)
    shown.press("Tab")
    shown.press("Enter")


def walk(shown: Terminal, top: Path) -> None:
    """Find the best run, see why it is better, go back to it, undo."""
    before, code = files_of(top), (top / "train.py").read_text()
    assert "cfg.clip" in code
    shown.wait_for("10 runs")
    shown.press("r")
    shown.wait(lambda lines: "#" in lines[2].split(), "the leaderboard")
    shown.press("Home")
    shown.wait(lambda lines: lines[3].startswith("▌"), "the cursor on the first row")
    assert "exp02_cosine" in shown.lines[3]
    shown.press("d")
    lines = shown.wait_for("schedule")
    assert any("multi_step" in line and "cosine" in line for line in lines), "why it is better"
    assert any("baseline" in line and "exp02_cosine" in line for line in lines[:3])
    assert any("val/loss" in line and "noise" in line for line in lines[:4]), "by how much"
    shown.press("1")
    shown.wait(lambda lines: "#" in lines[2].split(), "the leaderboard")
    shown.press("Escape")
    shown.wait(lambda lines: "step" in lines[2].split() and "#" not in lines[2], "the list")
    # The oldest run is of the commit before the code was edited.
    shown.press("End")
    shown.wait(lambda lines: any(line.startswith("▌● ✓") for line in lines), "the last row")
    shown.press("G")
    lines = shown.wait_for("Go back to baseline")
    assert any("M train.py" in line for line in lines)
    confirm(shown, "Go back")
    shown.wait_for("rollback to")
    assert "clip = 1.0" in (top / "train.py").read_text()
    shown.press("6")
    shown.wait_for("Operations")
    shown.press("u")
    confirm(shown, "Undo rollback")
    shown.wait_for("undone: rollback to")
    assert files_of(top) == before
    shown.press("q")
    shown.wait_for(f"{END} 0")


@pytest.mark.parametrize(("term", "size"), WALKS)
def test_from_the_best_run_back_and_again(
    lab_folder: Path, tmp_path: Path, term: str, size: tuple[int, int]
) -> None:
    top = tmp_path / "lab"
    shutil.copytree(lab_folder, top, symlinks=True)
    with terminal(app_words(), top, width=size[0], height=size[1], term=term) as shown:
        walk(shown, top)
        assert shown.asked("alternate_on") == "0", "the screen before it is back"
        assert shown.asked("cursor_flag") == "1", "and the cursor"
        assert shown.asked("mouse_any_flag") == "0", "and the mouse is the terminal's again"


def test_a_dumb_terminal_is_told_what_to_do_instead(lab_folder: Path) -> None:
    with terminal(app_words(), lab_folder, width=80, height=24, term="dumb") as shown:
        lines = shown.wait_for(END)
        assert lines[0] == "error: the terminal app needs a terminal, and TERM is dumb"
        assert lines[1] == "hint: expdb ls"
        assert lines[2] == f"{END} 2"


def test_another_size_a_verb_and_the_keys_that_end(lab_folder: Path, tmp_path: Path) -> None:
    top = tmp_path / "lab"
    shutil.copytree(lab_folder, top, symlinks=True)
    words = dict(width=80, height=24, term="xterm-256color")
    with terminal(app_words(), top, **words) as shown:
        shown.wait_for("10 runs")
        for size, drawn in (
            ((40, 10), "1 Runs  2  3"),
            ((200, 50), "6 History"),
            ((20, 5), "expdb  1"),
        ):
            shown.resize(*size)
            shown.wait(lambda lines, drawn=drawn: drawn in lines[0], f"the header of {size}")
        shown.resize(120, 36)
        shown.wait(lambda lines: "id" in lines[2].split(), "the columns of 120 cells")
        shown.press("C-c")
        lines = shown.wait_for("q quits")
        assert "q quits" in lines[35], "at the foot, over no data"
        shown.press(":")
        shown.wait_for("compare baseline exp01")
        shown.type("best")
        shown.press("Enter")
        shown.wait_for("enter goes back")
        assert shown.asked("alternate_on") == "0", "the verb has the terminal itself"
        shown.press("Enter")
        shown.wait_for("10 runs")
        shown.press("C-q")
        shown.wait_for(f"{END} 0")
