"""Acknowledged events: one op, a line in the run, no longer open; undo, and what grows worse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from expdb.actions.ack import acknowledge, to_acknowledge
from expdb.actions.ops import op_rows
from expdb.actions.undo import undo
from expdb.errors import NotFound
from expdb.index.reader import Reader, open_reader
from expdb.model import Event
from expdb.query.events import Asked, events_of
from expdb.query.paging import order_of, page_of
from expdb.store.layout import RunLayout
from expdb.store.marks import add_event, touch_status
from expdb.store.resolve import Resolved
from expdb.store.store import Store
from tests.query.made import make_run, make_store, write_run

RUN = "k3f9x2m7qd"
SPIKE = Event(step=30, severity="warn", rule="loss_spike", message="it jumped", key="train/loss")
NAN = Event(step=50, severity="critical", rule="non_finite", message="NaN", created_at_ms=9)
INFO = Event(step=60, severity="info", rule="saved", message="a checkpoint")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = make_store(tmp_path / "runs")
    write_run(made, make_run(RUN, value=1.8, events=(SPIKE, NAN, INFO)))
    return made


@pytest.fixture
def reader(store: Store) -> Iterator[Reader]:
    with open_reader(store) as found:
        yield found


def layout(store: Store) -> RunLayout:
    return RunLayout(store.layout.run_dir("baseline", RUN))


def open_ones(store: Store) -> tuple[int, bool, int]:
    """Return the open events of the run, whether one is critical, and the alarms."""
    with open_reader(store) as reader:
        order = order_of(reader, head=None, alarms_since_ms=0)
        [row] = page_of(reader, order, [RUN], head=None)
    return row.num_events, row.is_critical, len(order.alarms)


def test_what_is_acknowledged_is_not_open_until_it_is_undone(store: Store, reader: Reader) -> None:
    assert open_ones(store) == (2, True, 1)
    done = acknowledge(reader, RUN, [NAN])
    assert [event.rule for event in done.events] == ["non_finite"]
    assert open_ones(store) == (1, False, 0)
    assert [row.what for row in op_rows(store, None)] == ["ack non_finite at 50 of k3f9 baseline"]
    again = acknowledge(reader, RUN, [NAN])
    assert (again.op, again.num_same, again.events) == (None, 1, ())
    with open_reader(store) as now:
        at = Resolved(run=RUN, step=None, said="", is_literal=True)
        rows = events_of(now, [at], Asked()).rows
        assert [row.event.is_acknowledged for row in rows] == [False, True, False]
        [whole] = events_of(now, [at], Asked(), step=50).rows
        assert whole.event.is_acknowledged
    assert undo(reader, None, done.op).record == ("ack", "1 event open again")
    assert open_ones(store) == (2, True, 1)


def test_a_whole_run_is_acknowledged_by_one_op(store: Store, reader: Reader) -> None:
    run = reader.run(RUN)
    done = acknowledge(reader, RUN, to_acknowledge(run, None, 4))
    assert [event.rule for event in done.events] == ["loss_spike", "non_finite"]
    assert open_ones(store) == (0, False, 0)
    assert [row.what for row in op_rows(store, None)] == ["ack 2 events of k3f9 baseline"]
    assert undo(reader, None, None).record == ("ack", "2 events open again")
    assert open_ones(store) == (2, True, 1)


def test_an_alert_that_grows_worse_is_open_again(store: Store, reader: Reader) -> None:
    alert = {"key": "train/loss", "opened": 70}
    add_event(layout(store), 70, "warn", "divergence", "it rises", {**alert, "state": "open"})
    touch_status(layout(store))
    with open_reader(store) as now:
        acknowledge(now, RUN, [one for one in now.run(RUN).events if one.rule == "divergence"])
    assert open_ones(store)[0] == 2
    add_event(layout(store), 90, "critical", "divergence", "worse", {**alert, "state": "worse"})
    touch_status(layout(store))
    assert open_ones(store) == (3, True, 2)


def test_a_name_with_line_ends_and_markup_is_one_event(store: Store, reader: Reader) -> None:
    add_event(layout(store), 80, "warn", "odd\n[red]rule", "x", {"key": "a  b"})
    touch_status(layout(store))
    with open_reader(store) as now:
        [odd] = [one for one in now.run(RUN).events if one.step == 80]
        acknowledge(now, RUN, [odd])
    lines = layout(store).marks.read_text().splitlines()
    assert json.loads(lines[-1])["text"] == "80 warn odd [red]rule a b"
    assert open_ones(store)[0] == 2


def test_where_there_is_no_event_none_is_acknowledged(store: Store, reader: Reader) -> None:
    with pytest.raises(NotFound, match="k3f9 baseline has no event at step 7"):
        to_acknowledge(reader.run(RUN), 7, 4)
    write_run(store, make_run("t1h6y3cz8r", value=1.9, events=(INFO,)))
    with open_reader(store) as now, pytest.raises(NotFound, match="no warning and no critical"):
        to_acknowledge(now.run("t1h6y3cz8r"), None, 4)
