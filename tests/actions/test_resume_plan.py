"""`resume` runs only what `start()` records: a Python script that is not the store's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from expdb.actions.resume import plan_resume
from expdb.errors import Refused
from expdb.query.lookup import lookup

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import World

    from expdb.actions.results import ResumePlan


def plan(world: World, run: str) -> ResumePlan:
    with world.reader() as reader:
        return plan_resume(reader, lookup(reader, run))


def test_the_script_of_the_work_tree_is_run(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    run = world.run(state="failed")
    found = plan(world, run)
    assert found.argv == ("python", "train.py", "+exp=baseline", f"expdb.resume={run}")
    assert found.cwd == str(world.top)


@pytest.mark.parametrize(
    "command",
    [
        ["rm", "-rf", "train.py"],
        ["/tmp/python", "train.py"],
        ["bash", "-c", "python train.py"],
        ["python", "-c", "import os"],
        ["python", "-m", "evil.py"],
        ["python", "-", "train.py"],
        ["python", "tools/run.sh"],
        ["python"],
    ],
)
def test_any_other_command_is_refused(world: World, command: list[str]) -> None:
    run = world.run(state="failed", command=command)
    with pytest.raises(Refused, match="is no Python script") as caught:
        plan(world, run)
    assert "run it yourself" in caught.value.hints[0]


def test_a_script_that_came_with_the_store_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = world.store.root / "evil.py"
    evil.write_text("")
    (world.top / "link.py").symlink_to(evil)
    monkeypatch.chdir(world.top)
    for script in ("runs/evil.py", str(evil), "link.py", "tools/../runs/evil.py"):
        run = world.run(state="failed", command=["python", script])
        with pytest.raises(Refused, match="lies in the store itself"):
            plan(world, run)
