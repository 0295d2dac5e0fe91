"""What every test has: an environment of its own, an empty store, and run folders in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from expdb.store import owner
from expdb.store.files import write_json
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.status import Status, write_status
from expdb.store.store import open_store
from tests.faults import counting

OURS = ("EXPDB_", "SLURM_", "TORCHELASTIC_", "GIT_", "HYDRA_")
LAUNCH = (
    "RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
    "MASTER_PORT",
)  # fmt: skip
KEPT = ("EXPDB_UPDATE_GOLDEN",)

settings.register_profile("expdb", deadline=None)  # no test measures time
settings.load_profile("expdb")

MakeRun = Callable[..., RunLayout]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the trainings first, so that no worker is left with one at the end."""
    items.sort(key=lambda item: item.path.parent.name != "train")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what the faults of tests/faults did; here, for the process that only gives out tests has
    no conftest.py of a folder below.
    """
    said = counting.line(item for items in terminalreporter.stats.values() for item in items)
    if said:
        terminalreporter.write_line(said)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's store, launcher or git reaches a test."""
    for name in list(os.environ):
        if (name.startswith(OURS) or name in LAUNCH) and name not in KEPT:
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")


@pytest.fixture
def store_root(tmp_path: Path) -> Path:
    """An empty store."""
    return open_store(tmp_path / "runs", create=True).root


@pytest.fixture
def make_run_dir(store_root: Path) -> MakeRun:
    """Make the folder of a run: identity, one attempt, status.

    `who` is the owner of the attempt: this process unless given; None writes no owner. `state=None`
    writes no status.
    """

    def make(
        state: str | None = "running",
        *,
        run: str | None = None,
        who: dict[str, Any] | str | None = "me",
        **identity: Any,
    ) -> RunLayout:
        run = run or new_id()
        layout = RunLayout(StoreLayout(store_root).run_dir("baseline", run))
        layout.attempt(1).mkdir(parents=True)
        body = {"format": 1, "id": run, "experiment": "baseline", **identity}
        write_json(layout.run_json, body, durable=False)
        if who is not None:
            known = owner.describe() if who == "me" else who
            write_json(layout.attempt(1) / "owner.json", known, durable=False)
        if state is not None:
            write_status(layout, Status(state=state), durable=False)
        return layout

    return make


@pytest.fixture
def dead() -> dict[str, Any]:
    """The identity of a process of this host that is gone."""
    return {**owner.describe(), "start": -1}
