"""`run.watch` in a loop of one's own, and what it must not do there."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import expdb
from expdb.store.points import read_series
from expdb.track.watch.units import is_compiled
from tests.watch.watched_run import ALWAYS, Noted, batch, loss_of, step, tiny


def test_the_optimizers_steps_are_the_updates(tmp_path):
    model = tiny()
    optim = torch.optim.AdamW(model.parameters())
    settings = {"print": "quiet", "watch": {"budget_pct": 0}}
    with expdb.start({"expdb": settings}, name="own", store=tmp_path) as run:
        watch = run.watch(model, optim, every=2)
        for number in range(5):
            tokens = batch(number)
            loss = loss_of(model, tokens)
            watch.observe(model(tokens[:, :-1]), tokens[:, 1:])
            optim.zero_grad()
            loss.backward()
            optim.step()
            run.log({"train/loss": loss}, step=number)
    table = read_series(run.dir, ["layer/head/grad_norm", "train/token_acc"])
    assert sorted(table["step"].to_pylist()) == [0, 0, 2, 2, 4, 4]


def test_several_optimizers_are_one_update():
    model, run = tiny(), Noted(kinds=["norms"])
    optims = [
        torch.optim.AdamW(model.embed.parameters()),
        torch.optim.SGD([p for n, p in model.named_parameters() if "embed" not in n], lr=0.1),
    ]
    run.watch(model, optims)
    for _ in range(2):
        loss_of(model, batch()).backward()
        for one in optims:
            one.step()
        model.zero_grad()
    for number in range(2):
        found = run.at(number)
        assert found["layer/embed/update_ratio"] > 0
        assert found["layer/head/update_ratio"] > 0


def test_an_evaluation_between_updates_is_not_seen():
    model, run = tiny(), Noted(kinds=["activations"])
    optim = torch.optim.SGD(model.parameters(), lr=0.0)
    run.watch(model, optim)
    with torch.no_grad():
        model.eval()
        model.embed.weight.mul_(100)
        loss_of(model, batch())
        model.embed.weight.div_(100)
        model.train()
    step(model, optim)
    assert run.at(0)["layer/embed/act_max"] < 10


def test_a_forward_pass_that_is_computed_again_counts_once():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.router, self.weight = Router(), nn.Parameter(torch.ones(()))

        def forward(self, x):
            return checkpoint(self.router, x, use_reentrant=False) * self.weight

    class Router(nn.Module):
        def __init__(self):
            super().__init__()
            self.scores = nn.Linear(3, 3)

        def forward(self, x):
            return self.scores(x).tanh()

        def monitor_routing(self, args, output):
            calls.append(1)
            return {"load": torch.tensor([2, 1])}

    calls = []
    model, run = Counts(), Noted(kinds=["moe"])
    optim = torch.optim.SGD(model.parameters(), lr=0.0)
    run.watch(model, optim)
    model(torch.randn(2, 3, requires_grad=True)).sum().backward()
    optim.step()
    assert len(calls) == 1
    assert run.at(0)["layer/router/moe_max_vio"] == pytest.approx(1 / 3)


def test_generators_gradients_and_weights_stay_as_they_are():
    ends = []
    for watched in (False, True):
        model = tiny()
        optim = torch.optim.AdamW(model.parameters(), lr=1e-2)
        torch.manual_seed(5)
        if watched:
            Noted(histograms=True, rare_every=1).watch(model, optim)
        for number in range(4):
            step(model, optim, batch(number))
        ends.append((model.state_dict(), [p.grad for p in model.parameters()], torch.rand(3)))
    (weights, grads, drawn), (other, others, again) = ends
    assert all(torch.equal(weights[key], other[key]) for key in weights)
    assert all(torch.equal(a, b) for a, b in zip(grads, others, strict=True))
    assert torch.equal(drawn, again)


@pytest.mark.slow
def test_a_compiled_model_has_norms_and_a_word_about_the_rest():
    model, run = tiny(), Noted()
    wrapped = torch.compile(model, backend="eager")  # never called: nothing is compiled
    assert is_compiled(wrapped)
    assert not is_compiled(model)
    other = tiny()
    other.blocks[0]["mlp"].compile(backend="eager")
    assert is_compiled(other)
    optim = torch.optim.AdamW(model.parameters())
    run.watch(wrapped, optim)
    step(model, optim)
    assert any("compiled" in one for one in run.console.warnings)
    assert "layer/head/update_ratio" in run.at(0)
    assert not [key for key in run.at(0) if "/act_" in key]


def test_a_second_watch_takes_the_place_of_the_first():
    model, run = tiny(), Noted(kinds=["norms"])
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    run.watch(model, optim)
    run.watch(model, optim)
    step(model, optim)  # a point that is logged twice is an error of `Noted`
    run.watched.close()
    step(model, optim)
    assert run.at(1) == {}
    assert not optim._optimizer_step_post_hooks


def test_a_run_that_records_nothing_looks_at_nothing(tmp_path):
    model = tiny()
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    with expdb.start({"expdb": {"watch": ALWAYS}}, mode="off", store=tmp_path) as run:
        watch = run.watch(model, optim)
        step(model, optim)
        watch.observe(torch.zeros(1, 2, 17), torch.zeros(1, 2, dtype=torch.int64))
    assert not watch.is_sampling
    assert not model.embed._forward_hooks


@pytest.mark.gpu
def test_on_cuda_all_of_it_arrives_and_nothing_waits(tmp_path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    settings = {"print": "quiet", "watch": {**ALWAYS, "rare_every": 3, "histograms": True}}
    ends = []
    for enabled in (False, True):
        torch.manual_seed(0)
        model = tiny().cuda()
        optim = torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=True)
        with expdb.start({"expdb": settings}, name="cuda", store=tmp_path) as run:
            if enabled:
                run.watch(model, optim)
            for number in range(6):
                tokens = batch(number).cuda()
                mode = "error" if number in (1, 2, 4, 5) else "default"  # rare samples copy more
                optim.zero_grad()
                loss = loss_of(model, tokens)
                torch.cuda.set_sync_debug_mode(mode)
                try:
                    loss.backward()
                    optim.step()
                finally:
                    torch.cuda.set_sync_debug_mode("default")
        ends.append({key: value.cpu() for key, value in model.state_dict().items()})
    assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])
    keys = set(read_series(run.dir)["key"].to_pylist())
    assert {"layer/head/update_ratio", "layer/embed/emb_rank", "sys/memory_retries",
            "layer/blocks.0.attn/attn_entropy"} <= keys  # fmt: skip
