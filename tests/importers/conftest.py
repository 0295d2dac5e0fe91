"""Stores to import into, and the public files, where they lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from expdb.importers.results import ImportedFile
from expdb.importers.wanted import wanted_of
from expdb.importers.writing import import_file
from expdb.index.reader import open_reader
from expdb.model import Run
from expdb.query.sql import answer
from expdb.store.runs import find_run_dir, read_run
from expdb.store.store import Store, open_store

CASES = Path(
    os.environ.get("EXPDB_CASES") or Path(__file__).parents[2].parent / "shared" / "cases" / "files"
)


class Place:
    """A store, and what is asked of it."""

    def __init__(self, root: Path) -> None:
        self.store: Store = open_store(root, create=True)
        self.root = root

    def take(self, path: Path, **said: Any) -> ImportedFile:
        """Import a file."""
        return import_file(self.store, path, wanted_of(**said))

    def run(self, run: str) -> Run:
        """Return a run as its folder describes it."""
        return read_run(find_run_dir(self.root, run), store_root=self.root)

    def ask(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        """Return the rows that an SQL statement answers."""
        with open_reader(self.store, build=False) as reader:
            return [tuple(row.values()) for row in answer(reader, statement, params).to_pylist()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "runs")


@pytest.fixture
def other(tmp_path: Path) -> Place:
    return Place(tmp_path / "elsewhere")


@pytest.fixture(scope="session")
def cases() -> Path:
    """The folder of the public files; without it the test is skipped."""
    if not CASES.is_dir():
        pytest.skip("no public files: EXPDB_CASES names no folder, and ../shared/cases has none")
    return CASES
