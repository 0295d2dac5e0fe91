"""A store that cannot be written: start() says it before training, and readers work."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import expdb
from expdb.cli.main import main
from expdb.errors import Corrupt
from expdb.index.reader import open_reader
from expdb.store.layout import RunLayout
from expdb.store.store import open_store
from tests.faults.counting import Tally
from tests.faults.killing import Child
from tests.faults.lives import config, left_behind, steps
from tests.store.fsck_made import finished, name_ref, points

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]
Freeze = Callable[[Path], Path]
NOBODY = 65534


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_new", [True, False])
def test_case_a32_start_in_a_read_only_store_says_so_and_changes_nothing(
    tmp_path: Path, frozen: Freeze, faults: Tally, is_new: bool
) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    if not is_new:
        with expdb.start(config(), name="before", store=root) as run:
            run.log({"a": 1.0}, step=0)
    before = contents(root)
    there = frozen(root)
    faults.fault()
    with pytest.raises(Corrupt) as caught:
        expdb.start(config(), name="never", store=there)
    assert caught.value.message.startswith("cannot write to the store ")
    assert caught.value.message.endswith(": the file system is read-only")
    assert caught.value.hints
    assert contents(root) == before


def test_case_a32_a_read_only_store_is_read_with_its_index_in_the_cache(
    make_run_dir: MakeRun, store_root: Path, frozen: Freeze, faults: Tally, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    done = finished(make_run_dir, objective={"metric": "val/loss", "mode": "min"})
    left = make_run_dir()
    left_behind(left)
    name_ref(store_root, "baseline", done.id)
    before, wanted = contents(store_root), points(left)
    there = frozen(store_root)
    faults.fault()
    states = {done.id: "finished", left.id: "crashed"}
    for _ in range(2):
        with open_reader(open_store(there)) as reader:
            assert dict(reader.rows("SELECT id, state FROM runs")) == states
            assert all("cache folder" in text for text in reader.warnings)
            layout = RunLayout(reader.run_dir(left.id))
            faults.compare(wanted, points(layout))
    assert list((tmp_path / "cache").rglob("gen-*.duckdb")) != []
    for words in (
        ["ls"],
        ["show", done.id],
        ["rank", "val/loss"],
        ["fsck"],
        ["status"],
        ["reindex"],
    ):
        assert main(["--store", str(there), *words]) in (0, 5 if words == ["fsck"] else 0), words
    capsys.readouterr()
    for words in (["tag", "kept", done.id], ["label", done.id, "mine"], ["rm", left.id]):
        assert main(["--store", str(there), *words]) == 5, words
        said = capsys.readouterr().err
        assert "cannot write to the store" in said, words
        assert "the file system is read-only" in said, words
    assert main(["--store", str(there), "fsck", "--repair"]) == 5
    assert "the file system is read-only" in capsys.readouterr().err
    with pytest.raises(Corrupt, match="the file system is read-only"):
        expdb.attach(done.id, store=there)
    assert contents(store_root) == before


# --------------------------------------------------------------------------------- another user


@pytest.fixture
def open_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that every user reaches, with the script in it."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    script = str(folder / "train.py")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", script, raising=False)
    yield folder
    shutil.rmtree(folder)


def as_user(uid: int, gid: int, groups: tuple[int, ...] = ()) -> None:
    os.setgroups(groups)
    os.setgid(gid)
    os.setuid(uid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_start_without_the_right_to_write_says_so(open_place: Path, faults: Tally) -> None:
    root = open_place / "runs"
    with expdb.start(config(), name="mine", store=root) as run:
        run.log({"a": 1.0}, step=0)
    before = contents(root)

    def stranger(child: Child) -> None:
        as_user(NOBODY, NOBODY)
        os.environ["XDG_CACHE_HOME"] = str(open_place / "cache")
        with open_reader(open_store(root)) as reader:
            assert reader.rows("SELECT id, state FROM runs") == [(run.id, "finished")]
        with pytest.raises(Corrupt, match=r"cannot write to the store .*: no permission"):
            expdb.start(config(), name="theirs", store=root)
        with pytest.raises(Corrupt, match="no permission"):
            expdb.attach(run.id, store=root)
        child.tell(1)

    faults.fault()
    child = Child(stranger)
    assert child.survives()
    assert child.told == 1
    assert contents(root) == before
    faults.compare([0], steps(run.layout))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_right_that_goes_while_training_stops_nothing(open_place: Path, faults: Tally) -> None:
    root = open_place / "runs"

    def train(child: Child) -> None:
        as_user(NOBODY, NOBODY)
        run = expdb.start(config(), name="mine", store=root)
        run.log({"a": 0.0}, step=0)
        for folder in (run.dir, run.layout.attempt(1)):
            folder.chmod(0o555)
        for step in range(1, 50):
            run.log({"a": float(step)}, step=step)
            run.event(step, "info", "own", "still here")
            run.note("still here")
            run._heartbeat._beat()
        for folder in (run.dir, run.layout.attempt(1)):
            folder.chmod(0o755)
        run.finish()
        child.tell(49)

    faults.fault()
    child = Child(train)
    assert child.survives()
    [folder] = root.glob("exp=mine/run=*")
    faults.compare(range(50), steps(RunLayout(folder)))
