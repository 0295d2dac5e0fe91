"""Artifacts: whole copies with true names, and nothing outside the folder that was given."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expdb.errors import BadInput
from expdb.store import artifacts
from expdb.store.artifacts import Artifact, add_artifact, read_artifacts, sources
from expdb.store.layout import RunLayout

MakeRun = Callable[..., RunLayout]


@pytest.fixture
def layout(make_run_dir: MakeRun) -> RunLayout:
    return make_run_dir()


def add(layout: RunLayout, path: Path, name: str | None = None) -> Artifact | None:
    return add_artifact(layout, name or path.name, sources(path), attempt=1)


def files_of(layout: RunLayout) -> dict[str, str]:
    """Path below artifacts/ -> text of every file there."""
    found = [path for path in layout.artifacts.rglob("*") if path.is_file()]
    return {path.relative_to(layout.artifacts).as_posix(): path.read_text() for path in found}


def test_a_file_is_copied_with_its_hash(layout: RunLayout, tmp_path: Path) -> None:
    (tmp_path / "Loss Curve.TXT").write_text("abc")
    made = add(layout, tmp_path / "Loss Curve.TXT")
    assert made is not None
    assert read_artifacts(layout, []) == (made,), "what is returned is what is written, time too"
    assert (made.name, made.version, made.bytes) == ("Loss Curve.TXT", 1, 3)
    assert made.path == "artifacts/%4Coss%20%43urve.%54%58%54"
    [file] = made.files
    assert (file.name, file.path) == ("", made.path)
    assert file.sha256 == hashlib.sha256(b"abc").hexdigest()
    assert (layout.root / made.path).read_text() == "abc"


def test_what_is_returned_is_what_is_written(
    layout: RunLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also its time, however long the clock runs on between the two."""
    clock = itertools.count(1_700_000_000_000_000_000, 7_000_000)
    monkeypatch.setattr("time.time_ns", lambda: next(clock))
    (tmp_path / "a.txt").write_text("abc")
    made = add(layout, tmp_path / "a.txt")
    assert made is not None
    assert read_artifacts(layout, []) == (made,)
    assert made.created_at_ms >= 1_700_000_000_000


def test_a_folder_is_copied_whole(layout: RunLayout, tmp_path: Path) -> None:
    top = tmp_path / "plots"
    (top / "A b").mkdir(parents=True)
    (top / "A b" / "x.txt").write_text("1")
    (top / "y.txt").write_text("2")
    (top / "empty").mkdir()
    (top / "link.txt").symlink_to("y.txt")
    (top / "again").symlink_to("A b")
    made = add(layout, top)
    assert made is not None
    names = {file.name: file.path for file in made.files}
    assert names == {
        "A b/x.txt": "artifacts/plots/%41%20b/x.txt",
        "again/x.txt": "artifacts/plots/again/x.txt",
        "link.txt": "artifacts/plots/link.txt",
        "y.txt": "artifacts/plots/y.txt",
    }
    assert all((layout.root / path).is_file() for path in names.values())
    assert not (layout.artifacts / "plots" / "link.txt").is_symlink()
    assert made.bytes == 4


