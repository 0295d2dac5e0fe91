"""A remote is written by others: whatever lies in it, nothing leaves the store, the rest comes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from expdb.actions.remote import add, remote_rows, remove
from expdb.errors import BadInput, Corrupt, ExpdbError, NotFound, Refused
from expdb.store.remotes import read_remotes
from expdb.store.runs import read_run
from tests.actions.conftest import World
from tests.actions.exchanged import (
    contents,
    outcomes,
    pulled,
    pushed,
    resumed,
    rich,
)

pytestmark = pytest.mark.slow

Harm = Callable[[Path], object]


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def link_out(run: Path) -> None:
    (run / "evals/e1.json").unlink()
    (run / "evals/e1.json").symlink_to("/etc/hostname")


def link_folder(run: Path) -> None:
    shutil.rmtree(run / "media")
    (run / "media").symlink_to("/etc")


def moved(run: Path) -> None:
    run.rename(run.with_name("run=zzzzzzzzzz"))


def elsewhere(run: Path) -> None:
    home = run.parent.with_name("exp=..%2F..%2Fout")
    home.mkdir()
    run.rename(home / run.name)


HARMS: dict[str, Harm] = {
    "a link to a file": link_out,
    "a link to a folder": link_folder,
    "a pipe": lambda run: os.mkfifo(run / "points/pipe"),
    "a run under another id": moved,
    "another id inside": lambda run: edit(run / "run.json", id="aaaaaaaaaa"),
    "an experiment that is a path": lambda run: edit(run / "run.json", experiment="../../out"),
    "an experiment that is empty": lambda run: edit(run / "run.json", experiment=""),
    "an experiment that is a number": lambda run: edit(run / "run.json", experiment=3),
    "a variant that is a list": lambda run: edit(run / "run.json", variant=[1]),
    "a folder of another experiment": elsewhere,
    "a newer format": lambda run: edit(run / "run.json", format=99, needs="9.9"),
    "no run.json": lambda run: (run / "run.json").unlink(),
    "a run.json that is none": lambda run: (run / "run.json").write_text("[" * 100_000),
    "a run.json that is a folder": lambda run: (
        (run / "run.json").unlink(), (run / "run.json").mkdir()
    ),
    "no status": lambda run: (run / "status.json").unlink(),
    "a status of a live run": lambda run: edit(run / "status.json", state="running"),
    "a journal": lambda run: (run / "attempts/1/rank-0.1.wal").write_bytes(b"x"),
    "an attempt that no status has": lambda run: (run / "attempts/9/x.txt").write_text("x")
    if (run / "attempts/9").mkdir() is None
    else None,
    "other weights": lambda run: (run / "checkpoints/step=300/model.pt").write_bytes(
        b"Weights 300" * 50
    ),
    "a manifest that leaves its folder": lambda run: edit(
        run / "checkpoints/step=300/manifest.json",
        files={"../../../../x": {"bytes": 1, "sha256": "0"}},
    ),
    "a file name that is no text": lambda run: (run / os.fsdecode(b"a\xff")).write_text("x"),
}  # fmt: skip


@pytest.mark.parametrize("harm", HARMS)
def test_a_run_that_is_not_sound_is_refused_by_name_and_the_others_come(
    two: tuple[World, World], lab: Path, tmp_path: Path, harm: str
) -> None:
    one, other = two
    bad, good = rich(one), rich(one, "exp01")
    pushed(one)
    HARMS[harm](next(lab.glob(f"exp=*/run={bad}")))
    before = set(tmp_path.iterdir())
    done = pulled(other)
    assert outcomes(done)[good] == "new"
    (refused,) = done.of("refused")
    assert refused.run in (bad, "zzzzzzzzzz")
    assert refused.why
    assert set(tmp_path.iterdir()) == before
    assert {path.name for path in other.store.root.glob("exp=*/*")} == {f"run={good}"}
    assert contents(other.folder(good)) == contents(one.folder(good))
    assert all(
        path.resolve().is_relative_to(other.store.root) for path in other.store.root.rglob("*")
    )


def test_weights_that_are_damaged_on_their_way_change_nothing_of_a_run_that_is_here(
    two: tuple[World, World], lab: Path
) -> None:
    one, other = two
    run = rich(one, state="preempted")
    pushed(one)
    pulled(other)
    resumed(one, run)
    pushed(one)
    model = next(lab.glob(f"exp=*/run={run}/checkpoints/step=400/model.pt"))
    data = model.read_bytes()
    model.write_bytes(data[:-1] + b"?")
    before = contents(other.folder(run))
    assert outcomes(pulled(other)) == {run: "refused"}
    assert contents(other.folder(run)) == before
    model.write_bytes(data)
    assert outcomes(pulled(other)) == {run: "updated"}
    assert contents(other.folder(run)) == contents(one.folder(run))


@pytest.mark.parametrize("harm", ["a link to a folder", "a run.json that is a folder", "a pipe"])
def test_a_push_over_what_others_put_there_is_refused_by_name(
    two: tuple[World, World], lab: Path, harm: str
) -> None:
    one, _ = two
    bad, good = rich(one), rich(one, "exp01")
    pushed(one, bad)
    HARMS[harm](next(lab.glob(f"exp=*/run={bad}")))
    assert outcomes(pushed(one)) == {bad: "refused", good: "new"}


def test_a_folder_that_became_a_link_is_not_followed(
    two: tuple[World, World], lab: Path, tmp_path: Path
) -> None:
    one, other = two
    run = rich(one)
    (tmp_path / "out").mkdir()
    (lab / "exp=baseline").symlink_to(tmp_path / "out")
    assert outcomes(pushed(one)) == {run: "refused"}
    assert list((tmp_path / "out").iterdir()) == []
    (lab / "exp=baseline").unlink()
    pushed(one)
    (lab / "exp=baseline").rename(tmp_path / "moved")
    (lab / "exp=baseline").symlink_to(tmp_path / "moved")
    assert pulled(other).runs == ()


def test_refs_and_ops_that_are_not_sound_are_refused_by_name(
    two: tuple[World, World], lab: Path
) -> None:
    one, other = two
    one.run()
    pushed(one)
    refs = lab / "stores" / one.store.id / "refs"
    sound = {"format": 1, "name": "x", "kind": "tag", "run": "a" * 10, "step": None, "op": ""}
    (refs / "x.json").write_text(json.dumps({**sound, "name": "../../../x"}))
    (refs / "y.json").write_text(json.dumps({**sound, "name": "z"}))
    (refs / "w.json").symlink_to("/etc/hostname")
    (refs / "v.json").write_text(json.dumps({**sound, "run": "../.."}))
    ops = lab / "stores" / one.store.id / "ops" / "202601"
    ops.mkdir()
    (ops / "17-aaaaaaaaaa.json").write_text("{}")
    (lab / "stores" / "..").mkdir(exist_ok=True)
    (lab / "stores" / "bbbbbbbbbb").symlink_to("/etc")
    done = pulled(other)
    assert len(done.notes) == 5
    assert all(note.startswith("refused: stores/") for note in done.notes)
    assert not list((other.store.layout.refs / "remotes").rglob("*.json"))


def test_a_pack_that_is_not_sound_is_refused_and_nothing_is_pinned(
    two: tuple[World, World], lab: Path
) -> None:
    one, other = two
    one.write({"model.py": "width = 7\n"})
    run = one.run()
    pushed(one)
    (pack,) = lab.glob("code/*/objects.pack")
    data = pack.read_bytes()
    pack.write_bytes(data[:60] + bytes([data[60] ^ 1]) + data[61:])
    done = pulled(other)
    assert (outcomes(done), done.commits, done.no_code) == ({run: "new"}, 0, (run,))
    assert done.notes[0].startswith("refused: code/")
    assert other.git("for-each-ref", "refs/expdb/pins") == ""
    pack.unlink()
    pack.symlink_to("/etc/hostname")
    assert pulled(other).no_code == (run,)
    # One that says that it has more than it has.
    pack.unlink()
    assert pulled(other).no_code == (run,)


# ------------------------------------------------------------------------------------- folders


def test_a_folder_that_cannot_be_a_remote(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").write_text("x")
    (tmp_path / "link").symlink_to(world.store.root)
    cases: list[tuple[Path, type[ExpdbError], str]] = [
        (tmp_path / "none", NotFound, "mkdir -p"),
        (tmp_path / "file", Refused, "a remote is a folder"),
        (tmp_path / "full", Refused, "mkdir"),
        (world.store.root, Refused, "elsewhere"),
        (world.store.root / "sub", Refused, "elsewhere"),
        (world.top, Refused, "elsewhere"),
        (tmp_path / "link", Refused, "elsewhere"),
    ]
    for path, kind, hint in cases:
        with pytest.raises(kind) as caught:
            add(world.store, "lab", path)
        assert hint in caught.value.hints[0], path
    assert read_remotes(world.store.layout) == {}
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a b", "a:b", "best", "x" * 300, "a\x1b"])
def test_a_name_that_no_remote_can_have(world: World, tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput):
        add(world.store, name, tmp_path)


def test_another_folder_under_the_same_path_is_not_taken_for_it(
    two: tuple[World, World], lab: Path
) -> None:
    one, _ = two
    run = one.run()
    pushed(one)
    shutil.move(lab, lab.with_name("away"))
    with pytest.raises(NotFound):
        pushed(one)
    lab.mkdir()  # the place where a disk is mounted, without it
    with pytest.raises(Refused, match="is missing there"):
        pushed(one)
    assert list(lab.iterdir()) == []
    (row,) = remote_rows(one.store)
    assert (row.runs, bool(row.problem)) == (None, True)
    lab.rmdir()
    shutil.move(lab.with_name("away"), lab)
    assert outcomes(pushed(one)) == {run: "same"}
    lab.with_name("new").mkdir()
    with pytest.raises(Refused, match="already"):
        add(one.store, "lab", lab.with_name("new"))
    remove(one.store, "lab")
    assert (lab / "remote.json").is_file()
    with pytest.raises(NotFound):
        pushed(one)


def test_a_run_with_a_link_is_not_pushed(two: tuple[World, World]) -> None:
    one, _ = two
    run, good = one.run(), one.run("exp01")
    (one.folder(run) / "own").symlink_to("/etc/hostname")
    done = pushed(one)
    assert outcomes(done) == {run: "refused", good: "new"}
    assert "own is a link" in done.of("refused")[0].why


def test_damage_that_a_remote_lists_itself_is_refused(two: tuple[World, World], lab: Path) -> None:
    one, other = two
    run = one.run()
    pushed(one)
    (lab / "remote.json").write_text("{")
    with pytest.raises(Corrupt):
        pulled(other)
    assert read_run(one.folder(run), store_root=one.store.root).problems == ()
