"""Logs of runs: joined over attempts, followed while they grow, until the run ends."""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from expdb.errors import Corrupt, NotFound
from expdb.index.reader import open_reader
from expdb.model import RunState
from expdb.query import tail
from expdb.query.silence import usual_step_s
from expdb.query.tail import MAX_LINE, LogTail, Told, end_of, follow, newest_run
from expdb.store import owner
from expdb.store.files import write_json
from expdb.store.journal import VALUES, encode_frame, encode_header, encode_key, encode_template
from expdb.store.layout import RunLayout
from expdb.store.runs import read_run
from expdb.store.status import Status, write_status
from expdb.store.store import Store
from tests.conftest import MakeRun
from tests.query.made import make_run, write_run


def write(layout: RunLayout, text: str | bytes, attempt: int = 1) -> None:
    layout.attempt(attempt).mkdir(exist_ok=True)
    with (layout.attempt(attempt) / "log.txt").open("ab") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


@pytest.fixture
def live(make_run_dir: MakeRun) -> RunLayout:
    """The folder of a run whose process is this one."""
    return make_run_dir(run="k3f9x2m7qd")


Deed = Callable[[], Any]


def followed(layout: RunLayout, *deeds: Deed) -> list[Told]:
    """Follow a run; before each further look one deed is done, at last the run is killed."""
    left = iter(deeds)

    def sleep(seconds: float) -> None:
        deed = next(left, lambda: kill(layout))
        deed()

    log = LogTail(layout.root)
    log.last(0)
    root = layout.root.parents[1]
    return list(follow(log, layout.root, store_root=root, sleep=sleep))


def lines(told: list[Told]) -> list[str]:
    return [line for one in told for line in one.lines]


def kill(layout: RunLayout, attempt: int = 1) -> None:
    gone = {**owner.describe(), "start": -1}
    write_json(layout.attempt(attempt) / "owner.json", gone, durable=False)


def end(layout: RunLayout, state: str = "finished", attempt: int = 1) -> None:
    write_status(layout, Status(state=state, attempt=attempt, last_step=300), durable=False)


def test_the_last_lines_are_joined_over_attempts(live: RunLayout) -> None:
    write(live, "one\ntwo\nthree")
    write(live, "four\nfive\n", attempt=2)
    assert LogTail(live.root).last(2) == ["four", "five"]
    assert LogTail(live.root).last(4) == ["two", "three", "four", "five"]
    assert LogTail(live.root).last(100) == ["one", "two", "three", "four", "five"]
    assert LogTail(live.root).last(0) == []


def test_the_end_of_a_long_log_is_read_from_its_end(live: RunLayout) -> None:
    many = [f"line {number} {'x' * 40}" for number in range(5000)]
    write(live, "\n".join(many) + "\n")
    assert LogTail(live.root).last(3) == many[-3:]
    assert LogTail(live.root).last(4000) == many[-4000:]


def test_a_run_without_a_log_has_no_lines(live: RunLayout) -> None:
    log = LogTail(live.root)
    assert (log.last(10), log.more(), log.rest(), log.attempt) == ([], [], [], 1)
    shutil.rmtree(live.attempts)
    assert LogTail(live.root).last(10) == []


def test_only_whole_lines_are_told_and_the_rest_at_the_end(live: RunLayout) -> None:
    log = LogTail(live.root)
    write(live, "old\nha")
    assert log.last(5) == ["old"]
    write(live, "lf\nrest")
    assert log.more() == ["half"]
    assert log.more() == []
    assert log.rest() == ["rest"]


def test_bytes_that_are_no_text_are_told_as_escapes(live: RunLayout) -> None:
    write(live, b"a\xff\x1b[31m\r\n")
    assert LogTail(live.root).last(1) == ["a\\xff\x1b[31m\r"]


def test_another_file_under_the_same_name_is_read_from_its_beginning(live: RunLayout) -> None:
    log = LogTail(live.root)
    write(live, "a long first line\n")
    log.last(0)
    path = live.attempt(1) / "log.txt"
    path.write_text("new\n")
    assert log.more() == ["new"]
    path.rename(path.with_name("old"))
    assert log.more() == []
    write(live, "a much longer line than the old file had\n")
    assert log.more() == ["a much longer line than the old file had"]


