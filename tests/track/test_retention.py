"""Which checkpoints may go."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.errors import BadInput
from expdb.store.retention import Candidate, Keep, keep_of, removable


def gone(values, *, last=2, best=1, mode="min", protected=(), newest=None, attempts=None):
    """Apply the rule to step -> value."""
    attempts = attempts or {}
    candidates = [
        Candidate(step=step, value=value, attempt=attempts.get(step, 1))
        for step, value in values.items()
    ]
    return removable(
        candidates,
        keep=Keep(last=last, best=best),
        mode=mode,
        protected=protected,
        newest=max(values) if newest is None else newest,
    )


def test_the_newest_two_and_the_best_stay():
    assert gone({100: 2.5, 200: 2.3, 300: 2.1}) == (100,)
    assert gone({100: 1.5, 200: 2.3, 300: 2.1}) == ()
    assert gone({100: 1.5, 200: 2.3, 300: 2.1, 400: 2.2}) == (200,)
    assert gone({100: 0.1, 200: 0.3, 300: 0.2, 400: 0.25}, mode="max") == (100,)
    assert gone({100: 1.0, 200: 2.0, 300: 3.0, 400: 4.0, 500: 5.0}, best=2) == (300,)
    assert gone({100: 1.0, 200: 2.0, 300: 3.0}, best=0, last=1) == (100, 200)
    assert gone({100: 1.0, 200: 2.0, 300: 3.0}, best=0, last=1, newest=100) == (200,)


def test_what_is_protected_stays():
    assert gone({100: 2.5, 200: 2.3, 300: 2.1, 400: 2.0}, protected={100}) == (200,)
    assert gone({100: 2.5, 200: 2.3, 300: 2.1, 400: 2.0}, protected={999}) == (100, 200)


def test_values_that_are_not_finite_or_not_known_are_never_best():
    nan = math.nan
    assert gone({100: nan, 200: -math.inf, 300: None, 400: 5.0, 500: 6.0, 600: 7.0}) == (
        100,
        200,
        300,
    )
    assert gone({100: nan, 200: nan, 300: nan}, last=1) == (100, 200)


def test_of_equal_values_the_newer_is_the_better():
    assert gone({100: 1.0, 200: 1.0, 300: 2.0, 400: 2.0}) == (100,)


def test_what_a_later_attempt_wrote_is_newer_than_any_step_of_an_earlier_one():
    values = {100: None, 200: None, 300: None, 150: None}
    assert gone(values, best=0, attempts={150: 2}, newest=150) == (100, 200)


def test_one_that_is_not_whole_is_left_alone():
    candidates = [
        Candidate(step=100, complete=False),
        Candidate(step=200),
        Candidate(step=300),
        Candidate(step=400),
    ]
    rule = {"keep": Keep(last=1, best=0), "mode": "min", "protected": ()}
    assert removable(candidates, newest=400, **rule) == (200, 300)


def test_last_null_keeps_all():
    assert gone({step: 1.0 for step in range(100)}, last=None) == ()


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.integers(0, 50), st.none() | st.floats(), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(0, 3),
    st.sets(st.integers(0, 50), max_size=4),
)
def test_enough_always_stays(values, last, best, protected):
    newest = max(values)
    removed = set(gone(values, last=last, best=best, protected=protected))
    kept = set(values) - removed
    assert newest in kept
    assert not removed & protected
    assert set(sorted(values)[-last:]) <= kept
    finite = [v for v in values.values() if v is not None and math.isfinite(v)]
    if best and finite:
        assert min(finite) in [values[step] for step in kept]
    assert len(kept) <= last + best + len(protected) + 1


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"last": 0}, "keep.last is 0"),
        ({"last": "2"}, "keep.last is '2'"),
        ({"best": -1}, "keep.best is -1"),
        ({"best": True}, "keep.best is True"),
        ({"newest": 2}, "keep has no key `newest`"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(section, message):
    with pytest.raises(BadInput, match=message):
        keep_of(section)


def test_words():
    assert keep_of({}).words() == "last 2, best 1"
    assert keep_of({"last": 3, "best": 0}).words() == "last 3"
    assert keep_of({"last": None}).words() == "all"
