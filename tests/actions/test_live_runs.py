"""A run of this work tree that is alive stops a rollback, however young it is."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from expdb.actions.live import Idle, require_idle, require_none_started
from expdb.actions.rollback import execute, prepare
from expdb.errors import Refused
from expdb.store.files import write_json
from expdb.store.layout import RunLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import World


def idle_of(world: World) -> Idle:
    with world.reader() as reader:
        return require_idle(reader, world.git_dir)


def started(world: World, *, but: tuple[str, ...] = (), pinned_in: str = "") -> RunLayout:
    """Write a run whose process is this one, up to the files that are not in `but`."""
    layout = RunLayout(world.folder(world.run("exp01", state="running", alive=True)))
    for name in but:
        (layout.root / name).unlink()
    if pinned_in:
        pin = layout.attempt(1) / "pin.json"
        pin.write_text(pin.read_text().replace(str(world.git_dir), pinned_in))
    return layout


def test_a_run_that_lives_is_found_by_both_looks(world: World) -> None:
    idle = idle_of(world)
    started(world)
    with world.reader() as reader, pytest.raises(Refused, match="is running from this work tree"):
        require_idle(reader, world.git_dir)
    for seen in (idle, None):
        with pytest.raises(Refused, match="is running from this work tree"):
            require_none_started(world.store, world.git_dir, idle=seen)


@pytest.mark.parametrize(
    "missing",
    [
        ("status.json",),
        ("status.json", "run.json"),
        ("status.json", "run.json", "attempts/1/pin.json"),
        ("status.json", "run.json", "attempts/1/pin.json", "attempts/1/owner.json"),
    ],
)
def test_a_run_that_is_just_starting_is_alive(world: World, missing: tuple[str, ...]) -> None:
    idle = idle_of(world)
    started(world, but=missing)
    with pytest.raises(Refused, match=r"is just starting|is running from") as caught:
        require_none_started(world.store, world.git_dir, idle=idle)
    assert any("kill" in hint or "expdb ctl" in hint for hint in caught.value.hints)


def test_a_run_that_starts_in_another_work_tree_is_no_reason(world: World) -> None:
    idle = idle_of(world)
    for but in ((), ("status.json",), ("status.json", "run.json")):
        started(world, but=but, pinned_in="/elsewhere/.git")
    require_none_started(world.store, world.git_dir, idle=idle)


def test_a_start_that_was_killed_is_no_reason(world: World) -> None:
    idle = idle_of(world)
    layout = started(world, but=("status.json", "run.json", "attempts/1/pin.json"))
    who = layout.attempt(1) / "owner.json"
    write_json(who, {"host": os.uname().nodename, "boot": "another", "pid": 1, "start": 1})
    require_none_started(world.store, world.git_dir, idle=idle)


def test_no_clock_decides(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's file system may be hours behind or ahead of this host."""
    idle = idle_of(world)
    layout = started(world)
    os.utime(layout.status_json, (1, 1))  # long before anything here
    with pytest.raises(Refused, match="is running from"):
        require_none_started(world.store, world.git_dir, idle=idle)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    with pytest.raises(Refused, match="is running from"):
        require_none_started(world.store, world.git_dir, idle=idle)


def test_an_attempt_that_was_added_since_is_seen_before_its_first_status(world: World) -> None:
    run = world.run("exp01", state="preempted")
    idle = idle_of(world)
    layout = RunLayout(world.folder(run))
    before = layout.status_json.stat()
    layout.attempt(2).mkdir()
    from expdb.store import owner

    write_json(layout.attempt(2) / "owner.json", owner.describe())
    assert layout.status_json.stat() == before
    with pytest.raises(Refused, match="is just starting"):
        require_none_started(world.store, world.git_dir, idle=idle)


def test_what_was_found_idle_is_not_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from expdb.actions import live

    for _ in range(3):
        world.run()
    idle = idle_of(world)
    world.run("exp01")
    read: list[str] = []
    real = live.read_run

    def counted(path, *, store_root):  # type: ignore[no-untyped-def]
        read.append(path.name)
        return real(path, store_root=store_root)

    monkeypatch.setattr(live, "read_run", counted)
    require_none_started(world.store, world.git_dir, idle=idle)
    assert len(read) == 1


def test_a_run_that_starts_while_the_question_is_open_stops_the_rollback(
    world: World, make_world: Callable[..., World]
) -> None:
    run = world.run()
    world.write({"train.py": "lr = 2\n"})
    with world.reader() as reader:
        plan = prepare(reader, world.worktree, run)
        layout = started(world)
        os.utime(layout.status_json, (1, 1))
        before = world.everything()
        with pytest.raises(Refused, match="is running from this work tree"):
            execute(reader, world.worktree, plan)
    assert world.everything() == before


def test_a_folder_that_had_no_status_at_the_first_look_is_looked_at_again(world: World) -> None:
    layout = started(world, but=("status.json", "run.json", "attempts/1/pin.json"))
    idle = idle_of(world)
    assert layout.id in idle.versions
    with pytest.raises(Refused, match="is just starting"):
        require_none_started(world.store, world.git_dir, idle=idle)