def test_following_tells_what_is_written_until_the_run_ends(live: RunLayout) -> None:
    def finish() -> None:
        write(live, "three\n")
        end(live)

    def say_so() -> None:
        write(live, "\nfinished  baseline k3f9x2m7qd  300 steps in 35s\n")

    told = followed(
        live, lambda: write(live, "one\ntw"), lambda: write(live, "o\n"), finish, say_so
    )
    assert lines(told) == [
        "one", "two", "three", "", "finished  baseline k3f9x2m7qd  300 steps in 35s",
    ]  # fmt: skip
    assert not any(one.end for one in told)


def test_the_command_behind_the_closing_line_is_told_too(live: RunLayout) -> None:
    def preempt() -> None:
        end(live, "preempted")
        write(live, "preempted  baseline k3f9x2m7qd  SIGTERM at step 187\n")
        write(live, "resume:    expdb resume k3f9\n")

    assert lines(followed(live, preempt))[-1] == "resume:    expdb resume k3f9"


def test_a_process_that_died_is_told_as_crashed(live: RunLayout) -> None:
    def die() -> None:
        write(live, "step 10\ncut of")
        kill(live)

    told = followed(live, die)
    assert lines(told) == ["step 10", "cut of"]
    assert told[-1].end is not None
    assert told[-1].end.state is RunState.CRASHED
    assert told[-1].end.reason == "the process died without a word"


def test_a_run_that_ended_without_a_closing_line_is_told_after_a_while(live: RunLayout) -> None:
    told = followed(live, lambda: end(live, "failed"), *[lambda: None] * 30)
    assert told[-1].end is not None
    assert (told[-1].end.state, told[-1].end.last_step) == (RunState.FAILED, 300)


def test_a_new_attempt_is_followed(live: RunLayout) -> None:
    def resume() -> None:
        write(live, "cut of")
        write(live, "resumes at step 100\n", attempt=2)
        write_json(live.attempt(2) / "owner.json", owner.describe(), durable=False)
        kill(live)

    told = followed(live, resume, lambda: write(live, "more\n", attempt=2), lambda: kill(live, 2))
    assert lines(told) == ["cut of", "resumes at step 100", "more"]


def test_a_closing_line_of_an_earlier_attempt_ends_nothing(live: RunLayout) -> None:
    write(live, "preempted  baseline k3f9x2m7qd  SIGTERM\n")
    end(live, "preempted")
    write(live, "resumes\n", attempt=2)
    write_json(live.attempt(2) / "owner.json", {**owner.describe(), "start": -1}, durable=False)
    end(live, "running", attempt=2)
    log = LogTail(live.root)
    log.last(5)
    found = end_of(log, live.root, store_root=live.root.parents[1])
    assert found is not None
    assert found.state is RunState.CRASHED


def test_a_name_in_the_log_is_no_closing_line_of_this_run(live: RunLayout) -> None:
    write(live, "finished  baseline x9x9x9x9x9  300 steps\n")
    log = LogTail(live.root)
    log.last(5)
    assert not log.is_closed


def journal(layout: RunLayout, steps: int, ago_s: float, every_ms: int = 80) -> None:
    """Write the journal of a run whose last step was some time ago."""
    path = layout.journal(1, 0, 1)
    made = encode_header(run=layout.id, attempt=1, rank=0)
    made += encode_frame(1, encode_key(0, "train/loss") + encode_template(0, [0]))
    for step in range(steps):
        values = VALUES.pack(b"V", 0, step, step * every_ms) + struct.pack("<d", 1.0)
        made += encode_frame(step + 2, values)
    path.write_bytes(made)
    os.utime(path, (time.time() - ago_s, time.time() - ago_s))


def test_silence_is_told_with_what_is_usual(live: RunLayout) -> None:
    journal(live, 100, ago_s=300)
    told = [one for one in followed(live, lambda: None, lambda: None) if one.silent_s is not None]
    assert len(told) == 1  # not again until it has lasted twice as long
    assert told[0].silent_s == pytest.approx(300, abs=30)
    assert told[0].usual_s == pytest.approx(0.08)


@pytest.mark.parametrize(("ago_s", "every_ms"), [(20, 80), (300, 60_000)])
def test_a_short_or_usual_silence_is_not_told(live: RunLayout, ago_s: float, every_ms: int) -> None:
    journal(live, 100, ago_s, every_ms)
    assert not any(one.silent_s for one in followed(live, lambda: None))


def test_a_damaged_journal_has_no_usual_step(live: RunLayout) -> None:
    path = live.attempt(1) / "rank-0.1.wal"
    path.write_bytes(b"no journal")
    os.utime(path, (1, 1))
    assert usual_step_s(path) is None
    assert any(one.silent_s for one in followed(live, lambda: None))


