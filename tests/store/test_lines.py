"""Files of JSON lines: what a death in the middle of a line leaves, and what damage is."""

from __future__ import annotations

from pathlib import Path

import pytest

from expdb.store.layout import RunLayout
from expdb.store.marks import add_mark, append_lines
from expdb.store.records import CUT_OFF, read_marks


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(tmp_path)


def notes(layout: RunLayout) -> tuple[tuple[str, ...], list[str]]:
    problems: list[str] = []
    return read_marks(layout, problems)[1], problems


def test_a_line_whose_writer_died_is_no_damage_whatever_follows(layout: RunLayout) -> None:
    add_mark(layout, "note", "first")
    whole = layout.marks.read_bytes()
    for cut in range(1, len(whole)):
        layout.marks.write_bytes(whole + whole[:-1][:cut])
        is_whole = cut == len(whole) - 1  # only its line end is gone
        assert notes(layout) == (("first", "first") if is_whole else ("first",), [])
        add_mark(layout, "note", "second")
        assert notes(layout) == ((*notes(layout)[0][:-1], "second"), [])
        assert len(notes(layout)[0]) == 2 + is_whole
    assert CUT_OFF.encode() in layout.marks.read_bytes()


def test_a_line_that_was_damaged_is_named(layout: RunLayout) -> None:
    append_lines(layout.marks, b'{"kind": "note", "text": "half\n', durable=False)
    add_mark(layout, "note", "second")
    assert notes(layout) == (("second",), ["marks.jsonl: line 1 is damaged"])
