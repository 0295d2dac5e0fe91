from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expdb.errors import Corrupt
from expdb.model import Attempt, Pin
from expdb.store import attempts, owner
from expdb.store.files import read_json, write_json
from expdb.store.layout import RunLayout, StoreLayout

MakeRun = Callable[..., RunLayout]


def test_a_pin_comes_back(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    layout.attempt(2).mkdir(parents=True)
    attempt = Attempt(
        number=2,
        pin=Pin(
            commit="a" * 40, branch="main", tree="b" * 40, dirty=True, num_edits=3,
            snapshot="c" * 40, remote="https://x/y", used={"train.py": "d" * 40},
            reproducible=False, reasons=("a submodule is dirty",), skipped=("big.bin", "é"),
        ),
        started_at_ms=5, resumed_from=300, environment={"python": "3.11"},
        data={"train": {"digest": "x", "bytes": 7}}, work_tree="/w",
    )  # fmt: skip
    attempts.write_pin(layout, attempt)
    assert attempts.read_pin(layout, 2) == attempt


def test_an_attempt_killed_before_its_pin_says_so(tmp_path: Path) -> None:
    found = attempts.read_pin(RunLayout(tmp_path), 1)
    assert not found.pin.reproducible
    assert found.pin.reasons == ("it ended before its code was pinned",)


@pytest.mark.parametrize(
    "change",
    [
        {"git": []}, {"git": None}, {"git": {"reasons": 5}}, {"git": {"used": 3}},
        {"git": {"commit": 7}}, {"git": {"dirty": "no"}}, {"git": {"num_edits": None}},
        {"resumed_from": "300"}, {"resumed_from": 1.5}, {"environment": 5}, {"data": [1]},
        {"data": {"train": 5}}, {"started_at_ms": "x"},
    ],
)  # fmt: skip
def test_a_damaged_pin_is_named(tmp_path: Path, change: dict[str, Any]) -> None:
    layout = RunLayout(tmp_path)
    layout.attempt(1).mkdir(parents=True)
    attempts.write_pin(layout, Attempt(number=1, pin=Pin()))
    path = layout.attempt(1) / "pin.json"
    write_json(path, {**read_json(path), **change})
    with pytest.raises(Corrupt, match=r"pin\.json of attempt 1 is damaged"):
        attempts.read_pin(layout, 1)


def test_only_folders_named_as_attempts_count(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    assert attempts.numbers(layout) == []
    for name in ("1", "2", "10", "0", "007", "²", "٣", "x", ".tmp-4", "-1"):
        (layout.attempts / name).mkdir(parents=True)
    assert attempts.numbers(layout) == [1, 2, 10]
    assert attempts.claim(layout) == 11


def _claim(root: Path, out: Any) -> None:
    for _ in range(5):
        out.put(attempts.claim(RunLayout(root)))


def test_two_processes_never_share_an_attempt(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    out = fork.SimpleQueue()
    children = [fork.Process(target=_claim, args=(tmp_path, out)) for _ in range(4)]
    for child in children:
        child.start()
    found = sorted(out.get() for _ in range(20))
    for child in children:
        child.join()
    assert found == list(range(1, 21))
    assert read_json(tmp_path / "attempts" / "1" / "owner.json")["host"] == owner.describe()["host"]


@pytest.fixture
def meta(store_root: Path) -> Path:
    return StoreLayout(store_root).meta


def age(path: Path, seconds: float) -> None:
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def test_on_one_host_the_process_decides_and_no_clock(
    make_run_dir: MakeRun, meta: Path, dead: dict[str, Any]
) -> None:
    mine = make_run_dir()
    (mine.attempt(1) / "live.json").touch()
    age(mine.attempt(1) / "live.json", 10**6)
    assert attempts.life(mine, 1, store_meta=meta) == "alive"
    gone = make_run_dir(who=dead)
    (gone.attempt(1) / "live.json").touch()
    assert attempts.life(gone, 1, store_meta=meta) == "dead"


@pytest.mark.parametrize("who", [{"host": "elsewhere"}, {"pid_space": 1}])
def test_where_the_process_cannot_be_seen_the_heartbeat_decides(
    make_run_dir: MakeRun, meta: Path, dead: dict[str, Any], who: dict[str, Any]
) -> None:
    layout = make_run_dir(who={**dead, **who})
    assert attempts.life(layout, 1, store_meta=meta) == "alive"  # it has not beaten yet
    beat = layout.attempt(1) / "live.json"
    beat.touch()
    age(beat, 590)
    assert attempts.life(layout, 1, store_meta=meta) == "alive"
    age(beat, 20)
    assert attempts.life(layout, 1, store_meta=meta) == "lost"


def test_the_clock_is_that_of_the_files(
    make_run_dir: MakeRun, meta: Path, dead: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_run_dir(who={**dead, "host": "elsewhere"})
    (layout.attempt(1) / "live.json").touch()
    monkeypatch.setattr(attempts.time, "time", lambda: 10.0**10)
    assert attempts.life(layout, 1, store_meta=meta) == "alive"


def test_an_attempt_without_owner_is_young_or_dead(make_run_dir: MakeRun, meta: Path) -> None:
    layout = make_run_dir(who=None)
    assert attempts.life(layout, 1, store_meta=meta) == "alive"
    age(layout.attempt(1), 70)
    assert attempts.life(layout, 1, store_meta=meta) == "dead"


def test_a_damaged_owner_is_not_dead_while_the_heart_beats(
    make_run_dir: MakeRun, meta: Path
) -> None:
    layout = make_run_dir()
    (layout.attempt(1) / "owner.json").write_bytes(b"")
    age(layout.attempt(1), 70)
    (layout.attempt(1) / "live.json").touch()
    assert attempts.life(layout, 1, store_meta=meta) == "alive"
    age(layout.attempt(1) / "live.json", 700)
    assert attempts.life(layout, 1, store_meta=meta) == "lost"


def test_the_folder_of_an_attempt_survives_a_power_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    layout = RunLayout(tmp_path)
    attempts.claim(layout)
    assert {tmp_path.stat().st_ino, layout.attempts.stat().st_ino} <= set(synced)
    synced.clear()
    attempts.claim(layout)
    assert layout.attempts.stat().st_ino in synced


def test_now_is_told_by_the_files_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = attempts.store_now(tmp_path)
    assert now == (tmp_path / "clock").stat().st_mtime
    assert attempts.store_now(tmp_path) >= now
    monkeypatch.setattr(attempts.time, "time", lambda: 17.0)
    assert attempts.store_now(tmp_path) != 17.0
    assert attempts.store_now(tmp_path / "none") == 17.0  # as in a store that is read-only