def test_a_run_of_another_host_is_lost_once_and_waited_for(live: RunLayout) -> None:
    def move() -> None:
        elsewhere = {**owner.describe(), "host": "another"}
        write_json(live.attempt(1) / "owner.json", elsewhere, durable=False)
        (live.attempt(1) / "live.json").write_text("")
        os.utime(live.attempt(1) / "live.json", (1, 1))

    told = followed(live, move, lambda: None, lambda: write(live, "back\n"))
    assert [one.is_lost for one in told] == [True, False, False]
    assert lines(told) == ["back"]


def runs() -> Iterator[tuple[str, RunState, int]]:
    yield "k3f9x2m7qd", RunState.FINISHED, 3
    yield "t1h6y3cz8r", RunState.RUNNING, 1
    yield "v8k2h5d3rt", RunState.RUNNING, 2


def test_without_a_name_it_is_the_newest_live_run_else_the_newest(store: Store) -> None:
    with open_reader(store) as reader, pytest.raises(NotFound, match="no runs yet"):
        newest_run(reader)
    for run, state, minutes in runs():
        if state is RunState.FINISHED:
            write_run(store, make_run(run, state=state, minutes=minutes))
    with open_reader(store) as reader:
        assert newest_run(reader) == "k3f9x2m7qd"
    for run, state, minutes in runs():
        if state is RunState.RUNNING:
            write_run(store, make_run(run, experiment="e", state=state, minutes=minutes))
    with open_reader(store) as reader:
        assert newest_run(reader) == "v8k2h5d3rt"


def test_a_line_of_megabytes_is_cut_where_it_is_shown(live: RunLayout) -> None:
    path = live.attempt(1) / "log.txt"
    path.write_bytes(b"first\n" + b"x" * 30_000_000 + b"\nlast\n" + b"y" * 20_000)
    log = LogTail(live.root)
    cut = "x" * MAX_LINE + f" ... {30_000_000 - MAX_LINE:,} bytes more"
    assert log.last(3) == ["first", cut, "last"]
    with path.open("ab") as file:
        file.write(b"z" * 5_000_000 + b"\nend\n")
    assert log.more() == ["y" * MAX_LINE + f" ... {5_010_000:,} bytes more", "end"]
    assert log.rest() == []


def test_a_log_of_one_line_without_an_end_is_read_so_far_from_its_end(
    live: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "MAX_BYTES", 1 << 16)
    monkeypatch.setattr(tail, "MAX_LINE", 100)
    with (live.attempt(1) / "log.txt").open("wb") as file:
        file.truncate(1 << 30)  # a hole: nothing of it is on the disk
        file.seek(0, 2)
        file.write(b"the end\n")
    [line] = LogTail(live.root).last(1)
    assert line.startswith("\0" * 100 + " ... ")


def test_what_is_no_file_is_not_waited_for(live: RunLayout, tmp_path: Path) -> None:
    """A pipe in the place of any file of a run, and a link out of it."""
    (tmp_path / "secret.txt").write_text("secret\n")
    path = live.attempt(1) / "log.txt"
    for why in ("it is no regular file", "it is a link"):
        path.unlink(missing_ok=True)
        if why == "it is a link":
            path.symlink_to(tmp_path / "secret.txt")
        else:
            os.mkfifo(path)
        log = LogTail(live.root)
        assert (log.last(10), log.more()) == ([], [])
        assert log.problems == [f"log.txt of attempt 1: {why}"]
    for other in (live.marks, live.events, live.artifacts_jsonl, live.attempt(1) / "pin.json"):
        other.unlink(missing_ok=True)
        os.mkfifo(other)
    (live.attempt(1) / "rank-0.1.wal").unlink(missing_ok=True)
    os.mkfifo(live.attempt(1) / "rank-0.1.wal")
    live.evals.mkdir(exist_ok=True)
    os.mkfifo(live.evals / "a.json")
    found = read_run(live.root, store_root=live.root.parents[1])
    said = "\n".join(found.problems)
    for name in ("marks.jsonl", "events.jsonl", "evals/a.json", "pin.json", "rank-0.1.wal"):
        assert name in said, name
    live.run_json.unlink()
    os.mkfifo(live.run_json)
    with pytest.raises(Corrupt, match=r"run.json cannot be read: it is no regular file"):
        read_run(live.root, store_root=live.root.parents[1])
