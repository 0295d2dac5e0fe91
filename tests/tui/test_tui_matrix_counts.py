"""The line of counts above the matrix."""

from __future__ import annotations

import pytest

from expdb.query.matrix_results import Matrix
from expdb.signs import STATE_GLYPHS
from expdb_tui.matrix.cells import STATES, counts_of
from expdb_tui.matrix.chosen import suggested


def matrix(**counts: int) -> Matrix:
    named = {name.replace("_", " "): count for name, count in counts.items()}
    return Matrix(
        seeds=(0,), rows=(), counts=named, objective=None, noise=None, base=None, num_others=0
    )


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_a_count_has_the_glyph_of_its_cells(state: str, ascii: bool) -> None:
    shown = "".join(text for text, _ in counts_of(matrix(**{state: 3}), ascii))
    look = STATE_GLYPHS[state]
    assert shown.split()[:2] == [look.ascii if ascii else look.glyph, "3"]


def test_only_what_there_is_is_counted_and_suggested() -> None:
    made = matrix(up_to_date=1, crashed=2, preempted=1)
    assert "".join(text for text, _ in counts_of(made, True)).split() == list("+1!2=1")
    assert suggested(made, "", 0).words == ("up", "crashed", "preempted")
