"""The demo with ten batches of random bytes: with a rewind it ends where the baseline does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from expdb.model import Run, RunState
from expdb.query.replay import replay
from expdb.store.runs import read_run
from tests.train.project import ROOT

pytestmark = pytest.mark.soak
BAD = tuple(range(150, 160))
"""Numbers of the batches, so that who skips them never meets them."""
WITHIN = 0.1


def trained(store: Path, *words: str) -> Run:
    command = [sys.executable, "train.py", *words, f"expdb.store={store}", "expdb.dirty=allow"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before = set(store.parent.glob("seen-*"))
    [folder] = (
        path
        for path in store.glob("exp=*/run=*")
        if store.parent / f"seen-{path.name}" not in before
    )
    (store.parent / f"seen-{folder.name}").touch()
    return read_run(folder, store_root=store)


def test_a_fault_in_the_data_is_left_behind(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    fault = ("+exp=exp04_bad_batch", f"data.bad_batches={list(BAD)}")
    baseline = trained(store, "+exp=baseline")
    faulty = trained(store, *fault)
    rewound = trained(store, *fault, "monitor=rewind")
    value = {run.id: run.series["val/loss"].last for run in (baseline, faulty, rewound)}
    assert abs(value[rewound.id] - value[baseline.id]) < WITHIN
    assert value[faulty.id] - value[baseline.id] > value[rewound.id] - value[baseline.id]

    # Without it: the spike is found at the first bad batch, and it comes back by itself.
    assert len(faulty.attempts) == 1
    spikes = [one for one in faulty.events if one.rule == "loss_spike" and one.severity != "info"]
    assert [one.step for one in spikes] == [150]
    assert spikes[0].now.startswith("over")
    assert not [one for one in faulty.events if one.rule == "intervention"]

    # With it: one rewind, after which no bad batch is ever taken.
    assert rewound.state is RunState.FINISHED
    [_, attempt] = rewound.attempts
    assert attempt.resumed_from == 100
    assert attempt.intervention["rewind"]["step"] == 150
    first, last = attempt.intervention["skipped"]
    assert first <= min(BAD)
    assert max(BAD) <= last
    assert rewound.series["train/loss"].count == 300
    again = [one for one in rewound.events if one.facts.get("attempt") == 2]
    assert not [one for one in again if one.severity != "info"]
    for run in (faulty, rewound):
        [folder] = store.glob(f"exp=*/run={run.id}")
        assert replay(folder).is_equal
