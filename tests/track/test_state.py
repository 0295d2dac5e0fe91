"""What a State collects, refuses, and takes back."""

from __future__ import annotations

import collections
import random
from pathlib import PurePosixPath

import numpy as np
import pytest
import torch
from torch import nn

from expdb.errors import BadInput
from expdb.track.plain import digest_of, plain
from expdb.track.state import State
from tests.track import tiny_training as tiny


def stepped(state, num=2):
    """Make a few updates so that the optimizer has a state."""
    for _ in range(num):
        for model in state.models.values():
            for param in model.parameters():
                param.grad = torch.randn_like(param)
        for optim in state.optims.values():
            optim.step()
        for sched in state.scheds.values():
            sched.step()
    return state


def through_a_file(parts, path):
    torch.save({name: part.tree for name, part in parts.items()}, path)
    trees = torch.load(path, map_location="cpu", weights_only=True)
    return {name: type(part)(tree=trees[name], names=part.names) for name, part in parts.items()}


def test_everything_comes_back_through_a_file(tmp_path):
    torch.manual_seed(1)
    state = stepped(tiny.build())
    state.models[""].seen += 5
    state.loop.tokens, state.loop.best_value = 123, 0.5
    state.extra["phase"]["n"] = 9
    next(iter(state.loader))
    parts = through_a_file(state.collect(7), tmp_path / "state.pt")
    torch.manual_seed(2)
    other = tiny.build()
    assert other.load(parts) == ()
    assert other.extra["phase"] == {"name": "warm", "n": 9}
    assert (other.loop.step, other.loop.tokens, other.loop.best_value) == (7, 123, 0.5)
    steps = {int(one["step"]) for one in other.optims[""].state.values()}
    assert steps == {2}
    assert other.digest() == state.digest()


