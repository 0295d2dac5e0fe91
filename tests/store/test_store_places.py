"""A store wherever a person may put it: letters that mean something to SQL, globs, shells, URLs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.actions.fsck import fsck
from expdb.actions.restore import restore
from expdb.actions.rm import plan_removal, remove
from expdb.actions.tag import add_tag
from expdb.errors import BadInput
from expdb.index.reader import open_reader
from expdb.query.lookup import lookup
from expdb.query.sql import answer
from expdb.store.store import open_store
from tests.query.made import make_run, write_run

BASE = "k3f9x2m7qd"
NAMES = (
    "?mode=ro", "a'b", "a\nb", "a[b]*", "a\\b", "é:&=~", "a?b", "a#b", "a%41b", "a b", 'a"b',
    "a;b$c`d", "{a,b}", "exp=x", "-C", "n" * 200 + "?",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [*NAMES[:6], *(pytest.param(name, marks=pytest.mark.soak) for name in NAMES[6:])],
    ids=ascii,
)
def test_a_store_works_in_a_folder_of_any_name(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    root = tmp_path / name / "runs"
    root.parent.mkdir()
    quiet = {"expdb": {"print": "quiet"}}
    with expdb.start(quiet, store=root, name="exp01", objective="val/loss") as run:
        for step in range(3):
            run.log({"val/loss": 1.0 / (step + 1)}, step=step)
        run.log_text("samples", "one", step=2)
    store = open_store(root)
    write_run(store, make_run(BASE, points={"val/loss": {1: 2.5}}), points={"val/loss": {1: 2.5}})
    for texts in (1, 2):  # an index made from nothing, then from the one before
        with open_reader(store) as reader:
            assert reader.warnings == ()
            rows = answer(reader, "SELECT step FROM points ORDER BY ALL").to_pylist()
            assert [row["step"] for row in rows] == [0, 1, 1, 2]
            assert answer(reader, "SELECT text FROM texts").num_rows == texts
            add_tag(reader, f"kept{texts}", lookup(reader, BASE))
        with expdb.attach("exp01", store=root) as other:
            other.log_text("why", "because")
    with open_reader(store) as reader:
        assert remove(reader, plan_removal(reader, [lookup(reader, "exp01").run])).runs
        assert restore(reader).runs
    assert [item.what for item in fsck(store).problems] == []
    assert os.listdir(tmp_path) == [name]
    assert os.listdir(root.parent) == ["runs"]


def test_an_odd_place_has_an_index_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the cache folder; in memory, where that has an odd name too."""
    store = open_store(tmp_path / "a?b", create=True)
    write_run(store, make_run(BASE, value=1.0))
    for cache, kept in ((tmp_path / "cache", 1), (tmp_path / "c?", 0)):
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        for _ in range(2):
            with open_reader(store) as reader:
                assert reader.run(BASE).id == BASE
                assert reader.rows("SELECT id FROM runs") == [(BASE,)]
        assert len(list(cache.rglob("gen-*.duckdb"))) == kept


def test_a_place_that_is_not_utf8_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"a\xffb")
    for act in (lambda: open_store(root, create=True), lambda: expdb.start({}, store=root)):
        with pytest.raises(BadInput, match="is not UTF-8"):
            act()
    assert os.listdir(tmp_path) == []
