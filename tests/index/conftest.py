from __future__ import annotations

from pathlib import Path

import pytest

from expdb.store.store import Store
from tests.query.made import make_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path / "runs")
