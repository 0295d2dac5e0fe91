"""Two ranks under gloo compute one gradient and stop together."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from tests import warm
from tests.track import tiny_training as tiny
from tests.track.tiny_linear import Rows, drive, halves, linear

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_two_ranks_compute_the_gradient_of_all_tokens_and_stop_together(tmp_path):
    words = ["-m", "tests.track.tiny_linear", str(tmp_path)]
    done = warm.run(words, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2))
    _, whole = halves(4)
    alone, state = tiny.StandIn(tmp_path / "alone"), linear(Rows(whole))
    drive(alone, state, max_steps=5)

    assert (first["stop"], second["stop"]) == (143, 143)
    assert first["events"] == [
        ["preempted", "a signal on another rank at step 5, checkpoint saved"]
    ]
    assert second["events"] == [["preempted", "SIGTERM at step 5, checkpoint saved"]]
    assert (first["wrote"], second["wrote"]) == (True, False)

    assert first["weights"] == second["weights"]
    for ours, tensor in zip(first["weights"], state.models[""].state_dict().values(), strict=True):
        torch.testing.assert_close(
            torch.tensor(ours, dtype=torch.float64), tensor, rtol=0, atol=1e-6
        )
    for step, loss in alone.series("train/loss").items():
        assert first["loss"][str(step)] == pytest.approx(loss, abs=1e-6)
    assert first["tokens"] == second["tokens"] == state.loop.tokens

    for one in (first, second):
        assert one["resumed"] == [5, one["weights"]]
        assert one["drawn"][0] == one["drawn"][1]
    assert first["drawn"] != second["drawn"]