def test_the_digest_sees_one_bit_of_any_part():
    state = stepped(tiny.build())
    before = state.digest()
    assert state.digest() == before
    with torch.no_grad():
        flat = state.models[""].embed.weight.view(torch.int32)
        flat[3, 3] ^= 1
    after = state.digest()
    assert after != before
    with torch.no_grad():
        flat[3, 3] ^= 1
    assert state.digest() == before
    torch.rand(1)
    assert state.digest() != before
    assert digest_of([-0.0]) != digest_of([0.0])
    assert digest_of(torch.ones(2)) != digest_of(torch.ones(2, 1))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**1999),
        0.5,
        2 + 3j,
        "text \ud800 of any kind",
        b"bytes",
        (1, [2, {"a": {3}}]),
        {1: "int key", (1, 2): "tuple key", None: 0},
        collections.OrderedDict(a=1),
        torch.float32,
        torch.device("cpu"),
        torch.Size([1, 2]),
        torch.zeros(0),
        nn.Parameter(torch.ones(2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_all_that_is_taken_loads_with_weights_only(value, tmp_path):
    torch.save(plain(value, "value"), tmp_path / "one.pt")
    back = torch.load(tmp_path / "one.pt", weights_only=True)
    assert digest_of(back) == digest_of(plain(value, "value"))


@pytest.mark.parametrize(
    ("value", "path", "kind"),
    [
        ({"history": [1, np.float64(2)]}, "extra.it.plain.history[1]", "numpy.float64"),
        ({"a b": {3: np.zeros(2)}}, "extra.it.plain.a b[3]", "numpy.ndarray"),
        (collections.deque([1]), "extra.it.plain", "collections.deque"),
        (collections.defaultdict(int), "extra.it.plain", "collections.defaultdict"),
        (lambda: 0, "extra.it.plain", "function"),
        (PurePosixPath("x"), "extra.it.plain", "pathlib.PurePosixPath"),
        (2**5000, "extra.it.plain", "int"),
        ([range(3)], "extra.it.plain[0]", "range"),
        ({frozenset([1]): 1}, "the key frozenset({1}) of extra.it.plain", "frozenset"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_would_not_load_is_refused_by_path_and_type(value, path, kind):
    state = State(model=nn.Linear(2, 2), extra={"it": value})
    with pytest.raises(BadInput) as caught:
        state.collect()
    assert f"`{path}` is a {kind}," in caught.value.message


def test_a_value_that_contains_itself_is_refused():
    ring = []
    ring.append(ring)
    with pytest.raises(BadInput, match="contains itself"):
        State(model=nn.Linear(2, 2), extra={"ring": ring}).collect()


def test_a_custom_value_inside_an_optimizer_is_refused():
    state = stepped(tiny.build())
    state.optims[""].state[next(state.models[""].parameters())]["note"] = np.int64(1)
    with pytest.raises(BadInput, match=r"`optim\.state\[0\]\.note` is a numpy\.int64"):
        state.collect()


def test_lists_and_dicts_of_models_and_optimizers(tmp_path):
    def make():
        models = {"actor": nn.Linear(2, 3), "critic": nn.Linear(2, 1)}
        optims = [torch.optim.AdamW(m.parameters()) for m in models.values()]
        scheds = [torch.optim.lr_scheduler.StepLR(o, 2) for o in optims]
        return State(model=models, optim=optims, sched=scheds)

    state = stepped(make())
    parts = through_a_file(state.collect(1), tmp_path / "state.pt")
    assert parts["model"].names == ("actor", "critic")
    assert parts["optim"].names == ("0", "1")
    other = make()
    other.load(parts)
    assert other.digest() == state.digest()
    one = State(model=nn.Linear(2, 3), optim=torch.optim.AdamW([nn.Parameter(torch.ones(1))]))
    one.scheds = other.scheds
    with pytest.raises(
        BadInput, match="model does not fit: saved actor, critic, given a single one"
    ):
        one.load(parts)


def test_tied_weights_stay_tied(tmp_path):
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    model[1].weight = model[0].weight
    parts = through_a_file(State(model=model).collect(0), tmp_path / "state.pt")
    tree = parts["model"].tree
    assert tree["0.weight"].data_ptr() == tree["1.weight"].data_ptr()


def test_a_part_that_is_missing_or_left_over_is_named():
    parts = tiny.build().collect(0)
    model = tiny.TinyDecoder()
    with pytest.raises(BadInput, match="the checkpoint has a ema, and the State given has none"):
        tiny.build(ema=None).load(parts)
    without = tiny.build(sched=None).collect(0)
    with pytest.raises(BadInput, match="the checkpoint has no sched; it has ema, model, optim"):
        tiny.build().load(without)
    with pytest.raises(BadInput, match=r"the checkpoint has no extra\.more"):
        tiny.build(extra={"more": 1}).load(parts)
    wide = tiny.TinyDecoder(width=32)
    optim = torch.optim.AdamW(wide.parameters())
    sched = torch.optim.lr_scheduler.LambdaLR(optim, lambda k: 1.0)
    with pytest.raises(BadInput, match=r"checkpoint's model does not fit: .*TinyDecoder") as caught:
        tiny.build(model=wide, optim=optim, sched=sched).load(parts)
    assert any("size mismatch" in line for line in caught.value.details)
    two_groups = torch.optim.AdamW([{"params": [p]} for p in model.parameters()])
    with pytest.raises(BadInput, match=r"checkpoint's optim does not fit: .*group"):
        tiny.build(model=model, optim=two_groups, sched=sched).load(parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"model": None}, "State has no model"),
        ({"model": 3}, "`model` is a int without state_dict"),
        ({"model": nn.Linear(1, 1), "optim": [3]}, r"`optim\[0\]` is a int without"),
    ],
)
def test_a_state_of_the_wrong_things_is_refused(parts, message):
    with pytest.raises(BadInput, match=message):
        State(**parts)


def test_a_loader_without_a_state_is_named_when_loading():
    parts = tiny.build(loader=[1, 2]).collect(0)
    [note] = tiny.build(loader=[1, 2]).load(parts)
    assert note == "the loader has no state_dict: its data starts from the beginning"


def test_another_number_of_ranks_is_named_and_draws_nothing():
    state = tiny.build()
    parts = state.collect(0)
    both = {**parts, "ranks": type(parts["ranks"])(tree=parts["ranks"].tree * 2)}
    random.seed(9)
    expected = random.Random(9).random()
    [note] = tiny.build().load(both)
    assert note.startswith("saved by 2 ranks, loaded by 1")
    assert random.random() == expected


class Test_a_fork:
    def build(self, lr, **hyper):
        model = nn.Linear(2, 2)
        optim = torch.optim.AdamW(model.parameters(), lr=lr, **hyper)
        sched = torch.optim.lr_scheduler.LambdaLR(optim, lambda k: 1.0 / (k + 1))
        return State(model=model, optim=optim, sched=sched)

    def test_trains_with_its_own_hyper_parameters_at_the_place_of_the_schedule(self):
        parts = stepped(self.build(0.01)).collect(2)
        fork = self.build(0.03, betas=(0.8, 0.9), weight_decay=0.5)
        fork.load(parts, fork=True)
        [group] = fork.optims[""].param_groups
        assert group["lr"] == pytest.approx(0.03 / 3)
        assert (group["betas"], group["weight_decay"]) == ((0.8, 0.9), 0.5)
        fork.optims[""].step()
        fork.scheds[""].step()
        assert group["lr"] == pytest.approx(0.03 / 4)
        assert {int(one["step"]) for one in fork.optims[""].state.values()} == {2}

    def test_with_an_equal_config_is_exactly_a_resume(self):
        state = stepped(self.build(0.01), num=7)
        fork = self.build(0.01)
        fork.load(state.collect(7), fork=True)
        assert fork.digest() == state.digest()

    def test_without_a_schedule_takes_the_lr_of_its_config(self):
        def build(lr):
            model = nn.Linear(2, 2)
            return State(model=model, optim=torch.optim.SGD(model.parameters(), lr=lr))

        fork = build(0.5)
        fork.load(stepped(build(0.1)).collect(2), fork=True)
        assert fork.optims[""].param_groups[0]["lr"] == 0.5

    def test_names_parts_it_does_not_use(self):
        parts = tiny.build().collect(0)
        notes = tiny.build(ema=None).load(parts, fork=True)
        assert notes == ("the checkpoint's ema is not used",)

    def test_a_resume_brings_the_saved_hyper_parameters_back(self):
        parts = stepped(self.build(0.01)).collect(2)
        resumed = self.build(0.03)
        resumed.load(parts)
        assert resumed.optims[""].param_groups[0]["lr"] == pytest.approx(0.01 / 3)


def test_compiled_and_wrapped_models_save_under_their_own_names():
    model = nn.Linear(2, 2)

    class Compiled(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self._orig_mod = inner

    tree = State(model=Compiled(model)).collect(0)["model"].tree
    assert list(tree) == ["weight", "bias"]
