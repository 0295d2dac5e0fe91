"""What a recorder does not take, and who may not write with it."""

from __future__ import annotations

import os
import pickle
import threading

import pytest

from expdb.errors import BadInput
from expdb.store import templates
from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from tests.store.recorder_made import RUN, steps_of


@pytest.mark.parametrize("bad", ["", "x\ud800", "y" * 70_000])
def test_a_name_that_cannot_be_stored_is_refused_and_the_others_are_kept(
    layout: RunLayout, bad: str
) -> None:
    item = Recorder(layout, run=RUN, attempt=1)
    for step in (1, 2):
        with pytest.raises(BadInput, match="the name"):
            item.write(("a", bad, "b"), (1.0, 2.0, 3.0), step, 0)
    with pytest.raises(BadInput):
        item.write((bad,), (1.0,), 3, 0)
    assert steps_of(layout, "b") == [1, 2]
    item.close()
    assert read_series(layout.root)["value"].to_pylist() == [1.0, 1.0, 3.0, 3.0]


def test_a_step_beyond_64_bits_is_refused(layout: RunLayout) -> None:
    item = Recorder(layout, run=RUN, attempt=1)
    with pytest.raises(BadInput, match=f"step {2**63}"):
        item.write(("a",), (1.0,), 2**63, 0)
    item.write(("a",), (1.0,), 2**63 - 1, 0)
    item.close()
    assert steps_of(layout) == [2**63 - 1]


def test_more_keys_than_a_template_takes(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert templates.MAX_KEYS == 2**16 - 1
    monkeypatch.setattr(templates, "MAX_KEYS", 100)
    item = Recorder(layout, run=RUN, attempt=1)
    keys = tuple(f"k{number}" for number in range(250))
    for step in (5, 6):
        item.write(keys, [1.0] * 250, step, 0)
    assert read_series(layout.root).num_rows == 500
    item.close()
    assert steps_of(layout, "k249", attempts=True) == [5, 6]


def test_a_closed_recorder_takes_no_points_and_closes_again(layout: RunLayout) -> None:
    item = Recorder(layout, run=RUN, attempt=1)
    item.write(("a",), (1.0,), 1, 0)
    item.close()
    for keys in (("a",), ("new",)):
        with pytest.raises(BadInput, match="ended"):
            item.write(keys, (1.0,), 2, 0)
    item.close()
    item.sync()
    assert item.update_book()["a"].count == 1
    assert steps_of(layout, attempts=True) == [1]


def test_a_fork_cannot_write_and_does_not_disturb(layout: RunLayout) -> None:
    item = Recorder(layout, run=RUN, attempt=1)
    item.write(("a",), (1.0,), 1, 0)
    held, go = threading.Event(), threading.Event()

    def hold() -> None:  # such as a heartbeat at the moment of the fork
        with item._counting, item._lock:
            held.set()
            go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            item.abandon()
            item.write(("a",), (9.0,), 9, 0)
        except BadInput as error:
            code = 0 if "fork" in error.message else 2
        item.close()
        os._exit(code)
    go.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    item.write(("a",), (2.0,), 2, 0)
    item.close()
    assert steps_of(layout, attempts=True) == [1, 2]


def test_a_recorder_cannot_be_pickled(layout: RunLayout) -> None:
    item = Recorder(layout, run=RUN, attempt=1)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(item)
    item.close()
