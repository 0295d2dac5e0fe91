"""What is seen of the forward pass: activations, attention, experts, embeddings (M22-M28)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from expdb.track.watch import activations, attention, embeddings, log_bins
from expdb.track.watch.attention import Scores
from tests.watch.watched_run import Noted, step, tiny

ALL = (*activations.SIZE, *activations.SILENCE)


def acts(values, wanted=ALL):
    return {key: float(one) for key, one in activations.statistics(values, wanted).items()}


def test_activations_of_a_normal_distribution():
    torch.manual_seed(0)
    found = acts(3.0 * torch.randn(500, 64))
    assert found["act_rms"] == pytest.approx(3.0, rel=0.02)
    assert found["act_kurtosis"] == pytest.approx(3.0, rel=0.05)
    assert found["act_near_zero"] == pytest.approx(0.0008, abs=0.0006)
    assert found["act_dead"] == 0.0


def test_half_of_a_relu_is_zero_and_no_unit_is_dead():
    """M27, E4: zeros alone say nothing."""
    torch.manual_seed(0)
    found = acts(torch.randn(500, 64).relu())
    assert found["act_near_zero"] == pytest.approx(0.50, abs=0.02)
    assert found["act_dead"] == 0.0


def test_a_relu_with_a_bias_of_minus_ten_is_dead_throughout():
    assert acts((torch.randn(100, 8) - 10).relu())["act_dead"] == 1.0
    model, run = tiny(), Noted(kinds=["activations"])
    nn.init.constant_(model.blocks[1]["mlp"][0].bias, -10.0)
    optim = torch.optim.SGD(model.parameters(), lr=0.0)
    run.watch(model, optim)
    step(model, optim)
    found = run.at(0)
    assert found["layer/blocks.1.mlp/act_dead"] == 1.0
    assert found["layer/blocks.0.mlp/act_dead"] < 0.5
    assert {key.rpartition("/")[2] for key in found} == set(ALL)


def test_dead_units_are_counted_over_the_whole_window_not_token_by_token():
    values = torch.zeros(100, 4)
    values[7, 0] = values[90, 1] = 1.0
    assert acts(values)["act_dead"] == 0.5


def test_histograms_over_fixed_edges_can_be_added():
    """M26: the bins sum to n, and merged counts are those of both together."""
    torch.manual_seed(0)
    a, b = torch.randn(1000), torch.randn(500) * 1e-9
    b[:3] = torch.tensor([math.inf, -math.inf, math.nan])
    b[3:6] = torch.tensor([1e20, -1e20, 0.0])
    rows = [log_bins.counted(one).tolist() for one in (a, b, torch.cat([a, b]))]
    first, second, both = map(log_bins.counts_of, rows)
    assert sum(first) == 1000
    assert sum(second) == 497
    assert [x + y for x, y in zip(first, second, strict=True)] == both
    fields = log_bins.fields(rows[2])
    assert (fields["count"], fields["nan"], fields["pos_inf"]) == (1497, 1, 1)
    assert len(fields["edges"]) == len(fields["counts"]) + 1
    edges = np.array(fields["edges"])
    inside = np.histogram(a.double().numpy(), edges)[0]
    assert inside.tolist() == first


def test_uniform_attention_has_entropy_one_and_one_key_has_none():
    """M24."""
    q = torch.zeros(2, 16, 4)
    found = attention.statistics(Scores(q=q, k=torch.randn(2, 16, 4)))
    assert float(found["attn_entropy"]) == pytest.approx(1.0, abs=1e-6)
    one_hot = torch.eye(16).expand(2, 16, 16) * 1000
    sharp = attention.statistics(Scores(q=one_hot, k=one_hot))
    assert float(sharp["attn_entropy"]) == pytest.approx(0.0, abs=1e-6)
    assert float(sharp["attn_logit_max"]) == pytest.approx(1e6 / 4)


def test_a_quarter_of_collapsed_heads_is_seen_in_the_quartile():
    q, k = torch.zeros(8, 16, 16), torch.zeros(8, 16, 16)
    q[:3] = k[:3] = torch.eye(16) * 1000
    found = attention.statistics(Scores(q=q, k=k))
    assert float(found["attn_entropy_q25"]) < 0.1
    assert float(found["attn_entropy"]) > 0.5


def test_grouped_queries_masks_and_scales():
    torch.manual_seed(1)
    q, k = torch.randn(4, 10, 8), torch.randn(2, 10, 8)
    mask = torch.rand(10, 10) < 0.7
    mask |= torch.eye(10, dtype=torch.bool)
    found = Scores(q=q, k=k, mask=mask, causal=False, scale=0.3).weights(10)
    logits = (q @ k.repeat_interleave(2, 0).transpose(1, 2) * 0.3).masked_fill(~mask, -math.inf)
    torch.testing.assert_close(found, logits.softmax(-1))
    added = torch.zeros(10, 10).masked_fill(~mask, -math.inf)
    torch.testing.assert_close(
        Scores(q=q, k=k, mask=added, causal=False, scale=0.3).weights(10), logits.softmax(-1)
    )


def test_a_mask_of_padding_is_one_row_for_all():
    keys = torch.tensor([[[True] * 6 + [False] * 4]])  # [1, 1, S]
    found = Scores(q=torch.zeros(2, 10, 4), k=torch.zeros(2, 10, 4), mask=keys, causal=False)
    torch.testing.assert_close(found.weights(10)[..., :6], torch.full((2, 10, 6), 1 / 6))
    assert float(attention.statistics(found)["attn_entropy"]) == 0.0  # no row sees 8 keys


def test_the_picture_of_attention_has_rows_of_one_and_nothing_above_the_diagonal():
    """M22."""
    torch.manual_seed(0)
    weights = Scores(q=torch.randn(2, 12, 4), k=torch.randn(2, 12, 4)).weights(128)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 12))
    assert torch.triu(weights, 1).abs().max() == 0
    image = attention.picture(weights.numpy())
    assert image.shape == (12, 12 * 2 + 2)
    assert image[0, 0] == 255
    assert image[0, 1:12].max() == 0


def test_attention_is_overheard_as_it_is_computed():
    model, run = tiny(), Noted(kinds=["attention"])
    optim = torch.optim.SGD(model.parameters(), lr=0.0)
    run.watch(model, optim)
    step(model, optim)
    found = run.at(0)
    names = {f"layer/blocks.{n}.attn/{stat}" for n in (0, 1) for stat in (
        "attn_entropy", "attn_entropy_q25", "attn_logit_max")}  # fmt: skip
    assert set(found) == names
    assert 0.9 < found["layer/blocks.0.attn/attn_entropy"] <= 1.0
    image = run.images["layer/blocks.0.attn/attention", 0]
    assert image.shape == (11, 24)
    from torch.overrides import _get_current_function_mode

    assert _get_current_function_mode() is None


def test_a_forward_pass_that_raises_leaves_nothing_overhearing():
    from torch.overrides import _get_current_function_mode

    model, run = tiny(), Noted(kinds=["attention"])
    run.watch(model, torch.optim.SGD(model.parameters(), lr=0.0))
    with pytest.raises(RuntimeError):
        model.blocks[0]["attn"](torch.randn(2, 3, 15))
    assert _get_current_function_mode() is None


def test_a_module_may_say_its_queries_and_keys():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Linear(4, 4)

        def monitor_qk(self, x):
            return torch.zeros(1, 1, 9, 4), torch.zeros(1, 1, 9, 4)

        def forward(self, x):
            return self.proj(x)

    model, run = nn.ModuleDict({"attn": Own()}), Noted(kinds=["attention"])
    optim = torch.optim.SGD(model.parameters(), lr=0.0)
    run.watch(model, optim)
    model["attn"](torch.randn(1, 9, 4)).sum().backward()
    optim.step()
    assert run.at(0)["layer/attn/attn_entropy"] == pytest.approx(1.0)


class Routed(nn.Module):
    """A router over experts, with the protocol."""

    def __init__(self, load, gate):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.load, self.gate = torch.tensor(load), torch.tensor(gate)

    def forward(self, x):
        return x * self.weight

    def monitor_routing(self, args, output):
        return {"load": self.load, "gate": self.gate, "bias": -0.5 * self.load}


@pytest.mark.parametrize(
    ("load", "vio", "dead"), [([6] * 8, 0.0, 0.0), ([48, 0, 0, 0, 0, 0, 0, 0], 7.0, 7.0)]
)
def test_load_of_experts_over_all_micro_batches(load, vio, dead):
    """M23; two passes are one update."""
    model, run = nn.ModuleDict({"router": Routed(load, [1.0] * 8)}), Noted(kinds=["moe"])
    optim = torch.optim.SGD(model.parameters(), lr=0.0)
    run.watch(model, optim)
    for _ in range(2):
        model["router"](torch.ones(1)).sum().backward()
    optim.step()
    found = run.at(0)
    assert found["layer/router/moe_max_vio"] == vio
    assert found["layer/router/moe_dead_experts"] == dead
    assert found["layer/router/router_entropy"] == pytest.approx(1.0)
    assert found["layer/router/moe_bias_max"] == 0.5 * max(load)


def test_routed_experts_have_no_dead_units():
    """M28: that an expert is silent is its task."""
    from expdb.demo.build import build_model

    small = {"d": 8, "layers": 2, "heads": 2, "hidden": 8, "expert_hidden": 4, "experts": 4}
    model = build_model({"kind": "moe", **small, "seq_len": 16}, seed=0)
    run = Noted()
    optim = torch.optim.AdamW(model.parameters())
    run.watch(model, optim)
    tokens = torch.randint(0, 256, (2, 16))
    F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    optim.step()
    found = run.at(0)
    assert not run.console.warnings
    assert not [key for key in found if "experts/act_" in key]
    assert "layer/blocks.1.mlp.experts/grad_norm" in found
    assert found["layer/blocks.1.mlp.router/moe_max_vio"] >= 0.0
    assert 0.9 < found["layer/blocks.1.mlp.router/router_entropy"] <= 1.0


def test_rank_of_a_matrix_of_rank_three():
    """M25."""
    torch.manual_seed(0)
    left, _ = torch.linalg.qr(torch.randn(64, 3, dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(16, 3, dtype=torch.float64))
    found = embeddings.statistics(left @ right.T)
    assert found["emb_rank"] == pytest.approx(3.0, abs=1e-6)
    assert embeddings.statistics(torch.eye(8))["emb_cosine"] == pytest.approx(0.0)


def test_an_offset_shows_as_collapse():
    torch.manual_seed(0)
    rows = 0.02 * torch.randn(256, 96)
    assert embeddings.statistics(rows)["emb_cosine"] == pytest.approx(0.0, abs=0.01)
    assert embeddings.statistics(rows + 0.1)["emb_cosine"] == pytest.approx(0.96, abs=0.01)


def test_drift_and_dead_rows():
    torch.manual_seed(0)
    rows = torch.randn(100, 8)
    moved = rows * 1.25
    moved[:5] = 1e-9
    found = embeddings.statistics(moved, rows, of=1000)
    assert found["emb_dead_rows"] == 50
    expected = float((moved - rows).norm() / moved.norm())
    assert found["emb_drift"] == pytest.approx(expected, rel=1e-6)
    model, run = tiny(), Noted(kinds=["embeddings"], rare_every=2)
    optim = torch.optim.AdamW(model.parameters(), lr=0.01)
    run.watch(model, optim)
    for _ in range(5):
        step(model, optim)
    assert run.steps("layer/embed/emb_rank") == [0, 2, 4]
    assert run.steps("layer/embed/emb_drift") == [2, 4]
