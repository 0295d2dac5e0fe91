"""What is printed and validated has intervals; what is collected has none."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from expdb.errors import BadInput
from expdb.track.console import Console
from expdb.track.evaluation import Evaluations
from tests.track import tiny_training as tiny
from tests.track.tiny_linear import ONE, Rows, drive, linear

PRESET = Path(__file__).parents[2] / "conf" / "loop" / "seed_report.yaml"


def printed(stream: StringIO) -> list[int]:
    lines = [line.split() for line in stream.getvalue().splitlines()]
    return [int(words[1]) for words in lines if words[2:3] == ["train"]]


def test_ten_thousand_steps_are_ten_lines_and_two_validations():
    preset, stream, validated = OmegaConf.load(PRESET), StringIO(), []
    assert preset.max_steps == 10_000
    console = Console(stream)
    console.print_every = preset.print_every
    state = linear(Rows(ONE))
    evaluations = Evaluations(state, validated.append, preset.eval_every)
    for step in range(preset.max_steps + 1):
        if evaluations.is_due(step, preset.max_steps):
            evaluations.run(step)
        console.step(step, preset.max_steps, loss=1.0)
    assert printed(stream) == list(range(1000, 10_001, 1000))
    assert validated == [0, 5000, 10_000]  # one before training, to compare with, and two of it


def test_points_of_every_step_are_kept_whatever_is_printed(tmp_path):
    run, stream = tiny.StandIn(tmp_path), StringIO()
    run.console = Console(stream)
    drive(
        run, linear(Rows(ONE)), max_steps=100, print_every=10, eval_every=50,
        evaluate=tiny.evaluate,
    )  # fmt: skip
    assert printed(stream) == list(range(10, 101, 10))
    assert sorted(run.series("val/loss")) == [0, 50, 100]
    assert sorted(run.series("train/loss")) == list(range(100))
    with pytest.raises(BadInput, match="print_every is 0"):
        drive(run, linear(Rows(ONE)), max_steps=1, print_every=0)
