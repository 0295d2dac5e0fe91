"""Events of one run and of many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from expdb.errors import BadInput, NotFound
from expdb.index.reader import Reader, open_reader
from expdb.model import Event, RunState
from expdb.query.events import (
    DAY_MS,
    Asked,
    events_of,
    events_selected,
    since_ms,
    split_steps,
)
from expdb.query.history_results import EventList
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.marks import add_event
from expdb.store.resolve import Resolved
from expdb.store.store import Store
from tests.query.made import make_run, make_store, write_run

NOW_MS = 1_795_000_000_000
JUMP, BAD, QUIET = "e7s5g2p0va", "b3w9t6d1zm", "k3f9x2m7qd"


def event(step: int, severity: str, rule: str, ago_ms: int = 0) -> Event:
    made = NOW_MS - ago_ms
    return Event(step=step, severity=severity, rule=rule, message=f"m{step}", created_at_ms=made)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = make_store(tmp_path_factory.mktemp("events") / "runs")
    jump = (
        event(174, "critical", "divergence", 10),
        event(151, "warn", "grad_spike", 30),
        event(151, "critical", "loss_spike", 30),
        event(20, "info", "intervention", 50),
    )
    bad = (event(90, "warn", "grad_spike", DAY_MS + 5),)
    write_run(store, make_run(JUMP, experiment="exp03", events=jump, checkpoints=(100, 151)))
    write_run(store, make_run(BAD, experiment="exp04", seed=1, events=bad))
    write_run(store, make_run(QUIET))
    from expdb.store import checkpoints

    layout = RunLayout(StoreLayout(store.root).run_dir("exp03", JUMP))
    for step in (100, 151):
        folder = checkpoints.temp_dir(layout, step)
        folder.mkdir(parents=True)
        (folder / "model.pt").write_bytes(b"weights")
        parts = {"model": {"file": "model.pt", "names": []}}
        checkpoints.seal(folder, checkpoints.Manifest(step=step, attempt=1, parts=parts))
        checkpoints.put_in_place(layout, step)
    return store


@pytest.fixture
def reader(watched: Store) -> Iterator[Reader]:
    with open_reader(watched) as opened:
        yield opened


def target(run: str, step: int | None = None) -> list[Resolved]:
    return [Resolved(run=run, step=step, said="", is_literal=True)]


def short(found: EventList) -> list[tuple[str, int, str]]:
    return [(row.run[:4], row.event.step, row.event.rule) for row in found.rows]


def test_the_events_of_one_run_stand_by_step(reader: Reader) -> None:
    found = events_of(reader, target(JUMP), Asked())
    assert short(found) == [
        ("e7s5", 20, "intervention"),
        ("e7s5", 151, "grad_spike"),
        ("e7s5", 151, "loss_spike"),
        ("e7s5", 174, "divergence"),
    ]
    assert (found.of_one, found.num_all, found.num_runs) == (True, 4, 1)


def test_trouble_begins_with_the_first_and_most_severe_warning(reader: Reader) -> None:
    first = events_of(reader, target(JUMP), Asked(limit=1)).first
    assert first is not None
    assert (first.event.step, first.event.rule) == (151, "loss_spike")
    assert first.good == 100  # the checkpoint of step 151 may have the trouble in it
    bad = events_of(reader, target(BAD), Asked()).first
    assert bad is not None
    assert bad.good is None
    assert events_of(reader, target(QUIET), Asked()).first is None


def test_a_limit_keeps_the_last_steps_and_says_how_many_there_are(reader: Reader) -> None:
    found = events_of(reader, target(JUMP), Asked(limit=2))
    assert [step for _, step, _ in short(found)] == [151, 174]
    assert found.num_all == 4


def test_severity_and_time_select(reader: Reader) -> None:
    warned = events_of(reader, target(JUMP), Asked(severity="warn"))
    assert [row.event.severity for row in warned.rows] == ["warn", "critical", "critical"]
    critical = events_of(reader, target(JUMP), Asked(severity="critical"))
    assert len(critical.rows) == 2
    late = events_of(reader, target(JUMP), Asked(since_ms=NOW_MS - 20))
    assert short(late) == [("e7s5", 174, "divergence")]


def test_one_step_is_shown_of_a_run(reader: Reader) -> None:
    found = events_of(reader, target(JUMP), Asked(), step=151)
    assert len(found.rows) == 2
    assert found.step == 151
    assert len(events_of(reader, target(JUMP, 174), Asked()).rows) == 1
    with pytest.raises(NotFound, match="has no event at step 7; it has some at 20, 151, 174") as no:
        events_of(reader, target(JUMP), Asked(), step=7)
    assert no.value.hints == ("expdb events e7s5@20",)
    with pytest.raises(NotFound, match="k3f9 baseline has no event"):
        events_of(reader, target(QUIET), Asked(), step=7)


def test_several_runs_stand_with_the_newest_first(reader: Reader) -> None:
    found = events_of(reader, [*target(BAD), *target(JUMP)], Asked())
    assert [run for run, _, _ in short(found)] == ["e7s5", "e7s5", "e7s5", "e7s5", "b3w9"]
    assert [row.event.step for row in found.rows][:2] == [174, 151]
    assert (found.of_one, found.num_runs, found.first) == (False, 2, None)


def test_all_runs_show_the_last_day_unless_more_is_asked_for(reader: Reader) -> None:
    found = events_selected(reader, "true", (), Asked(), now_ms=NOW_MS)
    assert {run for run, _, _ in short(found)} == {"e7s5"}
    assert (found.is_last_day, found.num_runs) == (True, 3)
    older = events_selected(reader, "true", (), Asked(since_ms=0), now_ms=NOW_MS)
    assert (len(older.rows), older.is_last_day) == (5, False)
    chosen = events_selected(reader, "r.experiment = ?", ("exp04",), Asked(), now_ms=NOW_MS)
    assert short(chosen) == [("b3w9", 90, "grad_spike")]
    assert chosen.num_runs == 1


def test_the_step_of_an_event_is_no_part_of_the_run() -> None:
    assert split_steps(["exp01:s2@151"]) == (["exp01:s2"], 151)
    assert split_steps(["exp01@best", "k3f9"]) == (["exp01@best", "k3f9"], None)
    with pytest.raises(BadInput, match="of one run alone"):
        split_steps(["exp01", "exp02@7"])


def test_a_moment_is_a_duration_back_or_a_date() -> None:
    assert since_ms("2d", now_ms=NOW_MS) == NOW_MS - 2 * DAY_MS
    assert since_ms("2026-11-28T00:00+00:00", now_ms=NOW_MS) == 1_795_824_000_000
    with pytest.raises(BadInput, match="--since soon is no time"):
        since_ms("soon", now_ms=NOW_MS)


def test_an_event_of_a_live_run_is_seen_at_once(store: Store) -> None:
    path = write_run(store, make_run(QUIET, state=RunState.RUNNING))
    with open_reader(store) as opened:
        assert events_of(opened, target(QUIET), Asked()).rows == ()
    add_event(RunLayout(path), 7, "warn", "grad_spike", "z 7.1 > 6")
    with open_reader(store) as opened:
        (row,) = events_of(opened, target(QUIET), Asked()).rows
    assert (row.event.step, row.event.message) == (7, "z 7.1 > 6")
