"""The loss of a language model, and checks of a model by itself (M05 to M08, M20)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from expdb.demo import loss as demo_loss
from expdb.demo.build import build_model
from expdb.track import lm
from expdb.track.plain import digest_of
from expdb.track.untouched import untouched
from expdb.track.watch import memory, tokens
from expdb.track.watch.system import System

torch.set_num_threads(1)
SMALL = {"kind": "dense", "d": 32, "layers": 3, "heads": 4, "hidden": 64, "seq_len": 32}


def test_uniform_logits_lose_ln_v():
    """M05."""
    labels = torch.randint(0, 256, (2, 9))
    nll, num = lm.lm_loss(torch.zeros(2, 9, 256), labels)
    assert (int(num), float(nll / num)) == (16, pytest.approx(5.545177, abs=1e-5))


def test_a_batch_with_every_label_masked_has_no_tokens_and_no_nan():
    logits = torch.randn(2, 5, 7, requires_grad=True)
    nll, num = lm.lm_loss(logits, torch.full((2, 5), lm.IGNORE_INDEX))
    nll.backward()
    assert (float(nll.detach()), int(num), float(logits.grad.abs().sum())) == (0.0, 0, 0.0)


def test_labels_are_shifted_by_one():
    labels = torch.tensor([[3, 1, 4, 1, 5]])
    right = torch.zeros(1, 5, 7)
    right[0, torch.arange(4), labels[0, 1:]] = 50.0
    assert float(lm.lm_loss(right, labels)[0]) == pytest.approx(0.0, abs=1e-6)
    assert float(lm.lm_loss(right, labels, shift=False)[0]) > 100


def test_accuracy_counts_valid_tokens_only():
    """M07: 3 of 4 valid are right, 2 are masked."""
    labels = torch.tensor([[0, 1, 2, 3, 4, -100, -100]])
    logits = torch.zeros(1, 7, 6)
    for row, named in enumerate([1, 2, 3, 0, 5, 5, 5]):
        logits[0, row, named] = 1.0
    hits, num = lm.token_hits(logits, labels)
    assert (int(hits), int(num), int(hits) / int(num)) == (3, 4, 0.75)


def test_the_demo_has_the_same_loss():
    model = build_model(SMALL, seed=0)
    rows = torch.randint(0, 256, (2, 17))
    nll, num = demo_loss.lm_loss(model, {"tokens": rows})
    again, count = lm.lm_loss(model(rows[:, :-1]), rows[:, 1:], shift=False)
    assert torch.equal(nll, again)
    assert num == int(count)


@pytest.mark.parametrize(("std", "ok"), [(0.02, True), (0.3, False)])
def test_the_initialisation_of_the_demo(std, ok):
    """M20: the first loss is about ln V."""
    model = build_model({**SMALL, "init_std": std}, seed=0)
    rows = torch.randint(0, 256, (4, 33), generator=torch.Generator().manual_seed(0))
    nll, num = demo_loss.lm_loss(model, {"tokens": rows})
    excess = float(nll.detach() / num) - math.log(256)
    assert abs(excess) < 0.15 if ok else excess > 1.0  # the border of the rule `init`


def test_a_causal_model_does_not_see_later_tokens():
    """M06: logits before a changed token are equal by the bit."""
    model = build_model(SMALL, seed=0).eval()
    rows = torch.randint(0, 256, (2, 12))
    with torch.no_grad():
        logits = model(rows)
        for at in range(1, 12):
            changed = rows.clone()
            changed[:, at] = (changed[:, at] + 1) % 256
            again = model(changed)
            assert torch.equal(again[:, :at], logits[:, :at])
            assert not torch.equal(again[:, at], logits[:, at])


def test_looking_leaves_modes_buffers_and_generators_as_they_were():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    model[1].eval()  # one of its modules has another mode than the rest
    modes = [one.training for one in model.modules()]
    before, rng = digest_of(model.state_dict()), torch.get_rng_state()
    with untouched(model):
        assert not any(one.training for one in model.modules())
        model[0].running_mean += 1.0
        torch.rand(3)
    assert digest_of(model.state_dict()) == before
    assert torch.equal(torch.get_rng_state(), rng)
    assert [one.training for one in model.modules()] == modes


def test_repeats_in_a_batch():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 250, (4, 200), generator=generator)
    assert tokens.repeat_share(rows) == 0.0
    rows[1, 10:106] = torch.tensor([251, 252, 253]).repeat(32)
    assert tokens.repeat_share(rows) == pytest.approx(96 / 800)
    rows[1, 10] = 0  # 31 whole repeats and a piece are not enough
    assert tokens.repeat_share(rows) == 0.0
    rows[2] = 7
    assert tokens.repeat_share(rows) == pytest.approx(200 / 800)


def test_which_tensor_the_tokens_are():
    rows, other = torch.zeros(2, 9, dtype=torch.int64), torch.zeros(4, 3, dtype=torch.int64)
    assert tokens.tokens_in({"labels": other, "input_ids": rows}) is rows
    assert tokens.tokens_in((torch.tensor(3), rows, other)) is rows
    assert tokens.tokens_in(torch.randn(2, 3)) is None


def test_flops_of_a_token():
    """6 N without lookups and norms, and 12 x channels x length."""
    dense = build_model(SMALL, seed=0)
    matrices = sum(
        p.numel() for n, p in dense.named_parameters() if p.dim() == 2 and n != "embed.weight"
    )
    assert memory.flops_per_token(dense, channels=96, length=32) == 6 * matrices + 12 * 96 * 32
    moe = build_model({**SMALL, "kind": "moe", "experts": 8, "top_k": 2}, seed=0)
    routed = sum(p.numel() for n, p in moe.named_parameters() if ".experts." in n)
    whole = sum(p.numel() for n, p in moe.named_parameters() if p.dim() == 2 and "embed" not in n)
    active = whole - routed + routed * 2 / 8
    assert memory.flops_per_token(moe, channels=0, length=1) == 6 * active


def test_memory_by_category():
    """R01: 16 bytes a parameter for AdamW in fp32, before activations."""
    model = nn.Linear(1000, 1000, bias=False)
    optim = torch.optim.AdamW(model.parameters())
    model(torch.randn(1, 1000)).sum().backward()
    optim.step()
    found = memory.categories(model.parameters(), [optim])
    assert sum(found.values()) == pytest.approx(16 * 1_000_000, rel=1e-3)
    assert memory.memory(torch.device("cpu"))["sys/memory_peak_bytes"] > 1e7
    machine = System(torch.device("cpu"))
    found = machine.read()
    assert set(found) == {"sys/rss_bytes", "sys/cpu_pct", "sys/memory_available_bytes"}
    assert found["sys/rss_bytes"] > 1e7
    assert found["sys/cpu_pct"] >= 0
