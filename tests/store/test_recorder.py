from __future__ import annotations

import linecache
import math
import os
import pickle
import random
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.errors import BadInput, Corrupt
from expdb.store import recorder, series, templates
from expdb.store.ids import new_id
from expdb.store.journal import JournalReader
from expdb.store.layout import RunLayout
from expdb.store.parts import read_list
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from expdb.store.recover import recount

RUN = "k3f9x2m7qd"


def make(folder: Path, run: str = RUN) -> RunLayout:
    layout = RunLayout(folder / f"run={run}")
    layout.attempt(1).mkdir(parents=True)
    return layout


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return make(tmp_path)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 20)
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)


def steps_of(layout: RunLayout, key: str = "a", *, attempts: bool = False) -> list[int]:
    return sorted(read_series(layout.root, [key], attempts=attempts)["step"].to_pylist())


def journals(layout: RunLayout) -> list[str]:
    return sorted(path.name for path in layout.attempt(1).glob("rank-*.wal*"))


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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip(f"mounting is not allowed here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all space that is left."""
    path = folder / "filler"
    with path.open("ab", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return path


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


class Interrupted(Exception):
    """What a signal handler raises."""


OURS = tuple(
    str(Path(recorder.__file__).with_name(f"{name}.py"))
    for name in ("appending", "packed", "recorder", "templates")
)


class Interrupt:
    """Raises before the `number`-th line of our write path in this thread, once."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: FrameType, event: str, arg: object) -> Interrupt | None:
        if frame.f_code.co_filename not in OURS or frame.f_code.co_name == "_tell":
            return None
        if event == "line" and self.left > 0:
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            if line.startswith(("with ", "try:")):
                return self  # traced where no handler can run: on the way out, and as a no-op
            self.left -= 1
            if self.left == 0:
                raise Interrupted
        return self


def interrupted_writes(layout: RunLayout, number: int, *, full: bool) -> tuple[set[int], bool]:
    """Write, count and close with one interrupt; return the steps told, and whether it came."""
    item, told = Recorder(layout, run=RUN, attempt=1), set[int]()
    calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
    for step in range(9):
        keys = ("a", "b")[: 1 + (step > 5)] if step % 2 else ("a", f"k{step}")
        calls.append((item.write, (keys, [float(step)] * len(keys), step, 0)))
    calls.insert(6, (item.update_book, ()))
    calls.append((item.close, ()))
    before, interrupt, real = sys.gettrace(), Interrupt(number), os.write
    for at, (call, args) in enumerate(calls):
        if full:  # the disk takes half a frame of the third call, and nothing of the next ones
            size = {2: 9, 3: 0, 4: 0}.get(at, 1 << 30)
            os.write = lambda fd, data, size=size: size and real(fd, data[:size])
        sys.settrace(interrupt)
        try:
            call(*args)
            told |= {args[2]} if args else set()
        except Interrupted:
            pass
        finally:
            sys.settrace(before)
            os.write = real
    if not full or not item.num_waiting:
        check_live(layout, item, told)
    item.close()
    return told, interrupt.left == 0


def check_live(layout: RunLayout, item: Recorder, told: set[int]) -> None:
    problems: list[str] = []
    found = read_series(layout.root, ["a"], attempts=True, problems=problems)["step"].to_pylist()
    assert problems == []
    assert told <= set(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stride", [pytest.param(29, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("full", [False, True])
def test_a_handler_that_raises_at_any_line_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool, stride: int
) -> None:
    """KeyboardInterrupt may come anywhere; who catches it and goes on has all that was told."""
    monkeypatch.setattr(recorder, "SEAL_POINTS", 8)
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    number, came = random.randrange(stride) + 1 - stride, True
    while came:
        number += stride
        layout = make(tmp_path, new_id())
        told, came = interrupted_writes(layout, number, full=full)
        rows = read_series(layout.root, attempts=True).to_pylist()
        found = sorted(row["step"] for row in rows if row["key"] == "a")
        assert found == sorted(set(found))
        assert told <= set(found) <= set(range(9))
        assert len(told) >= 8
        for row in rows:
            assert row["value"] == row["step"]
            assert row["key"] in ("a", "b", f"k{row['step']}")
        assert journals(layout) == []
        book = series.load(layout.series_json)
        if "a" not in book.unordered:
            assert book["a"].count == len(found)
    assert number > 100


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


def test_memory_is_let_go_when_a_part_is_sealed(layout: RunLayout, small_parts: None) -> None:
    item = Recorder(layout, run=RUN, attempt=1)
    for step in range(400):
        item.write((f"k{step % 7}", "a"), (1.0, 2.0), step, 0)
        if item._sealing is not None:
            item._sealing.join()
        assert item._memory.num_points <= 20
        assert len(journals(layout)) <= 2
    item.close()
    assert steps_of(layout, attempts=True) == list(range(400))


def test_a_wide_step_seals_though_only_narrow_ones_came_before(
    layout: RunLayout, small_parts: None
) -> None:
    """How many more frames fit is reckoned from the widest keys so far."""
    item = Recorder(layout, run=RUN, attempt=1)
    for step in range(5):
        item.write(("a",), (1.0,), step, 0)
    item.write(tuple(f"k{number}" for number in range(20)), [1.0] * 20, 5, 0)
    assert item._sealing is not None
    item.close()
    assert read_series(layout.root).num_rows == 25


def hold_sealing(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let no part be sealed before the event is set."""
    go, real = threading.Event(), Recorder._seal

    def held(self: Recorder, *args: Any) -> None:
        go.wait(60)
        real(self, *args)

    monkeypatch.setattr(Recorder, "_seal", held)
    return go


def kept_bytes(item: Recorder) -> int:
    return item._memory.num_bytes + sum(chunk.kept_bytes for chunk in item._older)


@pytest.mark.parametrize("heartbeats", [False, True])
def test_memory_is_bounded_where_sealing_falls_behind(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch, heartbeats: bool
) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 400)
    monkeypatch.setattr(recorder, "KEPT_BYTES", 8_000)
    go = hold_sealing(monkeypatch)
    item = Recorder(layout, run=RUN, attempt=1)
    keys = tuple(f"k{number}" for number in range(20))
    most = 0
    for step in range(300):
        item.write(keys, [step + number / 32 for number in range(20)], step, step)
        if step % 3 == 0:
            item.write(("k0", "other"), [math.nan, -0.0], step, step)
        most = max(most, kept_bytes(item))
        if heartbeats and step % 70 == 69:
            item.save_book()
            assert item.book["k7"].count == step + 1
    assert len(item._older) > 12
    one = 400 // 20 * 220  # what 400 points take
    assert most < 8_000 + 3 * one
    before = read_series(layout.root, attempts=True).sort_by("seq")
    go.set()
    item.close()
    after = read_series(layout.root, attempts=True).sort_by("seq")
    names = ["key", "step", "seq"]
    order = [(name, "ascending") for name in names]
    assert repr(before.sort_by(order).to_pylist()) == repr(after.sort_by(order).to_pylist())
    assert after.num_rows == 20 * 300 + 2 * 100
    assert (item.book["k7"].count, item.book["k7"].max) == (300, 299 + 7 / 32)
    assert item.book["other"].count == 100
    assert journals(layout) == []
    assert len(read_list(layout.parts_list(1, 0))) == len(list(layout.points.iterdir()))


def test_a_chunk_whose_journal_lost_points_is_not_sealed_without_them(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 10)
    monkeypatch.setattr(recorder, "KEPT_BYTES", 0)
    go, said = hold_sealing(monkeypatch), list[str]()
    item = Recorder(layout, run=RUN, attempt=1, on_trouble=said.append)
    for step in range(35):
        item.write(("a",), (float(step),), step, 0)
    path = layout.journal(1, 0, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    go.set()
    with pytest.raises(OSError, match=r"damaged|does not have all"):
        item.close()
    assert path.exists()
    path.write_bytes(whole)
    item.close()
    assert steps_of(layout, attempts=True) == list(range(35))
    assert journals(layout) == []
