"""`show --health`: of a healthy run, of one with trouble, of one that failed."""

from __future__ import annotations

import importlib
import json
import math
import random
import shlex
from pathlib import Path

import click
import pytest

import expdb
from expdb.cli.verbs import all_verbs
from expdb.query.health_table import CAUSES, REPEAT


def train(store: Path, name: str, bad: dict[int, float], *, end: str = "finish") -> str:
    """Log as a loop does; at the steps of `bad` the loss is higher. Returns the id."""
    settings = {"print": "quiet", "dirty": "allow"}
    run = expdb.start({"seed": 1, "expdb": settings}, name=name, store=store)
    draw = random.Random(0)
    for step in range(180):
        high = bad.get(step, 0.0)
        norm = 9.0 if high else 0.25 * math.exp(draw.gauss(0.0, 0.05))
        values = {"train/loss": draw.gauss(2.0, 0.03) + high, "train/grad_norm": norm}
        run.log({**values, "train/lr": 1e-3}, step=step)
    if end == "finish":
        run.finish()
    else:
        run.fail("ValueError: no such file")
    return run.id


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("health") / "runs"


@pytest.fixture(scope="module")
def sick(store: Path) -> str:
    return train(store, "exp04", {150: 4.0, 151: 4.0})


def test_a_run_with_trouble_has_its_causes_and_the_next_commands(here, store, sick):
    done = here("--store", str(store), "show", sick, "--health")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("exp04  ")
    assert lines[-1] == "likely  a bad batch"
    assert any("the loss was back at 152" in line for line in lines)
    assert f"repeat:    expdb probe repro {sick[:4]}" in done.err
    assert f"look:      expdb events {sick[:4]}@150" in done.err  # it has no checkpoint


def test_for_programs_and_for_scripts(here, store, sick):
    data = json.loads(here("--store", str(store), "show", sick, "--health", "--json").out)
    assert (data["id"], data["verdict"], data["looked_by"]) == (sick, "likely", "live")
    assert data["causes"][0]["area"] == "data"
    assert {one["rule"] for one in data["events"]} >= {"loss_spike", "grad_spike"}
    assert here("--store", str(store), "show", sick, "--health", "-q").out == f"{sick}\n"


def test_a_healthy_run_and_a_failed_one(here, store):
    well = train(store, "baseline", {})
    done = here("--store", str(store), "show", well, "--health")
    assert done.out.splitlines()[-1].startswith("healthy  ")
    assert "expdb " not in done.err
    failed = train(store, "broken", {}, end="fail")
    done = here("--store", str(store), "show", failed, "--health")
    assert done.out.splitlines()[-1] == "likely  the script raised an error"
    assert f"log:       expdb path {failed[:4]} log" in done.err


def test_every_command_that_it_prints_is_one() -> None:
    filled = {
        "run": "e7s5",
        "good": 100,
        "step": 151,
        "skip": 52,
        "healthy": "k3f9",
        "started": "e7s5",
    }
    commands = {row["command"] for row in CAUSES.values()} | {REPEAT}
    for command in commands:
        words = shlex.split(command.format(**filled))
        assert words[0] == "expdb"
        assert words[1] in all_verbs(), command
        found = verb_of(words[1])
        if isinstance(found, click.Group):
            found = found.commands[words.pop(2)]
        options = {name for one in found.params for name in one.opts if name.startswith("--")}
        assert {word for word in words if word.startswith("--")} <= options, command


def verb_of(name: str) -> click.Command:
    found = getattr(importlib.import_module(f"expdb.cli.{name}"), name)
    assert isinstance(found, click.Command)
    return found
