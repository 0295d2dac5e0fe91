"""Push and pull killed between any two operations on files, or met by a full disk: what is there
is sound, and the next try goes on to the same end.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from expdb.errors import Corrupt
from expdb.store.ops import read_ops
from expdb.store.points import read_series
from expdb.store.runs import read_run
from tests.actions.conftest import World
from tests.actions.exchanged import contents, pulled, pushed, resumed, rich
from tests.faults.conftest import mount
from tests.faults.counting import Tally
from tests.faults.killing import Child, Trap
from tests.faults.lives import STRIDES, far, fill, sweep, unsound

pytestmark = pytest.mark.slow


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Tally:
    return Tally(request.node)


def points(folder: Path) -> list[float]:
    found = read_series(folder, ["val/loss"], attempts=True, problems=[])
    return sorted(found["value"].to_pylist())


def sound(root: Path, sources: dict[str, list[list[float]]]) -> None:
    """Every run that has its name is one of the states that its source had."""
    for folder in root.glob("exp=*/run=*"):
        run = read_run(folder, store_root=root)
        assert run.problems == ()
        assert points(folder) in sources[run.id]


def traces(root: Path) -> list[str]:
    """Temporary names but those of every small file, which go when they are old."""
    found = [path.relative_to(root).as_posix() for path in root.rglob(".tmp-*")]
    return [path for path in found if not re.search(r"\.tmp-.+-[0-9a-f]{8}$", path)]


def killed(
    survives: Callable[[], object], at: int, within: Path, reset: Callable[[], None],
    check: Callable[[], None],
) -> bool:  # fmt: skip
    def work(child: Child) -> None:
        Trap(at, within=within).arm()
        survives()

    ended = Child(work).survives()
    check()
    reset()
    return ended


def keeper(*folders: Path) -> Callable[[], None]:
    """Return what brings folders back to how they are now."""
    for folder in folders:
        shutil.copytree(folder, folder.with_name(f"{folder.name}-kept"), symlinks=True)

    def reset() -> None:
        for folder in folders:
            shutil.rmtree(folder)
            shutil.copytree(folder.with_name(f"{folder.name}-kept"), folder, symlinks=True)

    return reset


@STRIDES
@pytest.mark.parametrize("grown", [False, True], ids=["new", "grown"])
def test_a_push_is_killed_between_any_two_operations(
    two: tuple[World, World], lab: Path, tmp_path: Path, faults: Tally, stride: int, grown: bool
) -> None:
    one, other = two
    one.write({"model.py": "width = 7\n"})
    run, fine = rich(one, state="preempted"), rich(one, "exp01")
    states = {run: [points(one.folder(run))], fine: [points(one.folder(fine))]}
    if grown:
        pushed(one)
        resumed(one, run)
        states[run].append(points(one.folder(run)))
    reset = keeper(lab)

    def check() -> None:
        sound(lab, states)
        assert pushed(one).of("refused", "skipped") == ()
        for folder in lab.glob("exp=*/run=*"):
            assert contents(folder) == contents(one.folder(folder.name.removeprefix("run=")))
        assert traces(lab) == []
        assert traces(one.git_dir) == []
        assert pushed(one).bytes == 0
        faults.compare([run, fine], [path.name[4:] for path in lab.glob("exp=*/run=*")])

    assert sweep(
        lambda at: killed(lambda: pushed(one), at, tmp_path, reset, check), faults, far(stride)
    ) > (20 if grown else 60)
    pushed(one)
    assert pulled(other).no_code == ()


@STRIDES
@pytest.mark.parametrize("grown", [False, True], ids=["new", "grown"])
def test_a_pull_is_killed_between_any_two_operations(
    two: tuple[World, World], lab: Path, tmp_path: Path, faults: Tally, stride: int, grown: bool
) -> None:
    one, other = two
    one.write({"model.py": "width = 7\n"})
    run, fine = rich(one, state="preempted"), rich(one, "exp01")
    states = {run: [points(one.folder(run))], fine: [points(one.folder(fine))]}
    pushed(one)
    if grown:
        pulled(other)
        resumed(one, run)
        pushed(one)
        states[run].append(points(one.folder(run)))
    reset = keeper(other.top)

    def check() -> None:
        sound(other.store.root, states)
        assert unsound(other.store.root) == []
        done = pulled(other)
        assert (done.of("refused", "skipped"), done.no_code) == ((), ())
        for name in (run, fine):
            assert contents(other.folder(name)) == contents(one.folder(name))
        assert traces(other.store.root) == []
        assert pulled(other).op is None
        assert len(read_ops(other.store.layout)) <= 3
        faults.compare(
            [run, fine], [path.name[4:] for path in other.store.root.glob("exp=*/run=*")]
        )

    assert sweep(
        lambda at: killed(lambda: pulled(other), at, other.top, reset, check), faults, far(stride)
    ) > (20 if grown else 60)


# ---------------------------------------------------------------------------- full, read-only


@pytest.mark.parametrize("side", ["push", "pull"])
def test_a_full_disk_is_said_and_the_next_try_goes_on(
    two: tuple[World, World], tmp_path: Path, faults: Tally, side: str
) -> None:
    one, other = two
    runs = [rich(one), rich(one, "exp01")]
    for run in runs:
        (one.folder(run) / "plots/big").write_bytes(b"x" * 300_000)
    disk = tmp_path / ("lab" if side == "push" else "two/runs")
    kept = tmp_path / "kept"
    if side == "pull":
        pushed(one)
    shutil.copytree(disk, kept)
    shutil.rmtree(disk)
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m,mode=0755", "none", str(disk))
    try:
        shutil.copytree(kept, disk, dirs_exist_ok=True)
        filler = fill(disk, leave=420_000)
        work = (lambda: pushed(one)) if side == "push" else (lambda: pulled(other))
        with pytest.raises(Corrupt, match="no space left"):
            work()
        faults.fault()
        named = [path for path in disk.glob("exp=*/run=*")]
        assert len(named) < 2
        for folder in named:
            assert contents(folder) == contents(one.folder(folder.name[4:]))
        filler.unlink()
        assert work().of("refused", "skipped") == ()
        for folder in disk.glob("exp=*/run=*"):
            assert contents(folder) == contents(one.folder(folder.name[4:]))
        assert len(list(disk.glob("exp=*/run=*"))) == 2
    finally:
        import subprocess

        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_remote_that_cannot_be_written_can_be_pulled_from(
    two: tuple[World, World], lab: Path, faults: Tally
) -> None:
    import subprocess

    one, other = two
    run = rich(one)
    pushed(one)
    later = rich(one, "exp01")
    mount("--bind", str(lab), str(lab))
    try:
        mount("-o", "remount,bind,ro", str(lab))
        with pytest.raises(Corrupt, match="read-only"):
            pushed(one)
        faults.fault()
        assert [item.outcome for item in pulled(other).runs] == ["new"]
        assert contents(other.folder(run)) == contents(one.folder(run))
    finally:
        subprocess.run(["umount", "-l", str(lab)], check=True)
    assert [item.run for item in pushed(one).of("new")] == [later]


def test_a_store_that_cannot_be_written_can_be_pushed_from(
    two: tuple[World, World], lab: Path, faults: Tally
) -> None:
    import subprocess

    one, _ = two
    run = rich(one)
    root = str(one.store.root)
    mount("--bind", root, root)
    try:
        mount("-o", "remount,bind,ro", root)
        assert [item.outcome for item in pushed(one).runs] == ["new"]
        faults.fault()
        assert contents(next(lab.glob(f"exp=*/run={run}"))) == contents(one.folder(run))
    finally:
        subprocess.run(["umount", "-l", root], check=True)
