"""A store that cannot be written can be read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from expdb.store.store import Store
from tests.index.indexed import IDS, finished, shown
from tests.query.made import make_store, write_run

LIST_AS_STRANGER = """
import os, sys
from pathlib import Path
import duckdb, pyarrow
import expdb.index.update
from expdb.index.reader import open_reader
from expdb.store.store import open_store

if os.getuid() == 0:  # root may write anywhere; imports come first, for its Python may be its own
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with open_reader(open_store(Path(sys.argv[1]))) as reader:
    print(reader.rows("SELECT count(*) FROM runs")[0][0], *reader.warnings, sep="\\n")
"""


def list_as_stranger(store: Store, cache: Path) -> list[str]:
    """List the runs in a process that may read the store and not write it."""
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LIST_AS_STRANGER, str(store.root)],
        env=env, cwd=Path(__file__).parents[2], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that another user can reach, if tests run as root."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


def test_a_store_that_cannot_be_written_is_indexed_in_the_cache_folder(shared: Path) -> None:
    store = make_store(shared / "runs")
    write_run(store, finished(IDS[0]))
    cache = shared / "cache"
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    if os.getuid() != 0:
        store.root.chmod(0o555)
        store.layout.meta.chmod(0o555)
    said = list_as_stranger(store, cache)
    assert said[0] == "1"
    assert "cannot be written; its index is kept in your cache folder" in said[1]
    assert list((cache / "expdb" / store.id / "index").glob("gen-*.duckdb"))
    assert not store.layout.index.exists()
    nowhere = shared / "nowhere"
    nowhere.mkdir(mode=0o555)
    said = list_as_stranger(store, nowhere)
    assert said[0] == "1"
    assert "the index cannot be written: no permission" in said


def test_the_index_of_a_store_is_used_by_who_cannot_write_it(shared: Path) -> None:
    store = make_store(shared / "runs")
    write_run(store, finished(IDS[0]))
    shown(store)
    if os.getuid() != 0:
        store.root.chmod(0o555)
        store.layout.meta.chmod(0o555)
    cache = shared / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    assert list_as_stranger(store, cache) == ["1"]
    assert not list(cache.iterdir())