def test_other_content_is_another_version_and_the_same_is_none(
    layout: RunLayout, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    for text in ("1", "2", "2", "1"):
        path.write_text(text)
        add(layout, path)
    found = read_artifacts(layout, [])
    assert [(item.version, item.path) for item in found] == [
        (1, "artifacts/a"),
        (2, "artifacts/a~2"),
        (3, "artifacts/a~3"),
    ]
    assert files_of(layout) == {"a": "1", "a~2": "2", "a~3": "1"}
    # A name that looks like a version of another one is a name of its own.
    path.write_text("0")
    add(layout, path, "a~2")
    assert files_of(layout)["a%7E2"] == "0"


def test_a_folder_may_follow_a_file_of_the_same_name(layout: RunLayout, tmp_path: Path) -> None:
    (tmp_path / "one" / "a").mkdir(parents=True)
    (tmp_path / "one" / "a" / "x").write_text("x")
    (tmp_path / "a").write_text("1")
    add(layout, tmp_path / "a")
    add(layout, tmp_path / "one" / "a")
    assert files_of(layout) == {"a": "1", "a~2/x": "x"}


def test_an_empty_folder_and_an_empty_file_are_artifacts(layout: RunLayout, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    (tmp_path / "void").touch()
    add(layout, tmp_path / "nothing")
    add(layout, tmp_path / "void")
    assert [(item.name, len(item.files), item.bytes) for item in read_artifacts(layout, [])] == [
        ("nothing", 0, 0),
        ("void", 1, 0),
    ]
    assert (layout.artifacts / "nothing").is_dir()


def test_two_writers_take_two_versions(layout: RunLayout, tmp_path: Path) -> None:
    """A copy that another writer put in place meanwhile is never replaced."""
    (tmp_path / "a").write_text("mine")
    layout.artifacts.mkdir()
    (layout.artifacts / "a").write_text("another's, not in the list yet")
    (layout.artifacts / "a~2").mkdir()
    made = add(layout, tmp_path / "a")
    assert made is not None
    assert (made.version, made.path) == (3, "artifacts/a~3")


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def link_out(path: Path) -> None:
    path.symlink_to("../../outside.txt")


def link_up(path: Path) -> None:
    path.symlink_to("..")


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (make_fifo, "neither file nor folder"),
        (link_out, "leads out"),
        (link_up, "a folder that it is in"),
        (link_to_nothing, "cannot be read"),
        (link_to_device, "leads out"),
    ],
)
def test_what_is_no_content_of_the_folder_is_refused_whole(
    layout: RunLayout, tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    top = tmp_path / "top" / "sub"
    top.mkdir(parents=True)
    (top / "good.txt").write_text("good")
    make(top / "odd")
    with pytest.raises(BadInput, match=words):
        add(layout, tmp_path / "top")
    assert not layout.artifacts.exists()
    assert read_artifacts(layout, []) == ()


def test_no_path_and_no_file_is_refused(layout: RunLayout, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        add(layout, tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="neither file nor folder"):
        add(layout, tmp_path / "pipe")
    with pytest.raises(BadInput, match="a name is empty"):
        add_artifact(layout, "", [], attempt=1)


def test_the_store_is_no_artifact_of_itself(layout: RunLayout, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    add(layout, tmp_path / "a")
    for path in (layout.root, layout.root.parent, layout.artifacts / "a"):
        with pytest.raises(BadInput, match="the store itself"):
            add(layout, path, "b")
    assert files_of(layout) == {"a": "1"}


def test_too_many_files_are_refused(
    layout: RunLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "MAX_FILES", 3)
    (tmp_path / "top").mkdir()
    for number in range(4):
        (tmp_path / "top" / str(number)).touch()
    with pytest.raises(BadInput, match="more than 3 files"):
        add(layout, tmp_path / "top")


def test_a_full_disk_leaves_no_half_copy(
    layout: RunLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    for name in "ab":
        (top / name).write_text(name)
    real = artifacts._streamed
    seen: list[int] = []

    def refuse(*args: Any) -> tuple[int, str]:
        seen.append(1)
        if len(seen) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args)

    monkeypatch.setattr(artifacts, "_streamed", refuse)
    monkeypatch.setattr(artifacts, "_shared", lambda *args: None)
    with pytest.raises(OSError, match="space"):
        add(layout, top)
    assert list(layout.artifacts.iterdir()) == []
    add(layout, top)
    assert files_of(layout) == {"top/a": "a", "top/b": "b"}


def test_a_file_that_became_something_else_is_not_waited_for(
    layout: RunLayout, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_text("1")
    found = sources(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BadInput, match="no file any more"):
        add_artifact(layout, "a", found, attempt=1)
    path.unlink()
    with pytest.raises(BadInput, match="cannot be read"):
        add_artifact(layout, "a", found, attempt=1)
    assert list(layout.artifacts.iterdir()) == []


def test_damaged_lines_are_named_and_the_rest_is_read(layout: RunLayout, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    add(layout, tmp_path / "a")
    line = json.loads(layout.artifacts_jsonl.read_text())
    with layout.artifacts_jsonl.open("a") as file:
        file.write(json.dumps({**line, "name": 3}) + "\nno json\n")
        file.write(json.dumps({**line, "name": "b", "of": "a later expdb"}) + '\n{"name": "torn')
    problems: list[str] = []
    assert [item.name for item in read_artifacts(layout, problems)] == ["a", "b"]
    assert problems == [
        "artifacts.jsonl: line 2 is damaged",
        "artifacts.jsonl: line 3 is damaged",
    ]


def test_a_source_that_cannot_be_read_is_the_source_fault(
    layout: RunLayout, tmp_path: Path
) -> None:
    """The memory of this process is a file whose first page nobody can read: EIO."""
    with pytest.raises(BadInput, match="'mem' cannot be read"):
        add(layout, Path("/proc/self/mem"))
    assert list(layout.artifacts.iterdir()) == []
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    deep = tmp_path / "deep" / "/".join("d" * 205)
    deep.mkdir(parents=True)
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "loop").symlink_to("loop")
    for path, words in (
        (loop, "neither file nor folder"),
        (Path("a\0b"), "neither file nor folder"),
        (tmp_path / ("x" * 300), "cannot be read"),
        (tmp_path / "deep", "200 folders deep"),
        (tmp_path / "top", "'loop' "),
    ):
        with pytest.raises(BadInput, match=words):
            sources(path)
