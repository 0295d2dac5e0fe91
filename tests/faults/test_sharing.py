"""A store that two users write, one that was copied, and one of which half was copied."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import expdb
from expdb.cli.main import main
from expdb.index.reader import open_reader
from expdb.model import RunState
from expdb.store import recorder
from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from expdb.store.runs import read_run
from expdb.store.store import open_store
from tests.faults.counting import Tally
from tests.faults.killing import Barrier, Child, die
from tests.faults.lives import config, left_behind, run_dirs_of, steps, unsound
from tests.store.fsck_made import finished, points

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]
GROUP, ADA, BEN = 54321, 54322, 54323


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a group, in which new files belong to the group too."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp())
    os.chown(folder, -1, GROUP)
    folder.chmod(0o2775)
    script = str(folder / "train.py")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", script, raising=False)
    monkeypatch.chdir(folder)
    yield folder
    shutil.rmtree(folder)


def become(uid: int) -> None:
    """Go on as a user of the group, whose files the group may write."""
    os.umask(0o002)
    os.setgroups([GROUP])
    os.setgid(GROUP)
    os.setuid(uid)


def as_user(uid: int, work: Callable[[], object]) -> None:
    def run(child: Child) -> None:
        become(uid)
        work()

    assert Child(run).survives()


def log(root: Path, name: str, *, last: int = 10, **more: str) -> None:
    run = expdb.start(config(), name=name, store=root, **more)
    for step in range(10):
        if step == last:
            die()
        run.log({"a": float(step)}, step=step)
    run.note("by its owner")
    run.finish()


def listed(root: Path, wanted: dict[str, str]) -> None:
    with open_reader(open_store(root)) as reader:
        assert reader.warnings == (), reader.warnings
        assert dict(reader.rows("SELECT id, state FROM runs")) == wanted


def test_two_users_of_a_group_share_a_store(shared: Path, faults: Tally) -> None:
    root = shared / "runs"
    _import_all(shared / "warm")
    as_user(ADA, lambda: log(root, "of/ada"))
    as_user(BEN, lambda: log(root, "of/ada"))  # in the same folder of an experiment

    def killed(child: Child) -> None:
        become(ADA)
        log(root, "killed", last=7)

    assert not Child(killed).survives()
    faults.fault(2)
    ids = {folder.name[4:]: folder for folder in run_dirs_of(root)}
    lost = next(run for run, folder in ids.items() if folder.parent.name == "exp=killed")
    states = {run: "crashed" if run == lost else "finished" for run in ids}
    hers = next(
        run
        for run, folder in ids.items()
        if run != lost and (folder / "run.json").stat().st_uid == ADA
    )
    before = {run: steps(RunLayout(folder)) for run, folder in ids.items()}
    for uid in (BEN, ADA, BEN):
        as_user(uid, lambda: listed(root, states))  # the first seals what Ada's run left
    assert steps(RunLayout(ids[lost])) == before[lost]

    def verbs(child: Child) -> None:
        become(BEN)
        store = ["--store", str(root)]
        assert main([*store, "baseline", hers]) == 0
        assert main([*store, "label", hers, "seen"]) == 0
        assert main([*store, "note", hers, "by the other"]) == 0
        assert main([*store, "tag", "kept", hers]) == 0
        with expdb.attach(hers, store=root) as other:
            other.log({"judge": 1.0}, step=9)
        listed(root, states)
        log(root, "killed", resume=lost)
        child.tell(1)

    child = Child(verbs)
    assert child.survives()
    run = read_run(ids[hers], store_root=root)
    assert (run.labels, run.notes) == (("seen",), ("by its owner", "by the other"))
    assert (run.series["judge"].count, run.problems) == (1, ())
    again = read_run(ids[lost], store_root=root)
    assert (again.state, len(again.attempts)) == (RunState.FINISHED, 2)
    as_user(ADA, lambda: listed(root, {**states, lost: "finished"}))
    for name, folder in ids.items():
        faults.compare(before[name], [s for s in steps(RunLayout(folder)) if s in before[name]]
                       if name != lost else before[name])  # fmt: skip
    as_user(ADA, lambda: main(["--store", str(root), "rm", hers]))
    assert unsound(root) == []


def _import_all(root: Path) -> None:
    """Import what the verbs import: another user may not read this Python's files."""
    expdb.start(config(), name="first", store=root).finish()
    [folder] = run_dirs_of(root)
    run, store = folder.name[4:], ["--store", str(root)]
    for words in (["ls"], ["label", run, "x"], ["note", run, "x"], ["tag", "t", run]):
        assert main([*store, *words]) == 0
    assert main([*store, "baseline", run]) == 0
    assert main([*store, "rm", run]) == 4
    expdb.attach(run, store=root).finish()


