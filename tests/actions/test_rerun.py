"""`rerun`: the recorded command as a new run, and what differs from then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from expdb.actions.rerun import plan_rerun
from expdb.actions.resume import plan_resume
from expdb.errors import BadInput, Refused
from expdb.git.snapshot import take_pin
from expdb.index.reader import open_reader
from expdb.query.lookup import lookup

if TYPE_CHECKING:
    from conftest import World

    from expdb.actions.results import RerunPlan


def plan(world: World, run: str, *overrides: str) -> RerunPlan:
    with open_reader(world.store) as reader:
        return plan_rerun(reader, lookup(reader, run), overrides)


def test_the_recorded_command_with_overrides_in_the_place_of_equal_ones(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    recorded = ["python", "train.py", "+exp=exp01", "seed=1", "expdb.fork=k3f9@300"]
    recorded += ["+expdb.resume=x", "++expdb.assume_dead=true", "expdb.store=runs", "~model.bias"]
    run = world.run("exp01", command=recorded)
    kept = ("python", "train.py", "+exp=exp01")
    found = plan(world, run)
    assert found.argv == (*kept, "seed=1", "expdb.store=runs", "~model.bias")
    assert found.cwd == str(world.top)
    assert plan(world, run, "seed=2", "optim.lr=0.1", "~model.norm").argv == (
        *kept, "expdb.store=runs", "~model.bias", "seed=2", "optim.lr=0.1", "~model.norm",
    )  # fmt: skip
    with pytest.raises(BadInput, match="without a step") as caught:
        plan(world, f"{run}@300", "seed=2")
    assert caught.value.hints == (
        f"from its weights: expdb rerun {run[:4]} expdb.fork={run[:4]}@300",
    )
    for bad, said in (("-m", "is an option"), ("seed", "is no override"), ("\x1b", r"\\x1b is no")):
        with pytest.raises(BadInput, match=said):
            plan(world, run, bad)


def test_it_refuses_what_resume_refuses(world: World) -> None:
    cases = {
        "is no Python script": ["bash", "-c", "x"],
        "without its secret": ["python", "train.py", "key=<redacted>"],
        "one job of a sweep": ["python", "train.py", "-m", "seed=0,1"],
        "is not found from here": ["python", "gone.py"],
        "has no recorded command": [],
    }
    pin = take_pin(world.worktree, store_root=world.store.root)
    runs = {said: world.run(command=cases[said], state="failed", pin=pin) for said in cases}
    with open_reader(world.store) as reader:
        for said, run in runs.items():
            with pytest.raises(Refused, match=said) as again:
                plan_rerun(reader, lookup(reader, run))
            with pytest.raises(Refused, match=said) as resumed:
                plan_resume(reader, lookup(reader, run))
            assert again.value.message == resumed.value.message
            assert "expdb.resume" not in "".join(again.value.hints)


def test_it_says_what_code_differs_and_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.top)
    settings = {"code": {"exclude": ["outputs/", "*.log"], "secret_files": [".env"]}}
    run = world.run(settings=settings)
    assert plan(world, run).code == ""
    world.write({"outputs/a/x.txt": "1", "train.log": "1", ".env": "1"})
    assert plan(world, run).code == ""
    world.write({"train.py": "lr = 2\n", "model.py": None, "new.py": "", "other.py": ""})
    code = plan(world, run).code
    assert code.startswith("the code differs from tree ")
    assert code.endswith(" of the run: model.py, train.py, new.py and 1 more")
