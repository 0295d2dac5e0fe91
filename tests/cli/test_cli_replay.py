"""`events --replay`: the rules look at a recorded run again."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

import expdb
from expdb.store.marks import add_event


@pytest.fixture
def watched(tmp_path: Path) -> tuple[str, Path]:
    """A store with one run in which something happened, and the id of that run."""
    settings = {"print": "quiet", "dirty": "allow"}
    run = expdb.start({"seed": 1, "expdb": settings}, name="exp03", store=tmp_path / "runs")
    draw = random.Random(0)
    for step in range(180):
        high = 4.0 if step in (150, 151) else 0.0
        norm = 9.0 if high else 0.25 * math.exp(draw.gauss(0.0, 0.05))
        run.log({"train/loss": draw.gauss(2.0, 0.03) + high, "train/grad_norm": norm}, step=step)
    run.finish()
    return run.id, tmp_path


def test_a_replay_equals_what_was_recorded(here, watched):
    run, top = watched
    plain = here("-C", str(top), "events", run)
    done = here("-C", str(top), "events", run, "--replay")
    assert done.code == 0
    assert done.out == plain.out.split("\n\n")[0] + "\n"
    assert "loss_spike" in done.out
    assert "over at 152" in done.out
    assert "replay equals the run: 2 of 2 events" in done.err
    data = json.loads(here("-C", str(top), "events", run, "--replay", "--json").out)
    assert data["replay"] == {
        "is_equal": True, "num_recorded": 2, "num_same": 2, "new": [], "gone": [], "problems": [],
    }  # fmt: skip
    facts = {one["rule"]: one["facts"] for one in data["events"]}
    assert facts["loss_spike"]["threshold"] == 6.0
    assert facts["loss_spike"]["window"]["train/loss"][-1][0] == 150


def test_other_rules_find_other_things_and_the_exit_code_says_so(here, watched, tmp_path):
    run, top = watched
    rules = tmp_path / "rules.yaml"
    rules.write_text("loss_jump: true\nloss_spike: false\n")
    done = here("-C", str(top), "events", run, "--replay", "--rules", str(rules))
    assert done.code == 1
    assert "loss_jump" in done.out
    assert "replay differs: 1 new, 1 gone under today's rules" in done.err
    rules.write_text("los_spike: true\n")
    done = here("-C", str(top), "events", run, "--replay", "--rules", str(rules))
    assert done.code == 2
    assert "nearest: loss_spike" in done.err


def test_what_was_written_by_other_means_is_left_out_of_the_comparison(here, watched):
    run, top = watched
    [folder] = (top / "runs").glob(f"exp=*/run={run}")
    add_event(expdb_layout(folder), 3, "info", "intervention", "somebody did something")
    done = here("-C", str(top), "events", run, "--replay")
    assert done.code == 0
    with (folder / "events.jsonl").open("a") as file:
        line = (folder / "events.jsonl").read_text().splitlines()[0]
        file.write(line.replace('"num": 1', '"num": 2') + "\n")
    done = here("-C", str(top), "events", run, "--replay")
    assert done.code == 1


def expdb_layout(folder: Path):
    from expdb.store.layout import RunLayout

    return RunLayout(folder)


@pytest.mark.parametrize(
    "words", ["--replay", "a b --replay", "a --rules x", "a --replay --since 1d"]
)
def test_a_replay_is_of_one_run(here, words):
    done = here("events", *words.split())
    assert done.code == 2
    assert "--replay takes one RUN" in done.err


def test_one_step_is_shown_with_all_that_is_kept_of_it(here, watched):
    run, top = watched
    done = here("-C", str(top), "events", f"{run}@150")
    assert done.code == 0
    for part in ("train/grad_norm", "cause", "decision", "command", "threshold 6.0", "over at 152"):
        assert part in done.out
