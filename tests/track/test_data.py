"""What stands for the data of a run: digests of files, folders, datasets; two kinds never equal."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from expdb.errors import BadInput
from expdb.track import data
from expdb.track.data import describe_data


class Dataset:
    """What a dataset of the `datasets` library is asked for."""

    builder_name = "wikitext"
    dataset_size = 1000

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "corpus"
    (top / "b").mkdir(parents=True)
    (top / "b" / "one.txt").write_text("one")
    (top / "a.txt").write_text("two")
    return top


def digest(what: Any) -> str:
    return str(describe_data(what)["digest"])


def test_a_folder_is_known_by_the_content_of_its_files(folder: Path) -> None:
    found = describe_data(folder)
    lines = [[name, 3, hashlib.sha256(text.encode()).hexdigest()]
             for name, text in (("a.txt", "two"), ("b/one.txt", "one"))]  # fmt: skip
    wanted = hashlib.sha256(json.dumps(lines).encode()).hexdigest()
    assert found == {
        "name": "corpus", "digest": f"tree-sha256:{wanted}", "bytes": 6, "files": 2,
    }  # fmt: skip
    assert describe_data(f"{folder}/") == found
    before = found["digest"]
    os.utime(folder / "a.txt", (1, 1))
    (folder / "empty").mkdir()
    assert digest(folder) == before
    (folder / "a.txt").write_text("2wo")
    changed = digest(folder)
    (folder / "a.txt").rename(folder / "c.txt")
    assert len({before, changed, digest(folder)}) == 3


def test_links_are_followed_and_a_loop_ends(folder: Path, tmp_path: Path) -> None:
    plain = digest(folder)
    (folder / "up").symlink_to("..")
    (folder / "self").symlink_to(".")
    (folder / "gone").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    (folder / "up").unlink()
    assert digest(folder) == plain
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("x")
    (folder / "linked").symlink_to("../other")
    assert describe_data(folder)["files"] == 3


def test_what_is_too_large_is_known_by_its_ends(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "WHOLE_BYTES", 5)
    monkeypatch.setattr(data, "EDGE", 4)
    path = tmp_path / "tokens.bin"
    found = set()
    contents = ("abcdxxxxefgh", "abcdyyyyefgh", "abcdxxxxefgi", "abXdxxxxefgh", "abcdefgh")
    for content in map(str.encode, contents):
        path.write_bytes(content)
        found.add(digest(path))
    assert len(found) == 4  # the middle is not looked at
    assert all(item.startswith("sample-sha256:") for item in found)
    assert digest(folder).startswith("sample-sha256:")
    path.write_bytes(b"abcde")
    assert digest(path) == f"sha256:{hashlib.sha256(b'abcde').hexdigest()}"


def test_a_dataset_has_a_fingerprint_of_its_own() -> None:
    assert describe_data(Dataset("abc")) == {
        "name": "wikitext", "digest": "fingerprint:abc", "bytes": 1000,
    }  # fmt: skip
    assert describe_data(Dataset("abc"), num_bytes=7)["bytes"] == 7
    both = {"train": Dataset("a"), "val": Dataset("b")}
    assert digest(both) == digest(dict(reversed(both.items())))
    assert digest(both) != digest({"train": Dataset("b"), "val": Dataset("a")})
    assert describe_data(both)["name"] == "dict"


def test_a_given_digest_is_taken_as_it_is() -> None:
    assert describe_data("s3://b/x", digest="sha256:1", num_bytes=5) == {
        "name": "s3://b/x", "digest": "sha256:1", "bytes": 5,
    }  # fmt: skip
    assert describe_data(Dataset(""), digest="d")["name"] == "wikitext"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("nowhere", "not a file or folder"),
        (3, "the data 'int' have no digest"),
        (Dataset(""), "'wikitext' have no digest"),
        ({}, "'dict' have no digest"),
        ({"train": Dataset("a"), "val": 3}, "'dict' have no digest"),
    ],
)
def test_what_has_no_digest_is_refused(what: Any, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        describe_data(what)
    assert words in caught.value.message


def test_a_folder_without_a_file_or_with_too_many_is_refused(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="without a file"):
        describe_data(tmp_path / "empty")
    monkeypatch.setattr(data, "MAX_FILES", 1)
    with pytest.raises(BadInput, match="more than 1 files"):
        describe_data(folder)
