"""Checkpoint folders read without torch: manifests, sizes, hashes, and replacing one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from expdb.errors import Corrupt, NotFound, Unsupported
from expdb.store import checkpoints
from expdb.store.layout import RunLayout


@pytest.fixture
def layout(tmp_path):
    return RunLayout(tmp_path / "exp=e" / "run=k3f9x2m7qd")


def write(layout, step, *, attempt=1, **contents):
    """Write a whole checkpoint with some files."""
    temp = checkpoints.temp_dir(layout, step)
    temp.mkdir(parents=True)
    for name, content in (contents or {"model": b"m" * 100, "state": b"s" * 10}).items():
        (temp / f"{name}.pt").write_bytes(content)
    manifest = checkpoints.Manifest(
        step=step,
        attempt=attempt,
        created_at_ms=5,
        tokens=7,
        torch="2.13",
        value=float("nan"),
        parts={"model": {"file": "model.pt", "names": []}},
    )
    checkpoints.seal(temp, manifest)
    checkpoints.put_in_place(layout, step)


def edit(layout, step, **changes):
    path = layout.checkpoint(step) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_whole_one_is_read_and_verified(layout):
    write(layout, 300)
    write(layout, 20, attempt=2)
    first, second = checkpoints.read_manifests(layout)
    assert (first.step, first.attempt, second.step) == (20, 2, 300)
    assert (second.bytes, second.complete, second.problem) == (110, True, "")
    assert second.created_at_ms == 5
    assert set(second.files) == {"model.pt", "state.pt"}
    assert checkpoints.verify(layout, 300) == second
    manifest = checkpoints.read_manifest(layout, 300)
    assert manifest.value != manifest.value
    assert (manifest.tokens, manifest.torch) == (7, "2.13")


def test_a_run_without_checkpoints_has_none(layout):
    assert checkpoints.read_manifests(layout) == ()
    with pytest.raises(NotFound, match="k3f9x2m7qd has no checkpoint 3; it has none"):
        checkpoints.verify(layout, 3)
    write(layout, 1)
    write(layout, 2)
    with pytest.raises(NotFound, match="has no checkpoint 3; it has 1, 2"):
        checkpoints.verify(layout, 3)


def test_a_file_in_the_place_of_the_folder_is_named(layout):
    layout.root.mkdir(parents=True)
    layout.checkpoints.write_text("")
    problems = []
    assert checkpoints.steps(layout, problems=problems) == ()
    assert checkpoints.read_manifests(layout, problems=problems) == ()
    assert problems == ["checkpoints cannot be read: a part of the path is a file"] * 2
    assert checkpoints.cut_off(layout) == ()
    checkpoints.recover(layout)
    with pytest.raises(NotFound, match="it has none"):
        checkpoints.verify(layout, 3)


def test_names_that_are_no_steps_are_passed_over(layout):
    write(layout, 1)
    for name in ("step=x", "step=-1", "step=", "step=²", ".tmp-step=4", "other"):
        (layout.checkpoints / name).mkdir()
    assert checkpoints.steps(layout) == (1,)


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (lambda f: (f / "model.pt").write_bytes(b"m" * 60), "model.pt has 60 of 100 bytes"),
        (lambda f: (f / "state.pt").unlink(), "state.pt is missing"),
        (lambda f: (f / "manifest.json").unlink(), "has no manifest.json"),
        (lambda f: (f / "manifest.json").write_text(""), "manifest.json is empty"),
        (lambda f: (f / "manifest.json").write_text("[1]"), "manifest.json holds no JSON object"),
        (lambda f: (f / "manifest.json").write_text('{"attempt": 1}'), "is not what expdb writes"),
    ],
)
def test_damage_is_told_without_hashing(layout, harm, problem):
    write(layout, 1)
    harm(layout.checkpoint(1))
    [one] = checkpoints.read_manifests(layout)
    assert not one.complete
    assert problem in one.problem
    with pytest.raises(Corrupt) as caught:
        checkpoints.verify(layout, 1)
    assert problem in caught.value.message


def test_a_changed_byte_is_found_by_hashing_and_the_next_good_one_is_named(layout):
    for step in (100, 200, 300, 400):
        write(layout, step)
    for step in (200, 300):
        path = layout.checkpoint(step) / "model.pt"
        path.write_bytes(b"M" + path.read_bytes()[1:])
    assert all(one.complete for one in checkpoints.read_manifests(layout))
    with pytest.raises(Corrupt, match=r"checkpoint 300 .*: model\.pt is damaged") as caught:
        checkpoints.verify(layout, 300)
    assert caught.value.hints == ("the next good one: step 100",)
    checkpoints.remove(layout, 100)
    with pytest.raises(Corrupt) as caught:
        checkpoints.verify(layout, 300)
    assert caught.value.hints == ("the next good one: step 400",)
    checkpoints.remove(layout, 400)
    with pytest.raises(Corrupt) as caught:
        checkpoints.verify(layout, 300)
    assert caught.value.hints == ("no other checkpoint of this run is good",)


def test_a_newer_format_is_refused_by_what_it_needs(layout):
    write(layout, 1)
    edit(layout, 1, format=2, needs="9.1.0")
    with pytest.raises(Unsupported, match="format 2, newer than 1") as caught:
        checkpoints.verify(layout, 1)
    assert caught.value.hints == ("it needs expdb 9.1.0",)
    assert not checkpoints.read_checkpoint(layout, 1).complete


def test_keys_of_a_later_version_do_no_harm(layout):
    write(layout, 1)
    edit(layout, 1, mood="good")
    assert checkpoints.verify(layout, 1).complete


@pytest.mark.parametrize("name", ["../model.pt", "/etc/passwd", ".hidden", "a/b"])
def test_a_manifest_cannot_name_a_file_elsewhere(layout, name):
    write(layout, 1)
    edit(layout, 1, files={name: {"bytes": 1, "sha256": "0"}})
    [one] = checkpoints.read_manifests(layout)
    assert "is no file name" in one.problem


def test_the_old_one_is_gone_only_after_the_new_one_is_there(layout):
    write(layout, 1, model=b"old")
    write(layout, 1, attempt=2, model=b"new")
    assert (layout.checkpoint(1) / "model.pt").read_bytes() == b"new"
    assert [path.name for path in layout.checkpoints.iterdir()] == ["step=1"]


def test_recover_brings_back_what_was_moved_aside_and_clears_the_rest(layout):
    write(layout, 1, model=b"old")
    write(layout, 2)
    layout.checkpoint(1).rename(layout.checkpoints / ".tmp-old-step=1")
    (layout.checkpoints / ".tmp-old-step=2").mkdir()
    (layout.checkpoints / ".tmp-gone-step=0").mkdir()
    (checkpoints.temp_dir(layout, 3) / "x").mkdir(parents=True)
    (layout.checkpoints / "notes").mkdir()
    assert checkpoints.cut_off(layout) == (1,)
    checkpoints.bring_back(layout)
    assert checkpoints.steps(layout) == (1, 2)
    assert len(list(layout.checkpoints.iterdir())) == 6  # it takes nothing away
    checkpoints.recover(layout)
    assert sorted(path.name for path in layout.checkpoints.iterdir()) == [
        "notes",
        "step=1",
        "step=2",
    ]
    assert checkpoints.verify(layout, 1).complete


def test_only_a_plain_folder_is_removed(layout, tmp_path):
    write(layout, 1)
    (tmp_path / "mine").mkdir()
    layout.checkpoint(2).symlink_to(tmp_path / "mine")
    assert checkpoints.remove(layout, 1)
    assert not checkpoints.remove(layout, 2)
    assert not checkpoints.remove(layout, 3)
    assert (tmp_path / "mine").is_dir()


def test_reading_and_importing_needs_no_torch():
    code = (
        "import sys, expdb.store.checkpoints, expdb.track.checkpoint, expdb.track.loop\n"
        "import expdb.track.state, expdb.track.update, expdb.track.rng, expdb.track.signals\n"
        "heavy = {'torch', 'numpy', 'duckdb', 'click', 'rich', 'textual'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
