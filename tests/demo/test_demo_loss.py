from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from expdb.demo.layers import DenseConfig
from expdb.demo.loss import IGNORE_INDEX, lm_loss
from expdb.demo.model import Decoder
from expdb.monitor.formulas import bits_per_byte, perplexity


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


class Says(nn.Module):
    """Logits that put all weight on `(token + step) % 256` at every position."""

    def __init__(self, step: int, weight: float) -> None:
        super().__init__()
        self.step, self.weight = step, weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.one_hot((tokens + self.step) % 256, 256).float() * self.weight


def test_uniform_logits_cost_ln_256():
    nll, n = lm_loss(Says(0, 0.0), {"tokens": torch.zeros(3, 129, dtype=torch.int64)})
    assert n == 384
    assert nll.item() / n == pytest.approx(5.545177, abs=1e-5)


def test_position_t_is_judged_against_token_t_plus_one():
    counting = {"tokens": torch.arange(10)[None]}
    right, n = lm_loss(Says(1, 50.0), counting)
    unshifted, _ = lm_loss(Says(0, 50.0), counting)
    assert n == 9
    assert right.item() / n < 1e-3
    assert unshifted.item() / n > 40.0


def test_only_unmasked_labels_count():
    tokens = torch.arange(10)[None]
    labels = tokens.clone()
    labels[0, 4:] = IGNORE_INDEX
    # Masked tokens are still read: what they are must not matter to the count or the sum.
    nll, n = lm_loss(Says(0, 0.0), {"tokens": tokens, "labels": labels})
    assert n == 3
    assert nll.item() == pytest.approx(3 * math.log(256), rel=1e-6)


def test_everything_masked_is_zero_over_zero_and_no_gradient():
    model = small_model()
    tokens = torch.arange(10)[None]
    nll, n = lm_loss(model, {"tokens": tokens, "labels": torch.full_like(tokens, IGNORE_INDEX)})
    nll.backward()
    assert (nll.item(), n) == (0.0, 0)
    assert all(torch.all(p.grad == 0.0) for p in model.parameters() if p.grad is not None)


def test_accumulated_sums_equal_the_full_batch_where_a_mean_of_means_does_not():
    model = small_model()
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(256, (8, 17), generator=generator)
    labels = tokens.clone()
    for row in range(8):
        labels[row, : 2 * row] = IGNORE_INDEX  # 16 valid targets in the first row, 3 in the last
    full = gradient(model, [{"tokens": tokens, "labels": labels}])
    micro = [{"tokens": tokens[i : i + 2], "labels": labels[i : i + 2]} for i in range(0, 8, 2)]
    assert torch.allclose(gradient(model, micro), full, atol=1e-6, rtol=0)
    assert not torch.allclose(gradient(model, micro, mean_of_means=True), full, atol=1e-4, rtol=0)


def test_perplexity_is_the_exponential_of_the_token_mean():
    assert perplexity(10.0 + 2.0, 5 + 5) == pytest.approx(math.exp(1.2))
    assert perplexity(1e6, 1) == math.inf
    assert math.isnan(perplexity(0.0, 0))


def test_ln_2_nats_a_byte_is_one_bit_a_byte():
    assert bits_per_byte(7 * math.log(2), 7) == pytest.approx(1.0)
    assert math.isnan(bits_per_byte(0.0, 0))


def small_model() -> Decoder:
    config = DenseConfig(d=32, layers=1, heads=2, hidden=48, seq_len=16, init_std=0.3)
    return Decoder(config, generator=torch.Generator().manual_seed(0))


def gradient(model, batches, *, mean_of_means=False) -> torch.Tensor:
    model.zero_grad()
    losses = [lm_loss(model, batch) for batch in batches]
    total = sum(n for _, n in losses)
    for nll, n in losses:
        (nll / (n * len(losses)) if mean_of_means else nll / total).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])
