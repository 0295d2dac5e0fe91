"""Pace and the time that is left, from a clock of our own."""

from __future__ import annotations

import pytest

from expdb.track.throughput import Delayed, Pace, due_between


class Test_pace:
    def test_tokens_a_second_over_fifty_updates_without_the_slow_first_ones(self):
        pace = Pace()
        for _ in range(5):
            pace.stepped(30.0)
            pace.counted(2048)
        for _ in range(50):
            pace.stepped(0.5)
            pace.counted(2048)
        assert pace.tokens_per_s() == 4096.0

    def test_the_first_updates_count_while_there_are_no_others(self):
        pace = Pace()
        assert pace.tokens_per_s() is None
        pace.stepped(2.0)
        pace.counted(100)
        assert pace.tokens_per_s() == 50.0

    def test_the_time_left_counts_evaluations_and_saves_and_waits_for_ten_updates(self):
        pace = Pace()
        pace.evaluated(3.0)
        pace.evaluated(5.0)
        pace.saved(1.0)
        for _ in range(9):
            pace.stepped(0.1)
        assert pace.eta_s(steps=100, evaluations=2, saves=1) is None
        pace.stepped(0.1)
        assert pace.eta_s(steps=100, evaluations=2, saves=1) == pytest.approx(10 + 8 + 1)
        assert pace.eta_s(steps=0, evaluations=0, saves=0) == 0

    @pytest.mark.parametrize(
        ("every", "after", "upto", "expected"),
        [(50, 0, 300, 6), (50, 120, 300, 4), (100, 120, 250, 2), (None, 0, 9, 1), (5, 9, 9, 0)],
    )
    def test_what_is_due_until_the_end(self, every, after, upto, expected):
        assert due_between(every, after, upto) == expected


def test_host_values_are_there_at_once_and_in_order():
    delayed = Delayed()
    delayed.push(1, 0.5, 10)
    delayed.push(2, 0.25, 20)
    assert len(delayed) == 2
    assert list(delayed.ready()) == [(1, (0.5, 10.0)), (2, (0.25, 20.0))]
    assert list(delayed.drain()) == []