# -------------------------------------------------------------------------------------- copies


def test_what_a_copy_of_a_writing_run_lacks_is_named_and_comes_with_the_next_copy(
    tmp_path: Path, faults: Tally
) -> None:
    """A copier reads files one after another: a list may come over that names a later part."""
    root, copy = tmp_path / "runs", tmp_path / "copy"
    end = Barrier()

    def train(child: Child) -> None:
        recorder.SEAL_POINTS = 100  # type: ignore[misc]
        run = expdb.start(config(), name="live", store=root)
        for step in range(10**9):
            run.log({"a": float(step)}, step=step)
            child.tell(step)
            if end.is_open:
                die()
            time.sleep(0.0005)

    def slowly(source: str, target: str) -> None:
        shutil.copy2(source, target)
        time.sleep(0.01)

    child = Child(train)
    while child.told < 500:
        time.sleep(0.01)
    told = child.told
    while True:
        try:
            shutil.copytree(root, copy, copy_function=slowly)
            break
        except shutil.Error:  # a file went while it was copied: so does `cp -r`, and goes on
            shutil.rmtree(copy)
    with open_reader(open_store(copy)) as reader:
        assert reader.rows("SELECT state FROM runs") == [("running",)]
    end.open()
    assert not child.survives()
    faults.fault(2)
    [folder] = run_dirs_of(copy)
    problems: list[str] = []
    found = set(read_series(folder, ["a"], problems=problems)["step"].to_pylist())
    named = [item for item in problems if item.endswith("is missing")]
    assert set(problems) <= {*named, *(item for item in problems if "torn at its end" in item)}
    assert found >= set(range(told + 1)) or named
    assert found <= set(range(child.told + 2))
    with open_reader(open_store(copy)) as reader:
        assert reader.rows("SELECT state FROM runs") == [("crashed",)]

    shutil.copytree(root, copy, dirs_exist_ok=True)
    [original] = run_dirs_of(root)
    for place in (original, folder):
        faults.compare(range(child.told + 1), steps(RunLayout(place)), begun=[child.told + 1])


def test_a_store_of_which_half_was_copied_is_read_and_is_whole_when_the_rest_comes(
    make_run_dir: MakeRun, store_root: Path, tmp_path: Path, faults: Tally
) -> None:
    layouts = [finished(make_run_dir) for _ in range(2)]
    left = make_run_dir()
    left_behind(left)
    before = {layout.id: points(layout) for layout in (*layouts, left)}
    names = sorted(
        str(path.relative_to(store_root)) for path in store_root.rglob("*") if path.is_file()
    )
    for share in range(1, 8):
        copy = tmp_path / f"copy{share}"
        for at, name in enumerate(names):
            if at % 8 < share or name == ".expdb/store.json":
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(store_root / name, copy / name)
        faults.fault()
        with open_reader(open_store(copy)) as reader:
            for run, state in reader.rows("SELECT id, state FROM runs"):
                folder = reader.run_dir(run)
                assert set(points(RunLayout(folder))) <= set(before[run])
                assert state in ("finished", "crashed", "running")
        shutil.copytree(store_root, copy, dirs_exist_ok=True)
        for layout in (*layouts, left):
            there = RunLayout(copy / layout.root.relative_to(store_root))
            faults.compare(before[layout.id], points(there))
        then = time.time() - 100
        for path in copy.rglob("*"):
            os.utime(path, (then, then))
        for _ in range(2):
            with open_reader(open_store(copy)) as reader:
                assert len(reader.rows("SELECT id FROM runs")) == 3
        for layout in (*layouts, left):
            there = RunLayout(copy / layout.root.relative_to(store_root))
            faults.compare(before[layout.id], points(there))
        assert [text for text in unsound(copy) if "part-" in text] == []
