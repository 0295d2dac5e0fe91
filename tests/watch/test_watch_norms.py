"""Norms by layer, updates out of the optimizer's state, staleness (M29, part 2.1)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from expdb.errors import BadInput
from expdb.track.watch import norms
from expdb.track.watch.units import units_of
from tests.watch.watched_run import Noted, batch, loss_of, step, tiny


def kinds(model):
    return {unit.name: unit.kind for unit in units_of(model) if unit.params}


def test_every_parameter_is_in_one_layer_of_a_kind():
    model = tiny()
    assert kinds(model) == {
        "embed": "embed",
        "blocks.0.norm": "norm",
        "blocks.0.attn": "attn",
        "blocks.0.mlp": "mlp",
        "blocks.1.norm": "norm",
        "blocks.1.attn": "attn",
        "blocks.1.mlp": "mlp",
        "head": "head",
    }
    found = [id(p) for unit in units_of(model) for _, p in unit.params]
    assert sorted(found) == sorted(map(id, model.parameters()))


def test_a_mixture_is_opened_and_a_tied_head_counts_once():
    from expdb.demo.build import build_model

    small = {"d": 8, "layers": 2, "heads": 2, "hidden": 8, "expert_hidden": 4, "experts": 3}
    found = kinds(build_model({"kind": "moe", **small}, seed=0))
    assert found["blocks.1.mlp.experts"] == "expert"
    assert found["blocks.1.mlp.shared"] == "mlp"
    assert found["blocks.1.mlp.router"] == "other"
    model = tiny()
    model.head.weight = model.embed.weight
    assert [name for unit in units_of(model) if unit.kind == "head" for name, _ in unit.params] == [
        "head.bias"
    ]


def test_foreign_models_get_kinds_too():
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    assert kinds(layer) == {
        "self_attn": "attn", "linear1": "mlp", "linear2": "mlp", "norm1": "norm", "norm2": "norm",
    }  # fmt: skip
    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    assert kinds(plain) == {"0": "other", "2": "other"}
    plain[0].monitor_kind = "attn"
    assert kinds(plain)["0"] == "attn"


def stack_named(name, *children):
    kind = type(name, (nn.Module,), {})
    module = kind()
    for key, child in children:
        module.add_module(key, child)
    return module


def test_a_stack_whose_class_has_the_name_of_a_layer_is_opened():
    layer = stack_named("FooMoeLayer", ("self_attn", nn.Linear(2, 2)), ("mlp", nn.Linear(2, 2)))
    outer = stack_named("Outer", ("layer", layer))
    assert kinds(outer) == {"layer.self_attn": "attn", "layer.mlp": "mlp"}


OPTIMS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.1),
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=1e-2, amsgrad=True),
    "adamw_tensor_lr": lambda p: torch.optim.AdamW(p, lr=torch.tensor(1e-2, dtype=torch.float64)),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
}


@pytest.mark.parametrize("name", OPTIMS)
def test_updates_out_of_the_state_are_what_the_weights_moved(name):
    model, run = tiny().double(), Noted(kinds=["norms"])
    optim = OPTIMS[name](model.parameters())
    run.watch(model, optim)
    for number in range(4):
        before = {key: p.detach().clone() for key, p in model.named_parameters()}
        step(model, optim, batch(number))
        found = run.at(number)
        for unit in units_of(model):
            if not unit.params:
                continue
            moved = torch.cat([(p.detach() - before[key]).flatten() for key, p in unit.params])
            weights = torch.cat([p.detach().flatten() for _, p in unit.params])
            place = f"layer/{unit.name}"
            assert found[f"{place}/update_norm"] == pytest.approx(float(moved.norm()), rel=1e-6)
            assert found[f"{place}/param_norm"] == pytest.approx(float(weights.norm()), rel=1e-9)
            ratio = float(moved.norm() / weights.norm())
            assert found[f"{place}/update_ratio"] == pytest.approx(ratio, rel=1e-6)


def test_squares_of_layers_and_of_kinds_add_up_to_the_whole():
    """M29."""
    model, run = tiny(), Noted(kinds=["norms"])
    optim = torch.optim.AdamW(model.parameters())
    run.watch(model, optim)
    step(model, optim)
    whole = float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]))
    for place in ("layer", "group"):
        squares = [
            value**2
            for key, value in run.at(0).items()
            if key.startswith(f"{place}/") and key.endswith("/grad_norm")
        ]
        assert math.sqrt(sum(squares)) == pytest.approx(whole, rel=1e-6)


def test_staleness_is_one_at_first_and_grows_with_a_sudden_gradient():
    model, run = nn.Linear(3, 1, bias=False), Noted(kinds=["norms"])
    optim = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), lr=1e-9)
    run.watch(model, optim)
    for number in range(40):
        optim.zero_grad()
        size = 10.0 if number == 39 else 1.0
        (model(torch.full((1, 3), size))).sum().backward()
        optim.step()
    assert run.at(0)["layer/model/adam_staleness"] == pytest.approx(1.0)
    assert run.at(38)["layer/model/adam_staleness"] == pytest.approx(1.0)
    # v^ = (0.95 v + 0.05 * 100) with v = 1, but for the bias correction
    bias = 1 - 0.95**40
    second = (0.95 * (1 - 0.95**39) + 0.05 * 100) / bias
    stale = run.at(39)["layer/model/adam_staleness"]
    assert stale == pytest.approx(10 / math.sqrt(second), rel=1e-4)
    assert stale > 2.3


def test_one_layers_gradient_times_thirty_is_seen_in_that_layer_alone():
    """M30: the whole norm is quiet, as the layer is small."""
    model, run = tiny(), Noted(kinds=["norms"])
    optim = torch.optim.AdamW(model.parameters(), lr=1e-4)
    run.watch(model, optim)
    for number in range(6):
        optim.zero_grad()
        loss_of(model, batch()).backward()
        if number == 5:
            for param in model.blocks[1]["norm"].parameters():
                param.grad *= 30
        optim.step()
    last, before = run.at(5), run.at(4)
    key = "layer/blocks.1.norm/grad_norm"
    assert last[key] / before[key] == pytest.approx(30, rel=0.1)
    others = [one for one in last if one.endswith("/grad_norm") and "blocks.1.norm" not in one]
    others.remove("group/norm/grad_norm")
    assert all(last[one] / before[one] < 1.2 for one in others)


def test_rows_stand_for_a_large_tensor(monkeypatch):
    monkeypatch.setattr(norms, "LIMIT", 1024)
    torch.manual_seed(0)
    model, run = nn.Linear(256, 400, bias=False), Noted(kinds=["norms"])
    optim = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run.watch(model, optim)
    before = model.weight.detach().clone()
    model(torch.randn(8, 256)).square().sum().backward()
    optim.step()
    moved = float((model.weight.detach() - before).norm())
    assert run.at(0)["layer/model/update_norm"] == pytest.approx(moved, rel=0.02)
    exact = float(model.weight.grad.norm())
    assert run.at(0)["layer/model/grad_norm"] == pytest.approx(exact, rel=1e-5)


def test_what_does_not_fit_is_refused_by_name():
    run = Noted()
    with pytest.raises(BadInput, match="the model is a ReLU without parameters"):
        run.watch(nn.ReLU())
    with pytest.raises(BadInput, match="watch has no option 'evry'") as caught:
        run.watch(nn.Linear(1, 1), evry=3)
    assert caught.value.hints == ("nearest: every",)
    for wrong in ({"every": 0}, {"kinds": ["norm"]}, {"phase": "hot"}, {"rare_every": -1}):
        with pytest.raises(BadInput, match=r"watch\."):
            run.watch(nn.Linear(1, 1), **wrong)
