"""The bar at every width: which parts leave, and that it keeps its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from expdb.text import cells
from expdb.track.bar import Progress, bar

HALF = Progress(step=180, max_steps=300, loss=2.131, tokens_per_s=18_300, eta_s=14)


def drawn(width: int, progress: Progress = HALF, *, ascii: bool = False) -> str:
    return bar(progress, experiment="exp01", run="t1h6", width=width, ascii=ascii)


def test_the_parts_leave_in_order_as_the_terminal_narrows() -> None:
    full = "loss 2.131  18.3k tok/s  eta 0:14"
    assert drawn(100) == f"  exp01 t1h6 {'━' * 24}{'─' * 16} 180/300  {full}"
    assert drawn(80) == f"t1h6 {'━' * 19}{'─' * 13} 180/300  {full}"
    assert drawn(60) == f"{'━' * 17}{'─' * 12}  180/300  loss 2.131  eta 0:14"
    assert drawn(40) == "180/300  loss 2.131  eta 0:14"
    assert drawn(80, ascii=True) == f"t1h6 [{'#' * 18}{'.' * 12}] 180/300  {full}"


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("phase", ["", "evaluating 3/8"])
def test_it_never_is_wider_than_the_terminal(ascii: bool, phase: str) -> None:
    for width in range(10, 130):
        for wait in (None, 34.0):
            line = drawn(width, replace(HALF, phase=phase, wait_pct=wait), ascii=ascii)
            assert cells(line) <= width
            assert line.count("━") + line.count("─") <= 40


def test_it_keeps_its_place_while_it_evaluates_or_saves() -> None:
    for width in (100, 80, 60):
        busy = drawn(width, replace(HALF, phase="evaluating 3/8"))
        assert busy.endswith("180/300  evaluating 3/8")
        assert drawn(width).startswith(busy.removesuffix("  evaluating 3/8"))
    assert drawn(40, replace(HALF, phase="saving")) == "180/300  saving"


def test_a_wait_for_data_shows_above_ten_percent() -> None:
    assert "wait" not in drawn(100, replace(HALF, wait_pct=10.0))
    assert "  wait 34 %  eta 0:14" in drawn(100, replace(HALF, wait_pct=34.0))


def test_it_fills_from_empty_to_whole() -> None:
    assert "━" not in drawn(80, replace(HALF, step=0))
    assert "─" not in drawn(80, replace(HALF, step=300))
    assert drawn(60, Progress(step=0, max_steps=0)).endswith("0/0  eta --:--")
