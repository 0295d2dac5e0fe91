from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from expdb.demo.build import build_model
from expdb.demo.layers import DenseConfig, Layout, Rotary
from expdb.demo.loss import lm_loss
from expdb.demo.model import Decoder, count_parameters
from expdb.errors import BadInput

TINY = DenseConfig(d=32, layers=2, heads=2, hidden=48, seq_len=24)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def tiny(config: DenseConfig = TINY, seed: int = 0) -> Decoder:
    return Decoder(config, generator=torch.Generator().manual_seed(seed)).eval()


def some_tokens(b: int, t: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(256, (b, t), generator=torch.Generator().manual_seed(seed))


def test_default_has_exactly_the_documented_parameters():
    assert count_parameters(build_model({"kind": "dense"}, seed=0)) == 381_600


def test_weights_depend_on_the_seed_alone_and_leave_the_global_generator():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = build_model({"kind": "dense", "layers": 1}, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    again = build_model({"kind": "dense", "layers": 1}, seed=3)
    other = build_model({"kind": "dense", "layers": 1}, seed=4)
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_init_std_and_smaller_output_projections():
    model = build_model({"kind": "dense"}, seed=0)
    by_name = dict(model.named_parameters())
    small = 0.02 / math.sqrt(6)
    for name, parameter in by_name.items():
        if parameter.dim() < 2:
            assert torch.all(parameter == 1.0), name
        else:
            std = small if name.endswith("out.weight") else 0.02
            assert parameter.std().item() == pytest.approx(std, rel=0.05), name
    assert sum(name.endswith("out.weight") for name in by_name) == 2 * 3


def test_loss_at_init_is_about_ln_256():
    model = build_model({"kind": "dense"}, seed=0)
    nll, n = lm_loss(model, {"tokens": some_tokens(4, 129)})
    assert n == 4 * 128
    assert nll.item() / n == pytest.approx(math.log(256), abs=0.06)


def test_a_later_token_leaves_earlier_logits_equal_as_bits():
    model = tiny()
    tokens = some_tokens(2, 24)
    with torch.no_grad():
        before = model(tokens)
        for t in (0, 7, 22):
            changed = tokens.clone()
            changed[:, t + 1] = (changed[:, t + 1] + 1) % 256
            after = model(changed)
            assert torch.equal(after[:, : t + 1], before[:, : t + 1])
            assert not torch.equal(after[:, t + 1], before[:, t + 1])


def test_rotary_scores_depend_on_the_distance_only():
    rotary = Rotary(8, 16)
    q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    same = torch.ones(16, 1)
    turned_q = rotary((same * q)[None, None], None)[0, 0]
    turned_k = rotary((same * k)[None, None], None)[0, 0]
    scores = turned_q @ turned_k.T
    assert torch.allclose(scores.diagonal(-3), scores[3, 0].expand(13), atol=1e-5)
    assert scores[3, 0].item() != pytest.approx(scores[9, 0].item(), abs=1e-3)
    assert turned_q[0].tolist() == q.tolist()
    assert torch.allclose(turned_q.norm(dim=1), q.norm().expand(16))


def test_a_causal_layout_equals_no_layout():
    model = tiny()
    tokens = some_tokens(2, 12)
    layout = Layout(
        positions_T=torch.arange(12), sees_TT=torch.ones(12, 12, dtype=torch.bool).tril()
    )
    with torch.no_grad():
        assert torch.allclose(model(tokens, layout), model(tokens), atol=1e-5)
        moved = Layout(positions_T=torch.arange(12) + 5, sees_TT=layout.sees_TT)
        assert torch.allclose(model(tokens, moved), model(tokens), atol=1e-5)
        apart = Layout(positions_T=torch.arange(12) * 2, sees_TT=layout.sees_TT)
        assert not torch.allclose(model(tokens, apart), model(tokens), atol=1e-5)


def test_dropout_acts_in_training_only():
    model = tiny(DenseConfig(d=32, layers=2, heads=2, hidden=48, seq_len=24, dropout=0.5))
    tokens = some_tokens(1, 8)
    with torch.no_grad():
        assert torch.equal(model(tokens), model(tokens))
        model.train()
        assert not torch.equal(model(tokens), model(tokens))


def test_runs_under_bfloat16_autocast():
    model = tiny()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        nll, n = lm_loss(model, {"tokens": some_tokens(2, 13)})
    assert nll.dtype == torch.float32
    assert nll.item() / n == pytest.approx(math.log(256), abs=0.1)


@pytest.mark.slow
def test_learns_a_repeated_text():
    model = tiny().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = torch.tensor([list(b"abcdefgh" * 3)])
    for _ in range(30):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens)[0, :-1], tokens[0, 1:])
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5


QK = DenseConfig(d=32, layers=2, heads=2, hidden=48, seq_len=24, qk_norm=True)


def test_normalised_queries_and_keys_add_two_gains_a_layer():
    model = build_model({"kind": "dense", "qk_norm": True}, seed=0)
    assert count_parameters(model) == 381_600 + 3 * 2 * 24 == 381_744
    plain = build_model({"kind": "dense"}, seed=0)
    assert torch.equal(model.head.weight, plain.head.weight)
    assert set(plain.state_dict()) < set(model.state_dict())


def test_normalised_heads_make_logits_independent_of_the_scale_of_q_and_k():
    tokens = some_tokens(2, 24)
    for config, same in ((QK, True), (TINY, False)):
        model = tiny(config)
        with torch.no_grad():
            model.blocks[0].attn.qkv.weight.mul_(30.0)
            before = model(tokens)
            model.blocks[0].attn.qkv.weight[:64].mul_(10.0)  # queries and keys, not values
            assert torch.allclose(model(tokens), before, atol=1e-4) is same


def test_each_head_is_normalised_on_its_own():
    attention = tiny(QK).blocks[0].attn
    q = torch.randn(2, 2, 5, 16, generator=torch.Generator().manual_seed(0))
    q[:, 1] *= 100.0
    normed = attention.q_norm(q)
    assert torch.allclose(normed.square().mean(dim=-1), torch.ones(2, 2, 5), atol=1e-4)


def test_normalised_heads_stay_causal_and_run_under_autocast():
    model, tokens = tiny(QK), some_tokens(2, 24)
    with torch.no_grad():
        before = model(tokens)
        tokens[:, 8] = (tokens[:, 8] + 1) % 256
        assert torch.equal(model(tokens)[:, :8], before[:, :8])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            nll, n = lm_loss(model, {"tokens": tokens})
    assert nll.item() / n == pytest.approx(math.log(256), abs=0.1)


def test_too_many_positions_is_bad_input():
    with pytest.raises(BadInput, match="takes 24 positions, not 25"):
        tiny()(some_tokens(1, 25))


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"d": 30, "heads": 4}, "even width"),
        ({"layers": 0}, "model.layers"),
        ({"dropout": 1.0}, "model.dropout"),
        ({"init_std": float("nan")}, "model.init_std"),
    ],
)
def test_unusable_values_are_bad_input(values, match):
    with pytest.raises(BadInput, match=match):
        DenseConfig(**values)
