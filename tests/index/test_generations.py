"""Generations come, are kept and go, whoever else is at work in the store."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from expdb.errors import NotFound
from expdb.index import build as building
from expdb.index import connect
from expdb.index.generations import Generations
from expdb.index.reader import open_reader
from expdb.store.folders import scan_stamps
from expdb.store.store import Store, open_store
from tests.index.indexed import IDS, finished, generations, shown, values
from tests.query.made import make_store, write_run

LONG_AGO = time.time() - 2 * 3600


def stamps_of(path: Path) -> tuple[set[str], set[str]]:
    """Return what a generation says that it holds, and what its runs say."""
    con = connect.open_file(path)
    try:
        said = set(connect.meta(con)["stamps"].split())
        rows = con.execute("SELECT id || ':' || version FROM gen.runs").fetchall()
        return said, {row[0] for row in rows}
    finally:
        con.close()


def test_a_generation_says_what_it_holds_whatever_changed(store: Store) -> None:
    for run in IDS[:3]:
        write_run(store, finished(run))
    shown(store)
    write_run(store, finished(IDS[0], 1.7))
    shutil.rmtree(store.layout.run_dir("baseline", IDS[1]))
    write_run(store, finished(IDS[3], 1.5))
    shown(store)
    for path in generations(store):
        said, held = stamps_of(path)
        assert said == held
        assert len(said) == 3
    assert said == {stamp for _, stamps in scan_stamps(store.root) for stamp in stamps}
    for run in IDS[:4]:
        shutil.rmtree(store.layout.run_dir("baseline", run), ignore_errors=True)
    assert shown(store) == {}
    assert stamps_of(generations(store)[-1]) == (set(), set())


def test_a_generation_that_does_not_say_what_it_holds_is_not_used(store: Store) -> None:
    write_run(store, finished(IDS[0]))
    shown(store)
    path = generations(store)[0]
    with duckdb.connect(str(path)) as con:
        con.execute("DELETE FROM gen.meta WHERE key = 'stamps'")
        con.execute("UPDATE gen.runs SET value = 0")
    (store.layout.index / "CURRENT").write_text(
        f'{{"name": "{path.name}", "bytes": {path.stat().st_size}}}'
    )
    assert shown(store) == {IDS[0]: 1.848}


def test_what_a_killed_builder_left_goes_after_an_hour_and_not_before(store: Store) -> None:
    write_run(store, finished(IDS[0]))
    shown(store)
    old, young = (store.layout.index / f".tmp-gen-{name}.duckdb" for name in ("old", "young"))
    wal = old.with_name(f"{old.name}.wal")
    for path in (old, young, wal):
        path.write_bytes(b"half")
    for path in (old, wal):
        os.utime(path, (LONG_AGO, LONG_AGO))
    write_run(store, finished(IDS[1]))
    shown(store)
    assert young.exists()
    assert not old.exists()
    assert not wal.exists()


def test_a_generation_that_cannot_be_removed_hinders_nobody(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder with the sticky bit only the owner of a file may remove it."""
    for at in range(5):
        write_run(store, finished(IDS[0], float(at)))
        shown(store)
    for path in generations(store)[:4]:
        os.utime(path, (LONG_AGO, LONG_AGO))
    theirs = generations(store)[0]
    unlink = Path.unlink

    def refused(path: Path, missing_ok: bool = False) -> None:
        if path == theirs:
            raise PermissionError(1, "Operation not permitted")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    write_run(store, finished(IDS[0], 5.0))
    with open_reader(store) as reader:
        assert values(reader) == {IDS[0]: 5.0}
        assert reader.warnings == ()
    assert theirs in generations(store)
    assert len(generations(store)) == 4


def test_collecting_twice_at_once_is_no_error(store: Store) -> None:
    for at in range(5):
        write_run(store, finished(IDS[0], float(at)))
        shown(store)
    (store.layout.index / "gen-1-0.duckdb").symlink_to("nowhere")  # gone since it was listed
    for path in generations(store)[:4]:
        if not path.is_symlink():
            os.utime(path, (LONG_AGO, LONG_AGO))
    assert Generations(store.layout.index).collect()
    assert shown(store) == {IDS[0]: 4.0}


