from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expdb.errors import Corrupt
from expdb.model import Series
from expdb.store.series import SeriesBook, load

VALUES = st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, math.nan, math.inf, -math.inf, 1e308, 5e-324])
SERIES = st.lists(st.tuples(st.integers(1, 3), VALUES), min_size=1, max_size=20)


def count(points: list[tuple[int, float]]) -> Series:
    """The summary in plain words; `points` sorted by step."""
    finite = [(value, step) for step, value in points if math.isfinite(value)]
    low = min(finite, key=lambda item: (item[0], item[1]), default=(None, None))
    high = min(finite, key=lambda item: (-item[0], item[1]), default=(None, None))
    trailing = None
    for step, value in reversed(points):
        if math.isfinite(value):
            break
        trailing = step
    return Series(
        key="k",
        count=len(points),
        nonfinite=len(points) - len(finite),
        first_step=points[0][0],
        first=points[0][1],
        last_step=points[-1][0],
        last=points[-1][1],
        min=low[0],
        min_step=low[1],
        max=high[0],
        max_step=high[1],
        tail=tuple(value for _, value in points[-3:]),
        nonfinite_step=trailing,
    )


def same(one: Series, other: Series) -> None:
    assert repr(one) == repr(other)  # NaN equals NaN and -0.0 is not 0.0


def feed(book: SeriesBook, points: list[tuple[int, float]]) -> None:
    steps = np.array([step for step, _ in points], np.int64)
    book.update("k", steps, np.array([value for _, value in points], np.float64))


def growing(gaps: list[tuple[int, float]]) -> list[tuple[int, float]]:
    step, out = -2, []
    for gap, value in gaps:
        step += gap
        out.append((step, value))
    return out


@given(SERIES, st.lists(st.integers(0, 20), max_size=5))
def test_counting_in_any_chunks_is_counting_at_once(gaps: list, cuts: list[int]) -> None:
    points = growing(gaps)
    book = SeriesBook()
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(points)], strict=True):
        feed(book, points[start:stop])
    same(book["k"], count(points))
    assert book.unordered == set()


@given(st.lists(st.tuples(st.integers(0, 8), VALUES), min_size=2, max_size=12), st.integers(1, 11))
def test_steps_that_do_not_grow_are_flagged_and_right_after_a_recount(
    points: list, cut: int
) -> None:
    book = SeriesBook()
    feed(book, points[:cut])
    feed(book, points[cut:])
    steps = [step for step, _ in points]
    grows = all(b > a for a, b in pairwise(steps))
    assert book.unordered == (set() if grows else {"k"})
    seen = sorted(dict(points).items())  # the last of a step wins
    book.replace("k", np.array([s for s, _ in seen]), np.array([v for _, v in seen], np.float64))
    same(book["k"], count(seen))
    assert book.unordered == set()


def test_what_is_not_finite_is_counted_and_never_best() -> None:
    book = SeriesBook()
    feed(book, [(1, math.nan), (2, math.inf)])
    found = book["k"]
    assert (found.nonfinite, found.min, found.max, found.nonfinite_step) == (2, None, None, 1)
    assert found.best("min") is None
    feed(book, [(3, 5.0), (4, -math.inf), (5, math.nan)])
    found = book["k"]
    assert (found.min, found.min_step, found.max, found.max_step) == (5.0, 3, 5.0, 3)
    assert (found.nonfinite, found.nonfinite_step, found.first_step) == (4, 4, 1)
    feed(book, [(6, 1.0)])
    assert book["k"].nonfinite_step is None


@given(SERIES)
def test_the_file_comes_back(tmp_path_factory: pytest.TempPathFactory, gaps: list) -> None:
    path = tmp_path_factory.getbasetemp() / "series.json"
    book = SeriesBook()
    feed(book, growing(gaps))
    book.attempt, book.through_seq, book.unordered = 2, {0: 17, 3: 4}, {"k"}
    book.save(path)
    back = load(path)
    same(back["k"], book["k"])
    assert (back.attempt, back.through_seq, back.unordered) == (2, {0: 17, 3: 4}, {"k"})
    assert (back.through(2, 0), back.through(2, 1), back.through(1, 0)) == (17, 0, 0)


def test_a_copy_stays_as_it_is() -> None:
    book = SeriesBook()
    feed(book, [(1, 1.0)])
    book.through_seq = {0: 1}
    copy = book.copy()
    feed(book, [(1, 2.0)])
    book.through_seq[0] = 2
    assert (copy["k"].count, copy.unordered, copy.through_seq) == (1, set(), {0: 1})
    assert book["k"].count == 2


def test_no_file_is_an_empty_book(tmp_path: Path) -> None:
    assert dict(load(tmp_path / "series.json").series) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b'{"series":[]}', b'{"series":{"k":{}}}', b'{"series":{"k":5}}',
        b'{"series":{"k":{"count":"x"}}}', b'{"unordered":5}', b'{"through_seq":[1]}',
        b'{"through_seq":{"a":1}}', b'{"attempt":null}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "series.json"
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=r"series\.json"):
        load(path)


@given(st.data())
def test_keys_counted_together_have_the_summaries_of_keys_counted_alone(
    data: st.DataObject,
) -> None:
    together, alone = SeriesBook(), SeriesBook()
    value = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, math.nan, math.inf, -math.inf])
    for _ in range(data.draw(st.integers(1, 4))):
        keys = data.draw(st.lists(st.sampled_from("abcde"), unique=True, min_size=1).map(tuple))
        steps = np.array(data.draw(st.lists(st.integers(-5, 30), max_size=6)), np.int64)
        if data.draw(st.booleans()):
            steps = np.unique(steps)
        rows = [[data.draw(value) for _ in steps] for _ in keys]
        values = np.array(rows, np.float64).reshape(len(keys), len(steps))
        together.update_together(keys, steps, values)
        for key, own in zip(keys, values, strict=True):
            alone.update(key, steps, own)
    assert repr(together.series) == repr(alone.series)
    assert together.unordered == alone.unordered
