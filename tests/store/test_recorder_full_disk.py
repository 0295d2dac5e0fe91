"""A store that cannot take what is written: points wait in memory or the journal, and count."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from expdb.errors import Corrupt
from expdb.store import recorder
from expdb.store.journal import JournalReader
from expdb.store.layout import RunLayout
from expdb.store.parts import read_list
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from tests.store.recorder_made import RUN, fill, journals, make, steps_of


def test_a_full_disk_keeps_points_waiting_and_loses_none(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    layout, said = make(small_disk), list[str]()
    keys = tuple(f"k{number}" for number in range(90))
    item = Recorder(layout, run=RUN, attempt=1, on_trouble=said.append)
    for step in range(10):
        item.write(keys, [float(step)] * 90, step, 0)
    filler = fill(small_disk)
    for step in range(10, 40):
        item.write(keys, [float(step)] * 90, step, 0)
    assert item.num_waiting > 0
    assert said[0] == "store: no space left; points wait in memory, none lost"
    reader = JournalReader(layout.journal(1, 0, 1))
    written = list(reader)
    assert reader.torn_bytes == 0  # the half frame was cut off
    assert [value.step for value in written] == list(range(len(written)))
    assert 10 <= len(written) < 40
    assert steps_of(layout, "k7") == list(range(len(written)))
    with pytest.raises(OSError, match="No space"):
        item.close()
    item.write(("more",), [1.0], 40, 0)
    filler.unlink()
    item.sync()
    assert item.num_waiting == 0
    assert said[-1].startswith("store is back: ")
    assert steps_of(layout, "k7") == list(range(40))
    item.write(("more",), [1.0], 41, 0)
    item.close()
    item.close()
    assert (item.num_dropped, steps_of(layout, "k7")) == (0, list(range(40)))
    assert steps_of(layout, "more", attempts=True) == [40, 41]
    assert journals(layout) == []


def test_what_waits_is_sealed_at_the_end_though_the_journal_never_took_it(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 3600.0)
    layout = make(small_disk)
    item = Recorder(layout, run=RUN, attempt=1)
    filler = fill(small_disk)
    for step in range(100):
        item.write(("a", "b"), [1.0, 2.0], step, 0)
    assert item.num_waiting > 10
    filler.unlink()
    item.close()
    assert steps_of(layout, attempts=True) == list(range(100))


def test_what_is_dropped_is_counted(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    monkeypatch.setattr(recorder, "WAITING_BYTES", 3000)
    layout, said = make(small_disk), list[str]()
    item = Recorder(layout, run=RUN, attempt=1, on_trouble=said.append)
    filler = fill(small_disk)
    for step in range(300):
        item.write(("a", "b"), [1.0, 2.0], step, 0)
    assert item.num_dropped > 0
    assert "points are dropped, and counted" in said[-1]
    filler.unlink()
    for step in range(300, 310):
        item.write(("a", "b"), [1.0, 2.0], step, 0)
    item.close()
    found = steps_of(layout, attempts=True)
    assert found[-10:] == list(range(300, 310))
    assert 2 * len(found) + item.num_dropped == 2 * 310
    assert item.book["a"].count == len(found)


def test_a_tail_that_cannot_be_cut_back_ends_that_journal(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    layout = make(small_disk)
    keys = tuple(f"k{number}" for number in range(90))
    item = Recorder(layout, run=RUN, attempt=1)
    item.write(keys, [0.0] * 90, 0, 0)
    filler = fill(small_disk)

    def fail(*args: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", fail)
        for step in range(1, 20):
            item.write(keys, [float(step)] * 90, step, 0)
    assert JournalReader(layout.journal(1, 0, 1)).torn_bytes > 0
    filler.unlink()
    item.write(("late",), [0.0], 20, 0)
    problems: list[str] = []
    assert read_series(layout.root, ["k7"], problems=problems)["step"].to_pylist() == [*range(20)]
    assert [text.split(":")[0] for text in problems] == ["rank-0.1.wal"]
    assert len(journals(layout)) == 2
    item.close()
    assert steps_of(layout, "k7", attempts=True) == [*range(20)]
    assert steps_of(layout, "late") == [20]


def test_a_part_that_cannot_be_written_stays_in_memory_and_in_order(
    layout: RunLayout, small_parts: None
) -> None:
    said: list[str] = []
    item = Recorder(layout, run=RUN, attempt=1, on_trouble=said.append)
    layout.points.write_text("in the way")
    for step in range(100):
        item.write(("a",), (float(step),), step, 0)
        if item._sealing is not None:
            item._sealing.join()
    assert any("the journal keeps what could not be sealed" in text for text in said)
    assert read_list(layout.parts_list(1, 0)) == ()
    assert len(journals(layout)) > 2
    assert steps_of(layout, attempts=True) == list(range(100))
    with pytest.raises(OSError, match="File exists"):
        item.close()
    assert steps_of(layout, attempts=True) == list(range(100))
    item.write(("a",), (100.0,), 100, 0)
    layout.points.unlink()
    for step in range(101, 160):
        item.write(("a",), (float(step),), step, 0)
    item.close()
    assert steps_of(layout, attempts=True) == list(range(160))
    assert (item.book["a"].count, item.book.unordered) == (160, set())
    assert journals(layout) == []


def test_a_damaged_list_keeps_all_in_the_journal(layout: RunLayout, small_parts: None) -> None:
    said: list[str] = []
    item = Recorder(layout, run=RUN, attempt=1, on_trouble=said.append)
    layout.parts_list(1, 0).write_bytes(b"{")
    for step in range(50):
        item.write(("a",), (float(step),), step, 0)
    with pytest.raises(Corrupt, match=r"rank-0\.json"):
        item.close()
    assert "rank-0.json" in said[0]
    layout.parts_list(1, 0).unlink()
    item.close()
    assert steps_of(layout, attempts=True) == list(range(50))


def test_a_journal_that_cannot_be_begun_is_not_tried_at_every_write(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 20)
    layout, said = make(small_disk), list[str]()
    item = Recorder(layout, run=RUN, attempt=1, on_trouble=said.append)
    for step in range(19):
        item.write(("a",), (1.0,), step, 0)
    filler, files = fill(small_disk), len(os.listdir("/proc/self/fd"))
    for step in range(19, 40):
        item.write(("a",), (1.0,), step, 0)
    assert said == ["store: no space left; points stay in the journal"]
    assert journals(layout) == ["rank-0.1.wal"]
    assert len(os.listdir("/proc/self/fd")) == files
    filler.unlink()
    item.close()
    assert steps_of(layout, attempts=True) == list(range(40))


def test_what_on_trouble_raises_loses_no_frame(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A console that is gone: the trouble is told when the frame is safe, and under no lock."""
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    layout, raised = make(small_disk), 0

    def on_trouble(text: str) -> None:
        item.update_book()  # takes every lock that a writer could hold
        raise BrokenPipeError(text)

    item = Recorder(layout, run=RUN, attempt=1, on_trouble=on_trouble)
    filler = fill(small_disk)
    for step in range(40):
        if step == 30:
            filler.unlink()
        try:
            item.write((f"k{step % 3}", *"abcdefghij" * 9)[:30], [1.0] * 30, step, 0)
        except BrokenPipeError:
            raised += 1
    assert raised > 1
    assert item.num_waiting == 0
    found = read_series(layout.root, ["k0", "k1", "k2"], attempts=True)["step"].to_pylist()
    assert sorted(found) == list(range(40))
    item.close()


def test_a_process_with_too_many_open_files_says_so_and_goes_on(layout: RunLayout) -> None:
    said: list[str] = []
    item = Recorder(layout, run=RUN, attempt=1, on_trouble=said.append)
    item.write(("a",), (1.0,), 1, 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        item.sync()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert said == ["the store could not be synced (Too many open files)"]
    item.sync()
    assert len(said) == 1
    item.close()


def test_summaries_survive_a_power_loss_when_a_part_is_sealed(
    layout: RunLayout, small_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal goes next, so nothing else knows these counts."""
    synced: list[int] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    item = Recorder(layout, run=RUN, attempt=1)
    for step in range(20):
        item.write(("a",), (1.0,), step, 0)
    assert item._sealing is not None
    item._sealing.join()
    assert layout.series_json.stat().st_ino in synced
    assert layout.root.stat().st_ino in synced  # the name of `points` too
    item.save_book()
    assert layout.series_json.stat().st_ino not in synced
    item.write(("a",), (1.0,), 20, 0)
    item.close()
    assert layout.series_json.stat().st_ino in synced
