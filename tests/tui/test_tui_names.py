"""Case A42: names of every script, in narrow, poor and dumb terminals, in a pipe, without UTF-8.

The 10,000 runs and the million points of that case are bars: `python -m bench --only tui,plot`.
"""

from __future__ import annotations

import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from rich.cells import cell_len

from expdb.model import Event
from expdb_tui.session import Session
from tests.query.made import make_run, make_store, write_run
from tests.tui.driving import drive, press, screen_of
from tests.tui.terminal import environment

JAPANESE = "ラベル実験"
pytestmark = pytest.mark.slow
NAMES = (
    "baseline", JAPANESE, "学习率实验", "😀 smile", "👩‍👩‍👧‍👦 family", "👍🏽 flag🇩🇪",
    "مرحبا بالعالم",
    "שלום", "e\u0301tude", "tab\tand \x1b[31mred\x1b[0m", "\u202ebackwards", "x" * 300,
)  # fmt: skip
SOAK = pytest.mark.soak
SIZES = (
    (20, 10),
    (40, 10),
    pytest.param((80, 24), marks=SOAK),
    pytest.param((200, 50), marks=SOAK),
)
OBEYED = ("Cc", "Cf", "Zl", "Zp")


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    store = make_store(folder / "runs")
    for at, name in enumerate(NAMES):
        run = make_run(
            f"{'abcdefghjkmn'[at]}{at:09d}",
            experiment=name,
            minutes=at,
            value=2.0 + at / 100,
            config={"seed": 0, "name": name},
            events=(Event(step=3, severity="warn", rule="spike", message=name),),
        )
        write_run(store, run)
    return folder


@pytest.fixture
def session(top: Path) -> Session:
    from expdb.store.store import open_store

    return Session(store=open_store(top / "runs"), directory=top)


def at_cell(line: str, text: str) -> int:
    """Return the cell of a line in which a text ends."""
    return cell_len(line[: line.index(text) + len(text)])


def obeyed(text: str) -> set[str]:
    """Return the characters that a terminal would obey rather than show."""
    return {char for char in text if char != "\n" and unicodedata.category(char) in OBEYED}


def test_a_japanese_name_of_five_letters_takes_ten_cells() -> None:
    assert cell_len(JAPANESE) == 10


@pytest.mark.parametrize("size", SIZES, ids=["20x10", "40x10", "80x24", "200x50"])
def test_columns_line_up_by_cells_at_every_size(session: Session, size: tuple[int, int]) -> None:
    async def story(app, pilot):
        for key in ("r", "g", "3", "4", "6", "1", "enter", "question_mark"):
            await press(app, pilot, key)
            lines = screen_of(app)
            assert all(cell_len(line) <= size[0] for line in lines), (key, lines)
            assert not obeyed("".join(lines)), key
        await press(app, pilot, "escape", "escape", "escape", "home")
        lines = screen_of(app)
        assert app.screen.NUMBER == 1
        shown = [f"{2.0 + at / 100:.3f}" for at in range(len(NAMES))]
        ends = {
            at_cell(line, value) for line in lines[3:] for value in shown if f" {value}" in line
        }
        assert len(ends) == 1, lines

    drive(session, story, size=size)


def test_every_name_can_be_told_on_a_wide_screen(session: Session) -> None:
    async def story(app, pilot):
        shown = "\n".join(screen_of(app))
        for part in (
            JAPANESE,
            "学习率实验",
            "smile",
            "family",
            "مرحبا",
            "שלום",
            "tude",
            "\\x1b[31m",
        ):
            assert part in shown, part

    drive(session, story, size=(200, 50))


def test_without_colours_and_unicode_nothing_but_ascii_is_drawn(session: Session) -> None:
    async def story(app, pilot):
        for key in ("1", "2", "3", "4", "6", "question_mark"):
            await press(app, pilot, key)
            own = {
                char
                for line in screen_of(app)
                for char in line
                if not char.isascii() and not any(char in name for name in NAMES)
            }
            assert not own, key

    drive(session, story, size=(100, 30), ascii=True, depth="16")


def ask(top: Path, *words: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a verb into a pipe."""
    full = {name: text for name, text in environment().items() if name != "NO_COLOR"} | env
    script = [sys.executable, "-m", "expdb.cli.main", *words]
    return subprocess.run(script, cwd=top, env=full, capture_output=True, check=False, timeout=60)


POOR = ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"TERM": "dumb"})


@pytest.mark.parametrize("env", [*POOR, {"COLUMNS": "40"}, {"COLUMNS": "20"}], ids=str)
def test_a_pipe_gets_every_run_whole_and_no_colours(top: Path, env: dict[str, str]) -> None:
    done = ask(top, "ls", **env)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert b"\x1b" not in done.stdout
    assert b"\t" not in done.stdout or b"tab\tand" not in done.stdout
    said = done.stdout.decode("ascii" if "LC_ALL" in env else "utf-8")
    for at in range(len(NAMES)):
        assert f"{2.0 + at / 100:.3f}".rstrip("0") in said, "no run is left out or cut"


@pytest.mark.parametrize("env", [{}, *POOR], ids=str)
def test_the_app_without_a_terminal_says_what_to_do(top: Path, env: dict[str, str]) -> None:
    done = ask(top, "tui", **env)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        "error: the terminal app needs a terminal", "hint: expdb ls",
    ]  # fmt: skip
    assert not done.stdout