def test_an_index_that_another_user_keeps_closed_is_kept_in_the_cache_folder(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(store, finished(IDS[0]))
    shown(store)
    kept = generations(store)
    access = os.access
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode: path != store.layout.index and access(path, mode),
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with open_reader(store) as reader:  # current: read where it is
        assert (values(reader), reader.warnings) == ({IDS[0]: 1.848}, ())
    write_run(store, finished(IDS[1], 1.5))
    with open_reader(store) as reader:
        assert values(reader) == {IDS[0]: 1.848, IDS[1]: 1.5}
        assert "the index of the store" in reader.warnings[0]
        assert "is kept in your cache folder" in reader.warnings[0]
    with open_reader(store) as reader:
        assert (values(reader), reader.warnings) == ({IDS[0]: 1.848, IDS[1]: 1.5}, ())
    assert generations(store) == kept
    assert list((tmp_path / "cache" / "expdb" / store.id / "index").glob("gen-*.duckdb"))


def test_a_store_removed_under_a_reader_is_answered_from_its_generation(store: Store) -> None:
    for run in IDS[:3]:
        write_run(store, finished(run))
    with open_reader(store) as reader:
        shutil.rmtree(store.root)
        assert set(values(reader)) == set(IDS[:3])
        assert len(reader.rows("SELECT * FROM params")) == 6
        with pytest.raises(NotFound):
            reader.run(IDS[0])
    with pytest.raises(NotFound, match="is gone"):
        open_reader(store)


def test_a_store_replaced_under_a_reader_is_another_store(store: Store, tmp_path: Path) -> None:
    write_run(store, finished(IDS[0]))
    shown(store)
    other = make_store(tmp_path / "other")
    write_run(other, finished(IDS[1], 1.5))
    shown(other)
    aside = tmp_path / "aside"
    with open_reader(store) as reader:
        store.root.rename(aside)
        other.root.rename(store.root)
        assert values(reader) == {IDS[0]: 1.848}
    assert shown(open_store(store.root)) == {IDS[1]: 1.5}
    # A generation of the former store in the place of the new one's is not believed.
    for path in (store.layout.index).iterdir():
        path.unlink()
    shutil.copytree(aside / ".expdb" / "index", store.layout.index, dirs_exist_ok=True)
    assert shown(open_store(store.root)) == {IDS[1]: 1.5}


@pytest.mark.parametrize("has_base", [True, False])
@pytest.mark.parametrize("where", ["publish", "insert"])
def test_where_no_generation_can_be_written_all_is_shown_from_memory(
    store: Store, has_base: bool, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_base:
        write_run(store, finished(IDS[0]))
        shown(store)
    write_run(store, finished(IDS[1], 1.5))
    before = generations(store)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if where == "publish":
            patch.setattr(Generations, "publish", full)
        else:
            patch.setattr(building, "write_meta", full_once(full))
        with open_reader(store) as reader:
            expected = {IDS[1]: 1.5} | ({IDS[0]: 1.848} if has_base else {})
            assert values(reader) == expected
            assert reader.rows("SELECT count(*) FROM params") == [(2 * len(expected),)]
            assert any("no space left" in warning for warning in reader.warnings)
    assert generations(store) == before
    assert not list(store.layout.index.glob(".tmp-*"))
    with open_reader(store) as reader:
        assert (values(reader), reader.warnings) == (expected, ())
    assert len(generations(store)) == len(before) + 1


def full_once(fail: Callable[..., None]) -> Callable[..., None]:
    """Fail in the file, and not in memory, where the same is written next."""
    write = building.write_meta
    left = [fail]

    def call(*args: Any, **named: Any) -> None:
        (left.pop() if left else write)(*args, **named)

    return call


def test_a_generation_of_a_copied_store_has_no_holes(store: Store, tmp_path: Path) -> None:
    """Every file of a copy has another inode, so every run is another to the index."""
    for run in IDS:
        write_run(store, finished(run, points={"train/loss": {step: 1.0 for step in range(50)}}))
    shown(store)
    copy = tmp_path / "copy"
    shutil.copytree(store.root, copy)
    moved = open_store(copy)
    assert shown(moved) == dict.fromkeys(IDS, 1.848)
    con = connect.open_file(generations(moved)[-1])
    assert connect.meta(con)["age"] == "0"
    assert con.execute("SELECT count(*), max(rowid) FROM gen.series").fetchall() == [
        (2 * len(IDS), 2 * len(IDS) - 1)
    ]
    con.close()
