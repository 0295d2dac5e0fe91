"""What happens at the ends: of a row that is wrapped, of the app itself, of an order with ties."""

from __future__ import annotations

from expdb_tui.ink import width_of, wrap
from expdb_tui.session import Session
from tests.tui.driving import drive


def texts(rows) -> list[str]:
    return ["".join(text for text, _ in row) for row in rows]


def test_rows_break_at_spaces_and_go_on_below_with_an_indent() -> None:
    pieces = [("refused ", "dim"), ("it runs from this work tree", "fail")]
    assert texts(wrap(pieces, 16, 2)) == ["refused it runs", "  from this work", "  tree"]
    assert wrap([], 10) == [[]]
    assert texts(wrap([("short", "text")], 10)) == ["short"]


def test_a_word_that_is_too_long_is_broken_by_cells() -> None:
    rows = wrap([("a/very/long/path 日本語日本語", "text")], 8)
    assert "".join(texts(rows)).replace(" ", "") == "a/very/long/path日本語日本語"
    assert all(width_of(row) <= 8 for row in rows)


def test_a_tick_while_the_app_is_left_does_nothing(session: Session) -> None:
    apps = []

    async def story(app, pilot):
        apps.append(app)

    drive(session, story)
    apps[0].tick()
