from __future__ import annotations

import math
import random

import pytest
import torch
from torch import nn

from expdb.demo.evaluate import evaluate, evaluating, windows
from expdb.demo.layers import DenseConfig
from expdb.demo.loss import IGNORE_INDEX
from expdb.demo.model import Decoder

CONFIG = DenseConfig(d=32, layers=1, heads=2, hidden=48, seq_len=16, dropout=0.5, init_std=0.3)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def model() -> Decoder:
    return Decoder(CONFIG, generator=torch.Generator().manual_seed(0))


def text(n: int) -> torch.Tensor:
    return torch.randint(256, (n,), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("n", [2, 16, 17, 18, 33, 100])
def test_windows_predict_each_byte_but_the_first_once(n):
    tokens, labels = windows(text(n), 16)
    targets = labels[:, 1:].flatten()
    assert targets[targets != IGNORE_INDEX].tolist() == text(n)[1:].tolist()
    assert tokens.shape == labels.shape == (math.ceil((n - 1) / 16), 17)


def test_the_loss_is_the_token_mean_whatever_the_batch_size():
    decoder = model().eval()
    data = text(100)
    sums = 0.0
    with torch.no_grad():
        for start in range(0, 99, 16):
            part = data[start : start + 17].long()
            logits = decoder(part[None, :-1])[0]
            sums += nn.functional.cross_entropy(logits, part[1:], reduction="sum").item()
    for batch_size in (1, 3, 50):
        found = evaluate(decoder, data, seq_len=16, batch_size=batch_size)
        assert found["val/loss"] == pytest.approx(sums / 99, rel=1e-5)
        assert found["val/ppl"] == pytest.approx(math.exp(sums / 99), rel=1e-5)


def test_it_leaves_generators_modes_and_gradients_as_they_were():
    decoder = model().train()
    decoder.blocks[0].eval()
    modes = [module.training for module in decoder.modules()]
    before = torch.get_rng_state(), random.getstate()
    first = evaluate(decoder, text(100), seq_len=16)
    assert evaluate(decoder, text(100), seq_len=16) == first
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert [module.training for module in decoder.modules()] == modes
    assert all(parameter.grad is None for parameter in decoder.parameters())
    assert torch.is_grad_enabled()


def test_modes_come_back_after_an_error():
    decoder = model().train()
    with pytest.raises(IndexError), evaluating(decoder):
        decoder(torch.tensor([[256]]))
    assert all(module.training for module in decoder.modules())
