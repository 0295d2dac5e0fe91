"""What the first update shows of an untrained model: its init, its labels, and what it sees."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from expdb.track.plain import digest_of
from tests.watch.watched_run import Noted, Tiny, batch, tiny


class Peeking(Tiny):
    """Looks one token ahead."""

    def forward(self, tokens):
        ahead = F.one_hot(tokens.roll(-1, 1), 17).float()
        return super().forward(tokens) + 0.1 * ahead


class Odd(Tiny):
    """Draws, counts its calls, and has a head that sees whole batches only."""

    def __init__(self, rows=None):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.drop, self.rows = nn.Dropout(0.5), rows

    def forward(self, tokens):
        if self.rows is not None and len(tokens) != self.rows:
            raise RuntimeError("another batch size")
        self.calls += 1
        return super().forward(tokens) + self.drop(torch.ones(17))


def update(model, run, watch, optim, *, shift=1, tokens=None):
    """One update whose labels are the tokens `shift` places on."""
    tokens = batch() if tokens is None else tokens
    inputs, labels = tokens[:, :-2], tokens[:, shift : tokens.shape[1] - 2 + shift]
    optim.zero_grad()
    logits = model(inputs)
    watch.observe(logits, labels)
    F.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    optim.step()
    run.step += 1


def shown(model, *, shift=1, step=0, tokens=None, max_steps=None):
    run = Noted(kinds=["start"])
    run.step = step
    optim = torch.optim.SGD(model.parameters(), lr=0.0)
    watch = run.watch(model, optim)
    watch.max_steps = max_steps
    for _ in range(3):
        update(model, run, watch, optim, shift=shift, tokens=tokens)
    assert run.console.warnings == []
    found = {key: value for key, value in run.points.items() if key[0].startswith("init/")}
    assert {at for _, at in found} <= {step}
    return {key: value for (key, _), value in found.items()}


def test_the_next_token_of_a_causal_model():
    found = shown(tiny(), max_steps=40)
    assert found["init/leak"] == 0.0
    assert 0 < found["init/unshifted"] < 0.3
    assert abs(found["init/loss_excess"]) < 0.3
    assert 0.3 < found["init/weight_gain"] < 1.0  # torch draws them with 1 / sqrt(3)
    assert found["init/max_steps"] == 40.0
    assert set(found) == {
        "init/leak", "init/unshifted", "init/loss_excess", "init/weight_gain", "init/max_steps",
    }  # fmt: skip


def test_a_model_that_sees_the_next_token():
    torch.manual_seed(0)
    assert shown(Peeking())["init/leak"] > 1e-2


def test_labels_at_their_own_place():
    found = shown(tiny(), shift=0)
    assert found["init/unshifted"] == 1.0
    assert "init/leak" not in found  # a model that does not predict may look ahead


def test_tokens_that_are_all_alike_show_no_leak():
    found = shown(tiny(), tokens=torch.full((4, 12), 3))
    assert "init/leak" not in found  # in another order they are the same


def test_labels_that_do_not_count_are_left_out():
    tokens = batch()
    masked = tokens.clone()
    masked[:, ::2] = -100
    model, run = tiny(), Noted(kinds=["start"])
    optim = torch.optim.SGD(model.parameters(), lr=0.0)
    watch = run.watch(model, optim)
    logits = model(tokens[:, :-1])
    watch.observe(logits, masked[:, 1:])
    logits.sum().backward()
    optim.step()
    found = run.at(0)
    rows = logits.detach().flatten(0, 1)
    right = F.cross_entropy(rows, masked[:, 1:].flatten(), ignore_index=-100) - math.log(17)
    assert found["init/loss_excess"] == pytest.approx(float(right), abs=1e-6)
    assert found["init/leak"] == 0.0


def test_weights_that_are_too_large_and_layers_that_shrink():
    model = tiny()
    with torch.no_grad():
        model.head.weight.normal_(std=3.0)
        model.blocks[1]["mlp"][2].weight *= 1e-3
        model.blocks[1]["mlp"][2].bias *= 1e-3
    run = Noted()
    optim = torch.optim.SGD(model.parameters(), lr=0.0)
    update(model, run, run.watch(model, optim), optim)
    found = run.at(0)
    assert found["init/loss_excess"] > 1.0
    assert found["init/weight_gain"] == pytest.approx(12.0, rel=0.2)
    assert found["init/act_ratio"] < 0.1


def test_later_in_training_it_is_not_looked_at_again():
    assert shown(tiny(), step=7) == {}
    assert shown(tiny(), step=7, max_steps=40) == {}  # a resume has the points of a whole run


def test_without_labels_only_the_weights_are_judged():
    model, run = tiny(), Noted(kinds=["start"])
    optim = torch.optim.SGD(model.parameters(), lr=0.0)
    run.watch(model, optim)
    model(batch()).sum().backward()
    optim.step()
    assert set(run.at(0)) == {"init/weight_gain"}


def test_training_is_the_same_bits_with_it_and_without():
    def trained(kinds):
        torch.manual_seed(0)
        model, run = Odd(), Noted(kinds=kinds)
        optim = torch.optim.AdamW(model.parameters(), lr=0.01)
        watch = run.watch(model, optim)
        for _ in range(3):
            update(model, run, watch, optim)
        assert model.training
        return digest_of(model.state_dict()), torch.get_rng_state().tolist(), run

    with_it, without = trained(["start"]), trained(["memory"])
    assert with_it[:2] == without[:2]
    assert "init/leak" in with_it[2].at(0)


def test_a_model_that_refuses_one_sequence_is_not_judged_and_trains_on():
    torch.manual_seed(0)
    found = shown(Odd(rows=4))
    assert "init/leak" not in found
    assert "init/loss_excess" in found


def test_logits_may_come_by_name_and_tokens_by_keyword():
    class Named(Tiny):
        def forward(self, *, input_ids, mask):
            assert mask.shape[0] == input_ids.shape[0]
            return {"loss": None, "logits": super().forward(input_ids)}

    torch.manual_seed(0)
    model, run, tokens = Named(), Noted(kinds=["start"]), batch()
    optim = torch.optim.SGD(model.parameters(), lr=0.0)
    watch = run.watch(model, optim)
    logits = model(input_ids=tokens[:, :-1], mask=torch.ones(4, 11))["logits"]
    watch.observe(logits, tokens[:, 1:])
    logits.sum().backward()
    optim.step()
    assert run.at(0)["init/leak"] == 0.0
