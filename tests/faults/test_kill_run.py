"""Whole runs, from `start()` to `finish()`, killed between any two operations and resumed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.index.reader import open_reader
from expdb.model import RunState
from expdb.store import attempts, recorder
from expdb.store.layout import RunLayout
from expdb.store.media import read_media
from expdb.store.points import read_series
from expdb.store.recover import needs_recovery
from expdb.store.runs import read_run
from expdb.store.status import Status, write_status
from expdb.store.store import open_store
from expdb.track import resume
from tests.faults.counting import Tally
from tests.faults.killing import Child, Effect, Trap, die
from tests.faults.lives import DEAD, STRIDES, config, only_run, run_dirs_of, sweep, unsound

pytestmark = pytest.mark.slow

KEYS = ("a", "b")
STEPS = 12


def live(
    root: Path, child: Child, trap: Trap | None = None, *, last: int = STEPS, **more: Any
) -> None:
    """Log what can be logged, with a seal and a heartbeat in the middle, and end well; or die at
    step `last`.
    """
    recorder.SEAL_POINTS = 12  # type: ignore[misc]
    if trap is not None:
        trap.arm()
    (root.parent / "given.txt").write_text("content")
    with expdb.start(config(), name="whole", labels=["mine"], store=root, **more) as run:
        for step in range(STEPS):
            if step == last:
                die()
            run.log(dict.fromkeys(KEYS, float(step)), step=step)
            child.tell(2 * step)
            run.log_text("said", f"at {step}", step=step)
            child.tell(2 * step + 1)
            if run._recorder._sealing is not None:
                run._recorder._sealing.join()
            if step == 4:
                run._heartbeat._beat()
                run._recorder.sync()
            if step == 6:
                run.event(step, "warn", "grad_spike", "z 7 > 6")
                run.note("half way")
                run.log_eval("cloze", {"acc": 0.5}, step=step)
                run.artifact(root.parent / "given.txt")


def acknowledged(told: int) -> tuple[int, int]:
    """How many steps, and how many texts, a child had logged."""
    return (told + 2) // 2, (told + 1) // 2


def rows(run_dir: Path, attempt: int = 1) -> list[tuple[str, int]]:
    found = read_series(run_dir, list(KEYS), attempts=True, problems=[]).to_pylist()
    return [(row["key"], row["step"]) for row in found if row["attempt"] == attempt]


def at(count: int) -> list[tuple[str, int]]:
    return [(key, step) for key in KEYS for step in range(count)]


def check(root: Path, told: int, faults: Tally) -> None:
    """What was acknowledged is there; readers name nothing, and fsck finds nothing."""
    run = only_run(root)
    if run is None:
        assert told == -1
        return
    points, texts = acknowledged(told)
    next_points = [(key, points) for key in KEYS]
    faults.compare(at(points), rows(root / run.path), begun=next_points)
    read = read_media(root / run.path, "text", problems=[])["step"].to_pylist()
    faults.compare(range(texts), read, begun=[texts])
    assert run.state in DEAD
    assert [text for text in run.problems if "torn at its end" not in text] == []
    with open_reader(open_store(root)) as reader:  # seals what was left
        assert reader.warnings == ()
        assert reader.rows("SELECT id, state FROM runs") == [(run.id, str(run.state))]
    layout = RunLayout(root / run.path)
    assert not needs_recovery(layout)
    again = read_run(layout.root, store_root=root)
    assert again.problems == ()
    assert again.labels == ("mine",)
    assert again.state is run.state
    faults.compare(at(points), rows(layout.root), begun=next_points)


@STRIDES
@pytest.mark.parametrize("effect", ["kill", "tear"])
def test_a_run_killed_between_any_two_operations_keeps_what_it_acknowledged(
    tmp_path: Path, faults: Tally, effect: Effect, stride: int
) -> None:
    def survives(number: int) -> bool:
        root = tmp_path / "store" / "runs"
        root.parent.mkdir()
        child = Child(lambda own: live(root, own, Trap(number, effect=effect, within=root)))
        ended = child.survives()
        check(root, child.told, faults)
        if root.exists() and run_dirs_of(root):
            assert unsound(root) == []
            _resume(root, child.told, faults)
        shutil.rmtree(root.parent)
        return ended

    assert sweep(survives, faults, stride if stride == 1 else 3 * stride) > 150


def _resume(root: Path, told: int, faults: Tally) -> None:
    """Go on with a run that was killed, and see both attempts."""
    run = only_run(root)
    assert run is not None
    if run.state is RunState.FINISHED:
        return
    child = Child(lambda own: live(root, own, resume=run.id))
    assert child.survives()
    again = only_run(root)
    assert again is not None
    assert (again.state, len(again.attempts), again.problems) == (RunState.FINISHED, 2, ())
    points, _ = acknowledged(told)
    faults.compare(at(points), rows(root / run.path), begun=[(key, points) for key in KEYS])
    faults.compare(at(STEPS), rows(root / run.path, attempt=2))
    visible = read_series(root / run.path, ["a"])
    assert visible["step"].to_pylist() == list(range(STEPS))
    assert unsound(root) == []


@STRIDES
def test_a_resume_killed_between_any_two_operations_can_be_done_again(
    tmp_path: Path, faults: Tally, stride: int
) -> None:
    first = tmp_path / "first" / "runs"
    first.parent.mkdir()
    child = Child(lambda own: live(first, own, last=9))
    assert not child.survives()
    told = child.told
    made = only_run(first)
    assert made is not None
    points, _ = acknowledged(told)

    def survives(number: int) -> bool:
        root = tmp_path / "other" / "runs"
        shutil.copytree(first.parent, root.parent)
        child = Child(lambda own: live(root, own, Trap(number, within=root), resume=made.id))
        ended = child.survives()
        _wait_for_claim(root / made.path)
        run = only_run(root)
        assert run is not None
        assert run.state in DEAD
        faults.compare(at(points), rows(root / run.path), begun=[(key, points) for key in KEYS])
        own, _ = acknowledged(child.told)
        found = rows(root / run.path, attempt=len(run.attempts)) if len(run.attempts) > 1 else []
        faults.compare(at(own), found, begun=[(key, own) for key in KEYS])
        with open_reader(open_store(root)) as reader:
            assert reader.warnings == ()
        assert unsound(root) == []
        _resume_again(root, faults)
        shutil.rmtree(root.parent)
        return ended

    assert sweep(survives, faults, stride if stride == 1 else 6 * stride) > 150


def _wait_for_claim(run_dir: Path) -> None:
    """Let a minute pass for an attempt without an owner: who made it may be about to say so."""
    then = time.time() - attempts.CLAIM_S - 1
    for folder in (run_dir / "attempts").iterdir():
        if not (folder / "owner.json").exists():
            os.utime(folder, (then, then))


def _resume_again(root: Path, faults: Tally) -> None:
    run = only_run(root)
    assert run is not None
    if run.state is RunState.FINISHED:
        return
    assert Child(lambda own: live(root, own, resume=run.id)).survives()
    again = only_run(root)
    assert again is not None
    assert (again.state, again.problems) == (RunState.FINISHED, ())
    faults.compare(at(STEPS), rows(root / run.path, attempt=len(again.attempts)))


@pytest.mark.parametrize("state", ["crashed", "failed"])
def test_a_resume_that_died_before_it_counted_is_counted_by_who_reads_next(
    tmp_path: Path, state: str, faults: Tally
) -> None:
    root = tmp_path / "runs"
    assert not Child(lambda own: live(root, own, last=9)).survives()
    listed(root)
    run = only_run(root)
    assert run is not None
    layout = RunLayout(root / run.path)
    if state == "failed":
        write_status(layout, Status(state="failed", reason="out of memory", last_step=8))
    then = time.time() - 10
    os.utime(layout.status_json, (then, then))
    assert listed(root) == [(state, 9, 1)]

    def resume_half(child: Child) -> None:
        resume.recount = lambda *args, **more: die()
        live(root, child, resume=run.id)

    assert not Child(resume_half).survives()
    faults.fault(2)
    for _ in range(2):
        assert listed(root) == [(state, 1, 2)]  # step 0 alone is seen: there was no checkpoint
    assert unsound(root) == []
    _resume_again(root, faults)


def listed(root: Path) -> list[tuple[str, int, int]]:
    """State, points of `a` and attempts, as the index has them."""
    with open_reader(open_store(root)) as reader:
        assert reader.warnings == ()
        return reader.rows(
            "SELECT state, s.count, num_attempts FROM runs JOIN series s ON s.run = id"
            " WHERE s.key = 'a'"
        )
