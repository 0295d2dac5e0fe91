from __future__ import annotations

import pytest
import torch
from torch import nn

from expdb.demo.build import build_model, build_optim
from expdb.demo.optim import decay_groups
from expdb.errors import BadInput


def test_decay_holds_linear_weights_only_and_each_parameter_once():
    model = build_model({"kind": "dense"}, seed=0)
    optimizer = build_optim({"kind": "adamw"}, model)
    groups = {group["name"]: group for group in optimizer.param_groups}
    linear = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    assert {id(p) for p in groups["decay"]["params"]} == linear
    assert groups["decay"]["weight_decay"] == 0.1
    assert groups["no_decay"]["weight_decay"] == 0.0
    ids = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert len(ids) == len(set(ids))
    assert set(ids) == {id(p) for p in model.parameters()}
    assert all(group["betas"] == (0.9, 0.95) for group in groups.values())
    assert all(group["lr"] == 3e-3 for group in groups.values())


def test_a_tied_head_is_one_parameter_without_decay_and_frozen_ones_are_left_out():
    model = build_model({"kind": "dense", "layers": 1}, seed=0)
    model.head.weight = model.embed.weight
    model.norm.weight.requires_grad_(False)
    decay, no_decay = decay_groups(model)
    in_decay, in_no_decay = [id(p) for p in decay], [id(p) for p in no_decay]
    assert in_no_decay.count(id(model.embed.weight)) == 1
    assert id(model.embed.weight) not in in_decay
    assert id(model.norm.weight) not in in_decay + in_no_decay


def test_biases_and_norms_do_not_decay():
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    decay, no_decay = decay_groups(model)
    assert [tuple(p.shape) for p in decay] == [(3, 3)]
    assert len(no_decay) == 3


def test_decay_moves_matrices_and_nothing_else():
    model = build_model({"kind": "dense", "layers": 1}, seed=0)
    optimizer = build_optim({"kind": "adamw", "lr": 0.1, "wd": 0.5}, model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    after = dict(model.named_parameters())
    assert torch.equal(after["embed.weight"], before["embed.weight"])
    assert torch.equal(after["norm.weight"], before["norm.weight"])
    assert torch.allclose(after["head.weight"], before["head.weight"] * 0.95)


@pytest.mark.parametrize(
    ("config", "match", "hint"),
    [
        ({"kind": "adam"}, "unknown `optim.kind` `adam`", "nearest: `adamw`"),
        ({"kind": "adamw", "beta": 1}, "unknown key `optim.beta`", "nearest: `betas`"),
        ({"lr": 1.0}, "`optim.kind` is missing", "known: adamw"),
        ({"kind": "adamw", "lr": "fast"}, "`optim.lr` must be a number, not 'fast'", None),
        ({"kind": "adamw", "lr": True}, "`optim.lr` must be a number", None),
        ({"kind": "adamw", "lr": -1.0}, "at least 0", None),
        ({"kind": "adamw", "betas": [0.9]}, "two numbers", None),
        ({"kind": "adamw", "betas": [0.9, "x"]}, r"optim.betas\[1\]", None),
        ({"kind": "adamw", "betas": 0.9}, "a list of numbers", None),
    ],
)
def test_unusable_optimizers_are_bad_input(config, match, hint):
    with pytest.raises(BadInput, match=match) as caught:
        build_optim(config, nn.Linear(2, 2))
    if hint is not None:
        assert caught.value.hints == (hint,)
