"""A new process goes on with the bits of one that never stopped, however the first one ended."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from expdb.store.checkpoints import read_manifests
from expdb.store.runs import read_run
from tests.resume.traces import OF_WATCH, Trace, differences, layout_of, trace, work

pytestmark = pytest.mark.slow


class Scenario(NamedTuple):
    """How a training is set up, and the ends of its processes before the last one."""

    setup: dict[str, Any]
    stops: tuple[tuple[str, int], ...]
    """(signal, the update after which it comes), one process each."""
    lasts: tuple[int, ...]
    """From where each further process goes on: the last good checkpoint."""


PLAIN = {"accum": 2, "workers": 0}
FOUR = {"accum": 4, "workers": 0}
BARE = {"accum": 2, "workers": 2, "scaled": False}
"""An epoch has 30 micro-batches: 15 updates of 2, 7.5 updates of 4."""
SCENARIOS = {
    "killed in mid-epoch": Scenario(PLAIN, (("SIGKILL", 27),), (20,)),
    "asked to stop at the border of an epoch": Scenario(PLAIN, (("SIGTERM", 15),), (15,)),
    "twice in a row": Scenario(PLAIN, (("SIGTERM", 8), ("SIGKILL", 33)), (8, 30)),
    "4 micro-batches, killed": Scenario(FOUR, (("SIGKILL", 27),), (20,)),
    "2 workers, fp32, killed": Scenario(BARE, (("SIGKILL", 32),), (30,)),
}

MORE: dict[str, Scenario] = {
    "killed at a save": Scenario(PLAIN, (("SIGKILL", 11),), (10,)),
    "asked to stop in mid-epoch": Scenario(PLAIN, (("SIGTERM", 18),), (18,)),
    "4 micro-batches, an update over the border": Scenario(FOUR, (("SIGTERM", 7),), (7,)),
    "unwatched": Scenario({**PLAIN, "watched": False}, (("SIGKILL", 23),), (20,)),
    "without evaluations": Scenario({**PLAIN, "eval_every": 0}, (("SIGKILL", 23),), (20,)),
    "4 micro-batches, 2 workers, border": Scenario(
        {**FOUR, "workers": 2}, (("SIGTERM", 15),), (15,)
    ),
    "killed before it saved again": Scenario(PLAIN, (("SIGTERM", 8), ("SIGKILL", 9)), (8, 8)),
    "stopped again at once": Scenario(PLAIN, (("SIGTERM", 8), ("SIGTERM", 9)), (8, 9)),
    "asked to stop where it is evaluated": Scenario(PLAIN, (("SIGTERM", 30),), (30,)),
}
"""For `make soak` only."""


def job(store: Path, seed: int, setup: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"store": str(store), "out": f"{store}-{seed}.json", "seed": seed, **setup, **more}


def last_job(store: Path, scenario: Scenario) -> dict[str, Any]:
    resume = {"resume": layout_of(store).id}
    return job(store, 90, scenario.setup, **resume)


def trained(folder: Path, setups: list[dict[str, Any]]) -> dict[str, Trace]:
    """Every set-up trained to its end by one process."""
    jobs = [job(folder / f"s{n}", 1, setup) for n, setup in enumerate(setups)]
    assert set(work(folder, jobs)) == {0}
    return {
        repr(setup): trace(Path(one["store"]), Path(one["out"]))
        for setup, one in zip(setups, jobs, strict=True)
    }


def stopped(folder: Path, scenarios: dict[str, Scenario]) -> None:
    """Bring all processes but the last of each scenario to their ends, each in its own store."""
    for number in range(2):
        jobs = []
        ends = []
        for name, scenario in scenarios.items():
            if number >= len(scenario.stops):
                continue
            store = folder / name.replace(" ", "-")
            how, at = scenario.stops[number]
            more = {"resume": layout_of(store).id} if number else {}
            jobs.append(job(store, 1 + 60 * number, scenario.setup, signal=how, at=at, **more))
            ends.append(143 if how == "SIGTERM" else -signal.SIGKILL)
        assert work(folder, jobs) == ends


def resumed(folder: Path, scenarios: dict[str, Scenario]) -> dict[str, Trace]:
    """Let the last process of every scenario go on to the end."""
    stopped(folder, scenarios)
    jobs = {name: last_job(folder / name.replace(" ", "-"), one) for name, one in scenarios.items()}
    assert set(work(folder, list(jobs.values()))) == {0}
    return {name: trace(Path(one["store"]), Path(one["out"])) for name, one in jobs.items()}


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    setups = [scenario.setup for scenario in SCENARIOS.values()]
    # Workers leave no trace, so what has some is compared with what has none.
    setups += [{**scenario.setup, "workers": 0} for scenario in MORE.values()]
    setups = [one for at, one in enumerate(setups) if one not in setups[:at]]
    return trained(tmp_path_factory.mktemp("straight"), setups)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Trace]]:
    folder = tmp_path_factory.mktemp("core")
    return folder, resumed(folder, SCENARIOS)


def compare(whole: Trace, folder: Path, name: str, scenario: Scenario, found: Trace) -> None:
    """A resumed training shows the points and the end of the straight one, to the bit."""
    assert differences(whole, found) == {}
    for key in ("train/loss", "train/grad_norm", "train/lr", "data/batches"):
        assert sorted(whole.points[key]) == list(range(40))
    layout = layout_of(folder / name.replace(" ", "-"))
    run = read_run(layout.root, store_root=layout.root.parents[1])
    assert [one.resumed_from for one in run.attempts][1:] == list(scenario.lasts)
    assert (run.state, len(run.attempts)) == ("finished", 1 + len(scenario.lasts))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_new_process_goes_on_with_the_same_bits(
    straight: dict[str, Trace], core: tuple[Path, dict[str, Trace]], name: str
) -> None:
    folder, found = core
    scenario = SCENARIOS[name]
    compare(straight[repr(scenario.setup)], folder, name, scenario, found[name])


@pytest.mark.soak
def test_soak_more_ends_and_borders(straight: dict[str, Trace], tmp_path: Path) -> None:
    found = resumed(tmp_path, MORE)
    for name, scenario in MORE.items():
        whole = straight[repr({**scenario.setup, "workers": 0})]  # workers leave no trace
        compare(whole, tmp_path, name, scenario, found[name])


def test_workers_monitors_and_evaluations_leave_no_trace_in_the_weights(
    straight: dict[str, Trace], tmp_path: Path
) -> None:
    one = job(tmp_path / "workers", 1, {**PLAIN, "workers": 2})
    assert work(tmp_path, [one]) == [0]
    plain = straight[repr(PLAIN)]
    assert differences(plain, trace(Path(one["store"]), Path(one["out"]))) == {}
    unwatched = straight[repr({**PLAIN, "watched": False})]
    found = differences(plain, unwatched)
    assert all(key.startswith(OF_WATCH) for key in found), found
    assert "layer/head/update_ratio" in found
    assert "layer/mlp.router/moe_max_vio" in plain.points
    assert (unwatched.digest, unwatched.weights) == (plain.digest, plain.weights)
    silent = straight[repr({**PLAIN, "eval_every": 0})]
    between = {"val/loss", "val/made", "state"}  # the state knows when it was evaluated
    assert set(differences(plain, silent)) == between
    assert silent.weights == plain.weights


def test_another_seed_is_another_training(straight: dict[str, Trace], tmp_path: Path) -> None:
    """The comparison of this file can fail."""
    one = job(tmp_path / "other", 2, PLAIN)
    assert work(tmp_path, [one]) == [0]
    found = differences(straight[repr(PLAIN)], trace(Path(one["store"]), Path(one["out"])))
    assert found["train/loss"] == 0
    assert {"data/batches", "train/grad_norm", "state"} <= set(found)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(6 * int(os.environ.get("SOAK", "1"))))
def test_soak_killed_anywhere_again_and_again(
    straight: dict[str, Trace], tmp_path: Path, number: int
) -> None:
    setup = random.choice([one.setup for one in SCENARIOS.values()])
    store = tmp_path / "any"
    more: dict[str, Any] = {}
    history = []
    for life in range(6):
        how, at = random.choice(["SIGKILL", "SIGTERM"]), random.randrange(1, 40)
        history.append((how, at))
        [end] = work(
            tmp_path, [job(store, life + 1, setup, signal=how, at=at, at_once=True, **more)]
        )
        more = {"resume": layout_of(store).id}
        if end == 0:
            break
        if not [one for one in read_manifests(layout_of(store)) if one.complete]:
            return  # it begins again from nothing, with the seed of another process
    else:
        assert work(tmp_path, [job(store, 99, setup, **more)]) == [0]
        life = 98
    found = trace(store, Path(f"{store}-{life + 1}.json"))
    assert differences(straight[repr(setup)], found) == {}, (setup, history)
