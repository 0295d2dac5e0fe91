from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.train.project import Project, copy_project


@dataclass(frozen=True)
class Trained:
    """A project in which baseline and exp01 were trained in one sweep, and what that printed."""

    project: Project
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Train once for all workers of the test run; tests only read it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    top, out, err = (folder / f"trained{end}" for end in ("", ".out", ".err"))
    with _alone(folder / "trained.lock"):
        if not err.exists():
            with pytest.MonkeyPatch.context() as patch:
                for role in ("AUTHOR", "COMMITTER"):
                    patch.setenv(f"GIT_{role}_NAME", "Ada")
                    patch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")
                top.mkdir()
                done = copy_project(top).train("-m", "+exp=baseline,exp01")
            out.write_text(done.stdout)
            err.write_text(done.stderr)
    return Trained(Project(top), out.read_text(), err.read_text())


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def trained(sweep: Trained) -> Project:
    """The project of the sweep."""
    return sweep.project
