from __future__ import annotations

import pytest

from tests.train.project import Project, copy_project


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project in which baseline and exp01 were trained; tests only read it."""
    with pytest.MonkeyPatch.context() as patch:
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "Ada")
            patch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")
        project = copy_project(tmp_path_factory.mktemp("trained"))
        project.train("+exp=baseline")
        project.train("+exp=exp01")
    return project
