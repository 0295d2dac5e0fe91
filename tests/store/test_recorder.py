"""Points are the same before and after they are sealed, whoever writes meanwhile."""

from __future__ import annotations

import math
import threading
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.store import recorder, series
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.store.parts import read_list
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from expdb.store.recover import recount
from tests.store.recorder_made import RUN, journals, make, steps_of

KEYS = st.sampled_from(["a", "b", "Loss", "loss", "é/数", "x" * 300])


STEPS = st.lists(
    st.tuples(
        st.lists(KEYS, min_size=1, max_size=4, unique=True).map(tuple),
        st.integers(-5, 30),
        st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf]),
    ),
    max_size=25,
)


@settings(max_examples=30)
@given(STEPS, st.sampled_from([3, 8, 10**6]))
def test_points_are_the_same_before_and_after_they_are_sealed(
    tmp_path_factory: pytest.TempPathFactory, steps: list, limit: int
) -> None:
    layout = make(tmp_path_factory.getbasetemp(), new_id())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "SEAL_POINTS", limit)
        patch.setattr(recorder, "RETRY_S", 0.0)
        item = Recorder(layout, run=layout.id, attempt=1)
        for number, (keys, step, value) in enumerate(steps):
            item.write(keys, [value] * len(keys), step, number)
        before = read_series(layout.root, attempts=True).to_pylist()
        item.close()
    after = read_series(layout.root, attempts=True).to_pylist()
    assert sorted(map(repr, before)) == sorted(map(repr, after))
    assert len(after) == sum(len(keys) for keys, _, _ in steps)
    assert journals(layout) == []
    book = item.book
    if book.unordered:
        book = recount(layout, keys=book.unordered)
    assert repr(dict(sorted(book.series.items()))) == repr(dict(recount(layout).series))


def test_series_of_keys_that_share_templates_stay_exact(layout: RunLayout) -> None:
    """A validation step logs more keys than the others: no reason to count again."""
    item = Recorder(layout, run=RUN, attempt=1)
    for step in range(10):
        item.write(("loss",), [float(step)], step, 0)
        if step % 3 == 0:
            item.write(("val", "loss2"), [1.0, 2.0], step, 0)
        if step % 2:
            item.write(("loss2", "lr"), [3.0, 4.0], 100 + step, 0)
    for step in range(10, 30):
        keys = ("loss", "val") if step % 5 == 0 else ("loss",)
        item.write(keys, [float(step)] * len(keys), step, 0)
    book = item.update_book()
    assert "loss" not in book.unordered
    assert "val" not in book.unordered
    assert book["loss"].count == 30
    assert book["loss"].tail == (27.0, 28.0, 29.0)
    assert "loss2" in book.unordered
    item.close()


def test_a_run_of_many_templates_defines_each_once(layout: RunLayout) -> None:
    item = Recorder(layout, run=RUN, attempt=1)
    for number in range(300):
        item.write((f"expert/{number}", "loss"), [0.0, float(number)], number, 0)
    assert item._journal.size < 300 * 120
    item.close()
    assert steps_of(layout, "loss") == list(range(300))


def test_parts_are_sealed_by_size_while_writing(layout: RunLayout, small_parts: None) -> None:
    item = Recorder(layout, run=RUN, attempt=1)
    for step in range(200):
        item.write(("a", "b"), (float(step), -0.0), step, step)
        if item._sealing is not None:
            item._sealing.join()
    entries = read_list(layout.parts_list(1, 0))
    assert len(entries) >= 15
    assert steps_of(layout, attempts=True) == list(range(200))
    book = series.load(layout.series_json)
    assert book.through(1, 0) >= entries[-1].last_seq  # what has no journal any more is counted
    item.close()
    entries = read_list(layout.parts_list(1, 0))
    assert steps_of(layout, attempts=True) == list(range(200))
    assert sum(entry.num_points for entry in entries) == 400
    spans = [(entry.first_seq, entry.last_seq) for entry in entries]
    assert all(one[1] < two[0] for one, two in pairwise(spans))
    for entry in entries:
        assert (layout.points / entry.file).stat().st_size == entry.bytes
        assert entry.file == f"part-a1-r0-{entry.first_seq}-{entry.last_seq}.parquet"
    assert len(list(layout.points.iterdir())) == len(entries)
    assert series.load(layout.series_json)["a"].count == 200


def test_counting_beside_writing_and_sealing_never_stands_still(
    layout: RunLayout, small_parts: None
) -> None:
    """The heartbeat counts while the writer begins to seal: each wants what the other holds."""
    item = Recorder(layout, run=RUN, attempt=1)
    stop = threading.Event()

    def write() -> None:
        for step in range(1500):
            item.write(("a",), (1.0,), step, 0)
        stop.set()

    def count() -> None:
        while not stop.is_set():
            item.save_book()

    threads = [threading.Thread(target=write, daemon=True) for _ in range(1)]
    threads += [threading.Thread(target=count, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    item.close()
    assert item.book["a"].count == 1500
    assert item.book.unordered == set()
    assert steps_of(layout, attempts=True) == list(range(1500))


def test_many_threads_write_one_journal(layout: RunLayout, small_parts: None) -> None:
    item = Recorder(layout, run=RUN, attempt=1)

    def write(number: int) -> None:
        for step in range(200):
            item.write((f"t{number}", "both"), (float(step), float(number)), step, 0)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    item.close()
    for number in range(4):
        assert steps_of(layout, f"t{number}", attempts=True) == list(range(200))
    assert len(steps_of(layout, "both", attempts=True)) == 800


def test_only_floats_under_known_keys_are_recorded_without_a_look(layout: RunLayout) -> None:
    item = Recorder(layout, run=RUN, attempt=1)
    floats = (float, float)
    assert not item.write(("a", "b"), (1.0, 2.0), 1, 0, floats)
    assert item.write(("a", "b"), (1.0, 2.0), 1, 0)
    assert item.write(("a", "b"), (3.0, 4.0), 2, 0, floats)
    assert not item.write(("a", "b"), (3.0, 4), 3, 0, (float, int))
    assert not item.write(("a",), (3.0,), 3, 0, (float,))
    assert not item.write((), (), 3, 0, ())
    item.close()
    assert not item.write(("a", "b"), (5.0, 6.0), 4, 0, floats)
    assert steps_of(layout, attempts=True) == [1, 2]


def test_the_latest_value_of_a_key_is_that_of_the_last_call_that_had_it(
    layout: RunLayout, small_parts: None
) -> None:
    item = Recorder(layout, run=RUN, attempt=1)
    assert item.latest() == {}
    item.write(("a", "b"), (1.0, 2.0), 1, 0)
    item.write(("c", "b"), (3.0, 4.0), 2, 0)
    assert list(item.latest().items()) == [("a", (1, 1.0)), ("b", (2, 4.0)), ("c", (2, 3.0))]
    item.write(("a", "b"), (5.0, 6.0), 1, 0)
    assert item.latest()["b"] == (1, 6.0)
    for step in range(30):  # parts are sealed meanwhile
        item.write(("d",), (float(step),), step, 0)
    item.close()
    assert item.latest() == {"a": (1, 5.0), "b": (1, 6.0), "c": (2, 3.0), "d": (29, 29.0)}
