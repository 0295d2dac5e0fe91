"""Actions of rules over two ranks: both act at the same step, though one alone knows why."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from expdb.model import RunState
from expdb.store.runs import read_run
from tests import warm

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def test_two_ranks_act_together(tmp_path: Path) -> None:
    words = ["-m", "tests.track.acting_ranks", str(tmp_path)]
    done = warm.run(words, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2))
    assert first == second
    [folder] = (tmp_path / "runs").glob("exp=*/run=*")
    run = read_run(folder, store_root=tmp_path / "runs")
    assert run.state is RunState.FINISHED
    [one, two] = run.attempts
    assert (one.resumed_from, two.resumed_from) == (None, 6)
    assert two.intervention == {
        "skip_batches": 3, "skipped": [6, 8], "lr_scale": 0.5,
        "rewind": {"rule": "bad", "step": 8, "from": 9, "try": 1},
    }  # fmt: skip
    # Update 5 was not taken by either; the try used up, the rate falls instead.
    by_step = {(attempt, step): weights for attempt, step, _, weights in first["seen"]}
    assert by_step[1, 5] == by_step[1, 4]
    assert by_step[1, 6] != by_step[1, 5]
    assert (first["skipped"], first["scale"]) == (1, 0.25)
    said = [event.message for event in run.events if event.rule == "intervention"]
    assert said == [
        "loss at 5: update 5 not taken; train/num_skipped_steps counts on",
        "bad at 8: went back from step 9 to 6, try 1 of 1",
        "learning rate times 0.5 from step 6 on",
        "batches 6-8 skipped, those of 3 updates",
        "bad at 8: no rewind: 1 of 1 tries are used up",
        "bad at 8: learning rate times 0.5 from step 9 on, times 0.25 in all",
        "no_gain at 15: training ends at step 15; the weights will be those of step 13",
        f"weights are those of step 13, tagged best-{run.id[:4]}-13",
    ]
    assert first["weights"] == by_step[2, 12]
