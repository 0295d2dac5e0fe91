from __future__ import annotations

import json
import math
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.errors import Conflict, Corrupt
from expdb.store import fields, files, owner

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(), VALUES, max_size=3))
def test_json_comes_back(value: dict[str, Any]) -> None:
    data = files.encode_json(value)
    back = json.loads(data.decode("utf-8", "surrogatepass"))
    assert back == files.plain(value)
    assert data.count(b"\n") == 1


def test_numbers_that_json_lacks_are_the_documented_strings() -> None:
    value = {"a": math.nan, "b": [math.inf, -math.inf], "c": -0.0, "d": (1, 2.5)}
    text = files.encode_json(value).decode()
    assert text == '{"a":"NaN","b":["Infinity","-Infinity"],"c":-0.0,"d":[1,2.5]}\n'
    back = json.loads(text)
    assert math.isnan(fields.real(back, "a"))
    assert [fields.as_real(item, "b") for item in back["b"]] == [math.inf, -math.inf]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"\0\0\0", b"[" * 100_000])
def test_a_damaged_file_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=r"run\.json") as caught:
        files.read_json(path)
    assert str(path) in caught.value.hints[0]


def test_what_cannot_be_read_is_named_but_what_is_not_there_is_not_damage(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(Corrupt, match="folder cannot be read"):
        files.read_json(tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        files.read_json(tmp_path / "none")


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "status.json"
    files.write_json(path, {"a": 1})

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="No space"):
                files.write_json(path, {"a": 2})
        assert files.read_json(path) == {"a": 1}
        assert [item.name for item in tmp_path.iterdir()] == ["status.json"]


def test_a_file_is_created_once_and_leaves_nothing_when_it_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    files.create_bytes(path, b"one")
    with pytest.raises(FileExistsError):
        files.create_bytes(path, b"two")
    assert path.read_bytes() == b"one"
    path.unlink()

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        files.create_bytes(path, b"three")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_held_by_one_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "it"
    with files.exclusive(path, what="the run"):
        with (
            pytest.raises(Conflict, match=f"the run is held by process {os.getpid()} on this host"),
            files.exclusive(path, what="the run"),
        ):
            pass
        assert path.exists()
    assert list(path.parent.iterdir()) == []


def test_a_lock_of_another_host_is_never_taken(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(files.encode_json({**owner.describe(), "host": "elsewhere", "boot": "x"}))
    with pytest.raises(Conflict, match="another host"), files.exclusive(path, what="it"):
        pass
    assert path.exists()


def _take(path: Path, ready: Barrier, inside: Path, taken: Any) -> None:
    ready.wait()
    try:
        with files.exclusive(path, what="it"):
            os.mkdir(inside)  # fails if another is inside
            time.sleep(0.003)
            os.rmdir(inside)
            taken.value += 1
    except Conflict:
        pass


def test_many_take_over_a_dead_lock_and_never_two_hold_it(
    tmp_path: Path, dead: dict[str, Any]
) -> None:
    fork = multiprocessing.get_context("fork")
    path, inside = tmp_path / "it", tmp_path / "inside"
    for _ in range(8):
        path.write_bytes(files.encode_json(dead))
        ready, taken = fork.Barrier(4), fork.Value("i", 0)
        children = [fork.Process(target=_take, args=(path, ready, inside, taken)) for _ in range(4)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        assert [child.exitcode for child in children] == [0] * 4
        assert taken.value >= 1
        assert not path.exists()


def test_who_waits_for_a_dead_lock_does_not_remove_the_new_one(
    tmp_path: Path, dead: dict[str, Any]
) -> None:
    """The other taker is done, and its own lock stands, when this one gets to look again."""
    import fcntl

    path = tmp_path / "it"
    path.write_bytes(files.encode_json(dead))
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    found: list[object] = []

    def take() -> None:
        try:
            with files.exclusive(path, what="it"):
                found.append("taken")
        except Conflict as error:
            found.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    time.sleep(0.1)
    path.unlink()
    path.write_bytes(files.encode_json(owner.describe()))
    os.close(fd)
    thread.join()
    assert len(found) == 1
    assert isinstance(found[0], Conflict)
    assert path.exists()


def test_fate_of_a_process() -> None:
    me = owner.describe()
    assert owner.fate(me) == "alive"
    assert owner.fate({**me, "start": me["start"] + 1}) == "dead"  # the pid was used again
    assert owner.fate({**me, "boot": "another"}) == "dead"
    assert owner.fate({**me, "host": "another"}) == "unknown"
    assert owner.fate({**me, "pid_space": 1}) == "unknown"  # a container
    old = {name: value for name, value in me.items() if name != "pid_space"}
    assert owner.fate(old) == "alive"
    for pid in (None, 0, -1, "7", 2**40):
        assert owner.fate({**me, "pid": pid}) == "dead"
    assert owner.fate({}) == "unknown"
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    theirs = {**me, "pid": child.pid, "start": owner.process_start(child.pid)}
    assert owner.fate(theirs) == "alive"
    child.kill()
    while owner.process_start(child.pid) is not None:
        time.sleep(0.005)
    assert owner.is_dead(theirs)  # a zombie, not waited for
    child.wait()
    assert owner.is_dead(theirs)


def test_a_process_with_a_strange_name_is_alive(tmp_path: Path) -> None:
    script = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'\\xff) Z 1 (\\xfe', 0, 0, 0);"
        "print('named', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        start = owner.process_start(child.pid)
        assert start is not None
        assert abs(start - (owner.process_start(os.getpid()) or 0)) < 10**7
        child.kill()


def test_words_for_errors() -> None:
    assert files.reason(OSError(28, "No space left on device")) == "no space left"
    assert files.reason(OSError(5, "Input/output error")) == "Input/output error"
    assert files.reason(OSError("odd")) == "odd"


def test_a_lock_that_is_another_ones_by_now_stays(tmp_path: Path) -> None:
    """Someone followed the hint `rm LOCK`, and a third took it."""
    path = tmp_path / "locks" / "run.lock"
    with files.exclusive(path, what="it"):
        path.unlink()
        held = files.exclusive(path, what="it")
        held.__enter__()
        other = path.read_bytes()
    assert path.read_bytes() == other
    held.__exit__(None, None, None)
    assert not path.exists()
    with files.exclusive(path, what="it"):
        path.unlink()
    assert not path.exists()


def test_a_folder_is_made_once_and_a_file_in_its_place_is_no_folder(tmp_path: Path) -> None:
    for _ in range(2):
        files.make_dir(tmp_path / "x")
    (tmp_path / "y").write_text("")
    with pytest.raises(FileExistsError):
        files.make_dir(tmp_path / "y")
