"""Stopping early: by means over evaluations, with a relative gain, and where the best was."""

from __future__ import annotations

from typing import Any

import pytest

from expdb.monitor.no_gain import NoGain
from tests.monitor.feeding import fired

DIP = [3.0, 2.9, 2.8, 1.9, 2.6, 2.5, 2.4, 2.3, 2.2, 2.1, *[2.05] * 5]
"""The fourth is luck: it falls by 0.1 each time, down to 2.05."""
RULE: dict[str, Any] = {"window": 3, "min_rel_delta": 0.01, "patience": 3}


def naive(values: list[float], patience: int = 3) -> int | None:
    """Return where a rule stops that waits for a new lowest value."""
    best, waited = values[0], 0
    for index, value in enumerate(values[1:], 1):
        best, waited = (value, 0) if value < best else (best, waited + 1)
        if waited == patience:
            return index
    return None


def test_one_lucky_dip_does_not_stop_a_run_and_a_real_end_does() -> None:
    assert naive(DIP) == 6
    assert fired("no_gain", DIP, **RULE) == [14]
    assert fired("no_gain", DIP[:14], **RULE) == []
    up = [-one for one in DIP]
    assert fired("no_gain", up, **RULE, up=True) == [14]


def test_the_best_is_that_of_the_means_and_not_the_lowest_value() -> None:
    found = NoGain("x", **RULE)
    best = []
    for step, value in enumerate(DIP):
        found.update(step, {"x": value})
        best.append(found.best_step)
    assert best == [None, None, 2, 3, 4, 5, 5, 5, 8, 9, 10, 11, 12, 12, 12]
    assert min(range(len(DIP)), key=DIP.__getitem__) == 3


@pytest.mark.parametrize(("gain", "stops"), [(0.0015, []), (0.0003, [7])])
def test_a_gain_is_relative(gain: float, stops: list[int]) -> None:
    for scale in (1.0, 1000.0):
        values = [scale * (1 - gain) ** index for index in range(8)]
        assert fired("no_gain", values)[:1] == stops
