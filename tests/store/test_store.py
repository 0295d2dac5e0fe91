from __future__ import annotations

import multiprocessing
import os
import re
from pathlib import Path
from typing import Any

import pytest

from expdb.errors import BadInput, Corrupt, NotFound, Unsupported
from expdb.store.files import read_json, write_json
from expdb.store.ids import is_id
from expdb.store.layout import StoreLayout
from expdb.store.store import open_store


def test_a_store_is_made_once_and_opened_again(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "runs"
    made = open_store(root, create=True)
    assert is_id(made.id)
    assert made.root == root
    assert made.writable
    assert (root / ".gitignore").read_text() == "*\n"
    assert read_json(made.layout.store_json) == {"format": 1, "needs": "0.1.0", "id": made.id}
    for again in (open_store(root), open_store(root, create=True)):
        assert again.id == made.id


def test_the_users_own_gitignore_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    open_store(tmp_path, create=True)
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


def test_no_store_is_said_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no store in"):
        open_store(tmp_path / "runs")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("x")
    with pytest.raises(NotFound):
        open_store(tmp_path / "runs")
    with pytest.raises(Corrupt, match="a part of the path is a file"):
        open_store(tmp_path / "runs", create=True)


def test_the_top_of_a_repository_is_no_place_for_a_store(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(BadInput, match="top folder of a git repository"):
        open_store(tmp_path, create=True)
    assert [item.name for item in tmp_path.iterdir()] == [".git"]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b'{"format":1}', b'{"format":"1","id":"x"}', b'{"format":1,"id":5}'],
)
@pytest.mark.parametrize("create", [False, True])
def test_a_damaged_store_is_named_and_not_made_again(
    store_root: Path, data: bytes, create: bool
) -> None:
    path = StoreLayout(store_root).store_json
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=r"store\.json") as caught:
        open_store(store_root, create=create)
    assert str(path) in caught.value.hints[0]
    assert path.read_bytes() == data


def test_a_newer_store_is_refused_by_what_it_needs(store_root: Path) -> None:
    path = StoreLayout(store_root).store_json
    write_json(path, {"format": 9, "needs": "4.5.6"})
    for create in (False, True):
        with pytest.raises(
            Unsupported, match=r"has format 9; this expdb 0\.1\.0 reads formats up to 1"
        ) as e:
            open_store(store_root, create=create)
        assert re.search(r"needs expdb 4\.5\.6 or newer", e.value.hints[0])


def _open(root: Path, out: Any) -> None:
    out.put(open_store(root, create=True).id)


def test_many_make_one_store(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    for number in range(5):
        root, out = tmp_path / str(number), fork.SimpleQueue()
        children = [fork.Process(target=_open, args=(root, out)) for _ in range(4)]
        for child in children:
            child.start()
        ids = {out.get() for _ in children}
        for child in children:
            child.join()
        assert ids == {open_store(root).id}


def test_the_name_of_a_store_is_the_shorter_one(
    tmp_path: Path, store_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(store_root)
    monkeypatch.chdir(tmp_path)
    assert store.name == "runs"
    monkeypatch.chdir("/proc/self/fd")
    assert store.name == str(store_root)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert store.name == str(store_root)
    os.chdir(tmp_path)
