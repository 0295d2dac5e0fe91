"""Whoever looks at any moment of a rewind sees a run that goes on; whoever resumes one that died
there ends with the same weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from expdb.model import RunState
from expdb.query.replay import replay
from expdb.query.tail import LogTail
from expdb.store.points import read_series
from expdb.store.runs import read_run
from expdb.track.attempted import Attempted
from tests.faults.killing import Child, Trap
from tests.track.acting_run import Trained

pytestmark = pytest.mark.slow
REWIND = {"rewind": {"back": 2, "skip": 3, "lr_scale": 0.5}}


@pytest.fixture(autouse=True)
def own_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make runs belong to a script outside every repository: no code is pinned here."""
    script = str(tmp_path / "train.py")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", script, raising=False)


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that died between claiming an attempt and saying who it is is dead at once."""
    monkeypatch.setattr("expdb.store.attempts.CLAIM_S", -1.0)


def life(store: Path, number: int, child: Child) -> None:
    """Train, and die before the `number`-th operation on files from the beginning of a rewind."""
    go_back = Attempted.go_back
    trap = Trap(number, within=store)

    def armed(self, *args):
        trap.arm()
        child.tell(0)
        found = go_back(self, *args)
        child.tell(trap.count)
        return found

    Attempted.go_back = armed
    Trained(store, REWIND, bad=(18,), steps=14)


def check(store: Path, expected: str) -> str:
    """Resume what is there and compare it with a run that nobody killed."""
    [folder] = store.glob("exp=*/run=*")
    again = Trained(store, REWIND, bad=(18,), steps=14, resume=folder.name.removeprefix("run="))
    assert again.read.state is RunState.FINISHED
    assert again.state.digest() == expected
    assert not again.read.problems
    pins = [one.intervention for one in again.read.attempts]
    assert sum("rewind" in one for one in pins) == 1
    assert [one["skipped"] for one in pins if "skipped" in one][-1] == [8, 19]
    assert again.read.series["train/loss"].count == 14
    assert replay(folder).is_equal
    return f"{len(pins)} attempts"


class Looking(Trap):
    """Looks at the run before each operation on files, as another process may."""

    def __init__(self, store: Path) -> None:
        super().__init__(10**9, within=store)
        self._store, self._is_looking = store, False
        self.states: list[RunState] = []
        self.points: list[int] = []
        self.lines: list[str] = []
        self.log: LogTail | None = None

    def tick(self, *, can_fill: bool = True) -> None:
        super().tick(can_fill=can_fill)
        if self._is_looking:
            return
        self._is_looking = True
        [folder] = self._store.glob("exp=*/run=*")
        run = read_run(folder, store_root=self._store)
        assert not run.problems, run.problems
        self.states.append(run.state)
        self.points.append(len(read_series(folder, ["train/loss"])))
        if self.log is None:
            self.log = LogTail(folder)
            self.lines += self.log.last(1000)
        self.lines += self.log.more()
        self._is_looking = False


def watched(store: Path, child: Child) -> None:
    """Train with a look before each operation of a rewind, and say how many looks there were."""
    go_back, trap = Attempted.go_back, Looking(store)

    def looked_at(self, *args):
        trap.arm()
        trap.tick()
        found = go_back(self, *args)
        trap.tick()
        trap._is_looking = True
        child.tell(len(trap.states))
        return found

    Attempted.go_back = looked_at
    Trained(store, REWIND, bad=(18,), steps=14)
    assert set(trap.states) == {RunState.RUNNING}
    # Ten points, then those up to the checkpoint; never none, and none twice.
    assert set(trap.points) == {10, 5}
    assert trap.points == sorted(trap.points, reverse=True)
    said = [line for line in trap.lines if "went back" in line]
    assert len(said) == 1


def test_a_run_that_goes_back_is_one_that_runs(tmp_path: Path) -> None:
    child = Child(lambda me: watched(tmp_path / "runs", me))
    assert child.wait() == 0
    assert child.told > 20


def num_operations(tmp_path: Path) -> int:
    child = Child(lambda me: life(tmp_path / "counted", 10**9, me))
    assert child.wait() == 0
    return child.told


def killed_at(tmp_path: Path, numbers: list[int]) -> set[str]:
    expected = Trained(tmp_path / "whole", REWIND, bad=(18,), steps=14).state.digest()
    seen = set()
    for number in numbers:
        store = tmp_path / f"at-{number}"
        child = Child(lambda me, store=store, number=number: life(store, number, me))
        assert not child.survives()
        seen.add(check(store, expected))
    return seen


def test_a_kill_before_in_and_after_a_rewind_is_gone_on_from(
    tmp_path: Path, no_grace: None
) -> None:
    total = num_operations(tmp_path)
    assert total > 20, total
    seen = killed_at(tmp_path, [total // 2, total - 1])
    assert seen <= {"2 attempts", "3 attempts", "4 attempts"}


@pytest.mark.soak
def test_a_kill_before_any_operation_of_a_rewind_is_gone_on_from(
    tmp_path: Path, no_grace: None
) -> None:
    total = num_operations(tmp_path)
    seen = killed_at(tmp_path, list(range(1, total + 2)))
    assert {"3 attempts", "4 attempts"} <= seen
