"""Generators come back to the bit, and a block can leave them as they were."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from expdb.track import rng


def draw():
    return (
        [random.random(), random.gauss(0, 1)],
        [*np.random.rand(3).tolist(), np.random.randn()],
        torch.rand(3).tolist(),
    )


def test_all_three_generators_come_back_with_their_cached_halves():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    draw()  # leaves one gauss of python and one of numpy in their caches
    saved = rng.capture()
    expected = [draw() for _ in range(3)]
    random.seed(2)
    np.random.seed(2)
    torch.manual_seed(2)
    assert draw() != expected[0]
    assert rng.restore(saved) == ()
    assert [draw() for _ in range(3)] == expected


def test_what_is_captured_loads_with_weights_only(tmp_path):
    saved = rng.capture()
    expected = draw()
    torch.save(saved, tmp_path / "rng.pt")
    draw()
    rng.restore(torch.load(tmp_path / "rng.pt", weights_only=True))
    assert draw() == expected


def test_capture_draws_nothing_and_a_later_draw_does_not_change_it():
    random.seed(4)
    np.random.seed(4)
    torch.manual_seed(4)
    without = draw()
    random.seed(4)
    np.random.seed(4)
    torch.manual_seed(4)
    saved = rng.capture()
    assert draw() == without
    rng.restore(saved)
    assert draw() == without


def test_a_preserved_block_leaves_the_generators_as_they_were_even_when_it_fails():
    saved = rng.capture()
    expected = draw()
    rng.restore(saved)
    with pytest.raises(ZeroDivisionError), rng.preserved():
        _ = draw()[0][0] / 0
    assert draw() == expected


@pytest.mark.parametrize(
    ("make", "use"),
    [
        (lambda: torch.Generator().manual_seed(1), lambda g: torch.rand(2, generator=g).tolist()),
        (lambda: np.random.default_rng(1), lambda g: g.random(2).tolist()),
        (lambda: np.random.Generator(np.random.MT19937(1)), lambda g: g.random(2).tolist()),
        (lambda: random.Random(1), lambda g: [g.random(), g.gauss(0, 1)]),
    ],
    ids=["torch", "numpy PCG64", "numpy MT19937", "python"],
)
def test_generators_of_your_own(make, use, tmp_path):
    generator = make()
    use(generator)
    torch.save(rng.capture_generator(generator), tmp_path / "one.pt")
    expected = [use(generator) for _ in range(2)]
    other = make()
    rng.restore_generator(other, torch.load(tmp_path / "one.pt", weights_only=True))
    assert [use(other) for _ in range(2)] == expected
    assert rng.capture_generator(object()) is None


def test_generators_of_devices_that_are_not_here_are_named():
    saved = {**rng.capture(), "cuda": [torch.zeros(16, dtype=torch.uint8)] * 99}
    [note] = rng.restore(saved)
    assert "99 CUDA devices were saved" in note


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_every_cuda_device_comes_back():
    torch.rand(1, device="cuda")
    saved = rng.capture()
    assert len(saved["cuda"]) == torch.cuda.device_count()
    expected = torch.rand(3, device="cuda").tolist()
    torch.rand(3, device="cuda")
    assert rng.restore(saved) == ()
    assert torch.rand(3, device="cuda").tolist() == expected
