"""Every screen in three sizes, dark and light, over one store that is always the same.

The grids of characters and roles are compared with those that are kept (EXPDB_UPDATE_GOLDEN=1
writes them anew); on the light ground each cell has the light ink of what is dark.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from expdb_tui.app import ExpdbApp
from expdb_tui.palette import DARK, LIGHT
from tests.tui.grid import Cell, cells_of, said, text_of, width_of
from tests.tui.walk import SIZES, at_that_time, make_fixed, session_at, walk

pytestmark = pytest.mark.soak
KEPT = Path(__file__).parents[1] / "golden" / "tui"
VIEWS = (
    "runs", "run-curves", "run-layers", "run-evals", "run-events", "plot", "compare",
    "matrix", "history",
)  # fmt: skip
"""Of which grids are kept; the rest is only looked at."""
HASH = re.compile(r"\b[0-9a-f]{7}\b")
Shots = dict[str, list[list[Cell]]]


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fixed(tmp_path_factory.mktemp("fixed"))


def shots(top: Path, size: tuple[int, int], **look: object) -> Shots:
    """Walk through the app; return each screen."""
    found: Shots = {}

    async def play() -> None:
        app = ExpdbApp(session_at(top), **look)
        async with app.run_test(size=size) as pilot:
            async for name in walk(app, pilot):
                found[name] = cells_of(app)

    with at_that_time():
        asyncio.run(play())
    return found


def check(name: str, size: tuple[int, int], rows: list[list[Cell]]) -> None:
    """Compare a screen with the kept one."""
    text = HASH.sub("#" * 7, said(rows, DARK))
    path = KEPT / f"{name}-{size[0]}x{size[1]}.txt"
    if os.environ.get("EXPDB_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text, f"{path.name}: EXPDB_UPDATE_GOLDEN=1 where it is meant"


def light_of(cell: Cell, other: Cell) -> bool:
    """Tell whether a cell has the light colours of the roles that it has on the dark ground."""
    for dark, light in ((cell.ink, other.ink), (cell.ground, other.ground)):
        roles = [role for role, colour in DARK.roles.items() if colour == dark]
        if roles and light not in {LIGHT.roles[role] for role in roles}:
            return False
    return cell.char == other.char and cell.words == other.words


def is_whole(rows: list[list[Cell]], size: tuple[int, int]) -> bool:
    """Tell whether every row has exactly the cells of the screen, and no control character."""
    is_plain = all(cell.char.isprintable() for row in rows for cell in row)
    return is_plain and len(rows) == size[1] and all(width_of(row) == size[0] for row in rows)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_no_screen_spills_and_light_is_dark_with_other_inks(
    fixed: Path, size: tuple[int, int]
) -> None:
    dark, light = shots(fixed, size), shots(fixed, size, ground="light")
    assert dark.keys() == light.keys()
    for name, rows in dark.items():
        assert is_whole(rows, size), name
        for y, (one, other) in enumerate(zip(rows, light[name], strict=True)):
            assert text_of(one) == text_of(other), name
            bad = [(a, b) for a, b in zip(one, other, strict=True) if not light_of(a, b)]
            assert not bad, (name, y, bad[:3])


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_screens_are_those_that_are_kept(fixed: Path, size: tuple[int, int]) -> None:
    found = shots(fixed, size)
    for name in VIEWS:
        check(name, size, found[name])


def test_what_is_kept_is_small() -> None:
    assert sum(path.stat().st_size for path in KEPT.iterdir()) < 300_000
