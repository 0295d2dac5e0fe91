"""`Loop` watches by itself: bits stay, costs are kept, micro-batches tell the noise (T02, R09)."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import expdb
from expdb.store.media import read_media
from expdb.store.points import read_series
from expdb.track.loop import Loop
from expdb.track.plain import digest_of
from expdb.track.state import State
from tests.watch.watched_run import ALWAYS, tiny


class Batches:
    """Micro-batches of tokens, each with its number as an id."""

    def __init__(self, rows=2, bad=()):
        self.rows, self.bad, self.at = rows, bad, 0

    def __iter__(self):
        while True:
            generator = torch.Generator().manual_seed(self.at)
            tokens = torch.randint(0, 17, (self.rows, 13), generator=generator)
            if self.at in self.bad:
                tokens[0, 0] = 16
            self.at += 1
            yield {"tokens": tokens, "ids": [f"doc{self.at - 1}"]}


def train(store, watch, *, steps=6, model=None, loader=None, accum=2, **options):
    """Train; return the run, the loop, and the digest of the weights."""
    torch.manual_seed(0)
    model = tiny() if model is None else model
    optim = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = options.pop("scaler", None)
    state = State(model=model, optim=optim, loader=loader or Batches(), scaler=scaler)
    settings = {"print": "quiet", "watch": watch, "mode": "on"}
    with expdb.start({"seed": 1, "expdb": settings}, name="tiny", store=store) as run:
        loop = Loop(run, state, max_steps=steps, accum=accum, clip=1.0, **options)
        for update in loop:
            for one in update:
                tokens = one["tokens"]
                logits, targets = model(tokens[:, :-1]), tokens[:, 1:]
                update.observe(logits, targets)
                nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
                update.backward(nll, targets.numel())
            update.step()
    return run, loop, digest_of(model.state_dict())


def points_of(run):
    found = {}
    for row in read_series(run.dir).to_pylist():
        found.setdefault(row["key"], {})[row["step"]] = row["value"]
    return found


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    store = tmp_path_factory.mktemp("watched") / "runs"
    options = {**ALWAYS, "histograms": True, "rare_every": 2, "bytes_per_token": 2.0}
    run, _, digest = train(store, {**options, "peak_flops": 1e9})
    return run, points_of(run), digest


def test_weights_are_the_same_bits_with_everything_on_and_off(watched, tmp_path):
    _, loop, bare = train(tmp_path / "runs", False)
    assert loop._engine.watch is None
    assert bare == watched[2]
    assert train(tmp_path / "runs", ALWAYS, model=nudged())[2] != bare  # the comparison can fail


def nudged():
    model = tiny()
    with torch.no_grad():
        model.head.bias[0] += 1e-6
    return model


def test_every_kind_of_signal_arrives_and_is_registered(watched):
    from expdb.monitor.signals import signal_of

    run, points, _ = watched
    named = {"train/ppl", "train/token_acc", "train/bits_per_byte", "train/log_z", "train/mfu",
             "train/noise_scale", "train/clip_fraction", "train/step_time_s", "sys/rss_bytes",
             "sys/memory_peak_bytes", "sys/memory_optimizer_bytes", "sys/monitor_overhead_pct",
             "train/repeat_share", "layer/embed/emb_rank", "group/attn/grad_norm",
             "layer/blocks.1.attn/attn_entropy", "layer/blocks.0.mlp/act_dead"}  # fmt: skip
    assert named <= set(points)
    assert [key for key in points if signal_of(key) is None] == []
    assert set(points["layer/head/update_ratio"]) == set(range(6))
    for kind, key in (("image", "layer/blocks.0.attn/attention"), ("hist", "layer/embed/act")):
        rows = [one for one in read_media(run.dir, kind).to_pylist() if one["key"] == key]
        assert [one["step"] for one in rows] == [0, 2, 4]


def test_values_that_belong_together(watched):
    _, points, _ = watched
    for step, loss in points["train/loss"].items():
        assert points["train/ppl"][step] == pytest.approx(math.exp(loss))
        assert points["train/bits_per_byte"][step] == pytest.approx(loss / 2 / math.log(2))
        norms = [one[step] for key, one in points.items() if key.startswith("layer/")
                 and key.endswith("/grad_norm")]  # fmt: skip
        whole = points["train/grad_norm"][step]
        assert math.sqrt(sum(n * n for n in norms)) == pytest.approx(whole, rel=1e-6)
    clipped = [norm > 1.0 for norm in points["train/grad_norm"].values()]
    assert points["train/clip_fraction"][5] == pytest.approx(sum(clipped) / 6)


def test_noise_scale_is_that_of_the_first_micro_batch_against_all(tmp_path):
    """By hand: gradients of one micro-batch and of both, over 192 and 384 tokens."""
    run, _, _ = train(
        tmp_path / "runs", {**ALWAYS, "kinds": ["norms"]}, steps=1, loader=Batches(16)
    )
    model, batches = tiny_again(), iter(Batches(16))
    tokens = [next(batches)["tokens"] for _ in range(2)]

    def squared(parts):
        model.zero_grad()
        for one in parts:
            logits = model(one[:, :-1])
            nll = F.cross_entropy(logits.flatten(0, 1), one[:, 1:].flatten(), reduction="sum")
            (nll / (192 * len(parts))).backward()
        return sum(float(p.grad.square().sum()) for p in model.parameters())

    small, big = squared(tokens[:1]), squared(tokens)
    noise, signal = (small - big) / (1 / 192 - 1 / 384), (384 * big - 192 * small) / 192
    assert points_of(run)["train/noise_scale"][0] == pytest.approx(noise / signal, rel=1e-4)


def tiny_again():
    torch.manual_seed(0)
    return tiny()


def test_accumulated_gradients_of_unequal_masks_are_those_of_one_batch(tmp_path):
    """O21: norms of each layer equal to 1e-6, and the mean of means is another number."""
    masks = [3, 24]
    found = {}
    for accum in (1, 2):
        torch.manual_seed(0)
        model = tiny().double()
        state = State(
            model=model, optim=torch.optim.SGD(model.parameters(), lr=0.0), loader=Batches()
        )
        settings = {"print": "quiet", "watch": {**ALWAYS, "kinds": ["norms"]}}
        with expdb.start({"seed": accum, "expdb": settings}, store=tmp_path / "runs") as run:
            for update in Loop(run, state, max_steps=1, accum=accum):
                parts = [next(iter(Batches()))["tokens"], torch.full((2, 13), 3)]
                given = [[parts[0], parts[1]]] if accum == 1 else [[parts[0]], [parts[1]]]
                for _, some in zip(update, given, strict=False):
                    nll, num = 0.0, 0
                    for tokens in some:
                        keep = masks[0] if tokens is parts[0] else masks[1]
                        each = F.cross_entropy(
                            model(tokens[:, :-1]).flatten(0, 1),
                            tokens[:, 1:].flatten(),
                            reduction="none",
                        )
                        nll, num = nll + each[:keep].sum(), num + keep
                    update.backward(nll, num)
                update.step()
        found[accum] = points_of(run)
    for key, values in found[1].items():
        if key.endswith("/grad_norm"):
            assert found[2][key][0] == pytest.approx(values[0], rel=1e-6), key


def test_a_skipped_step_is_counted_and_changes_nothing(tmp_path):
    """R09: the scale is halved, the weights stay, and no report is made of it."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=1000)
    model = tiny_again()
    model.head.bias.register_hook(lambda grad: grad * torch.inf)
    before = digest_of(model.state_dict())
    run, _, after = train(tmp_path / "runs", ALWAYS, steps=1, model=model, scaler=scaler)
    points = points_of(run)
    assert (points["train/num_skipped_steps"][0], points["amp/scale"][0]) == (1.0, 2.0**15)
    assert after == before
    assert (
        not (run.dir / "events.jsonl").exists()
        or "forensics" not in (run.dir / "events.jsonl").read_text()
    )


class Broken(nn.Module):
    """An MLP whose output is infinite where a sequence begins with token 16."""

    def __init__(self, inner, when):
        super().__init__()
        self.inner, self.when = inner, when

    def forward(self, x):
        bad = torch.zeros_like(x) + torch.where(self.when(), torch.inf, 0.0)
        return self.inner(x) + bad


def test_an_infinity_in_layer_2_is_traced_to_it_and_to_its_batch(tmp_path):
    """O22. The number comes back, and the next spell is told again."""
    torch.manual_seed(0)
    model = tiny()
    seen = {}
    model.register_forward_pre_hook(lambda _, args: seen.update(tokens=args[0]))
    model.blocks.append(tiny().blocks[0])
    inner = model.blocks[2]["mlp"]
    model.blocks[2]["mlp"] = Broken(inner, lambda: (seen["tokens"][:, 0] == 16).all())
    loader = Marked(bad=(5,))
    run, _, _ = train(
        tmp_path / "runs", {**ALWAYS, "kinds": ["norms"]}, steps=3, model=model, loader=loader
    )
    events = [json.loads(line) for line in (run.dir / "events.jsonl").read_text().splitlines()]
    [found] = [one for one in events if one["rule"] == "forensics"]
    assert found["step"] == 2
    assert "batches 4 to 5" in found["message"]
    assert "doc5" in found["message"]
    assert "first module that is not finite: blocks.2.mlp" in found["message"]
    [text] = read_media(run.dir, "text").to_pylist()
    details = json.loads(text["text"])
    assert details["module"] == "blocks.2.mlp"
    assert details["input_was_finite"]
    assert details["weights"] == []
    assert "head.weight" in details["gradients"]


class Marked(Batches):
    """Of a bad micro-batch both sequences begin with token 16, of others none."""

    def __iter__(self):
        for number, one in enumerate(super().__iter__()):
            one["tokens"][:, 0] = 16 if number in self.bad else 3
            yield one


def test_a_repeated_forward_pass_leaves_buffers_and_generators():
    from contextlib import nullcontext

    from expdb.track.forensics import Forensics

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))
            self.drop, self.scale = nn.Dropout(0.5), nn.Parameter(torch.ones(1))

        def forward(self, x):
            self.seen += 1
            return self.drop(x * self.scale).log()

    model = Counting()
    forensics = Forensics({"": model}, nullcontext, lambda: None)
    forensics.begin(7)
    forensics.batch({"id": torch.tensor([41, 42])}, 9)
    model(torch.zeros(3)).sum().backward()
    before = torch.get_rng_state()
    found = forensics.report(7, "train/loss is infinite", num_micro=1, at_once=True)
    assert torch.equal(torch.get_rng_state(), before)
    assert float(model.seen) == 1
    assert (found.module, found.ids, found.batches) == ("the model itself", (41, 42), (9, 9))
    assert forensics.report(8, "again", num_micro=1, at_once=True) is None
    forensics.looks_good()
    with torch.no_grad():
        model.scale.fill_(torch.nan)
    later = forensics.report(9, "train/loss is NaN", num_micro=1, at_once=False)
    assert "weights not finite already: scale" in later.message()
    forensics.close()
    assert not model._forward_pre_hooks


def test_samples_follow_the_phase_and_a_budget(tmp_path):
    every = {"warmup": 1, "stable": 3}
    run, loop, _ = train(
        tmp_path / "runs", {"budget_pct": 0, "every": every, "kinds": ["norms"]}, steps=8
    )
    # The rate is constant: the first step looks like a rise, the rest do not.
    assert sorted(points_of(run)["layer/head/grad_norm"]) == [0, 3, 6]
    tight = {"budget_pct": 0.001, "every": {"warmup": 1, "stable": 1}, "kinds": ["norms"]}
    run, loop, _ = train(tmp_path / "runs", tight, steps=8)
    assert sorted(points_of(run)["layer/head/grad_norm"]) == [0, 1]
    assert loop._engine.watch.interval.now() > 100


def test_hooks_are_there_during_a_sample_only(tmp_path):
    model = tiny()
    counts = []
    inner = model.forward

    def forward(tokens):
        if torch.is_grad_enabled():  # the look at the first update has passes of its own
            counts.append(sum(len(one._forward_hooks) for one in model.modules()))
        return inner(tokens)

    model.forward = forward
    settings = {"budget_pct": 0, "every": {"warmup": 1, "stable": 3}}
    train(tmp_path / "runs", settings, steps=5, model=model, accum=1)
    assert counts[0] > 5
    assert counts[1] == counts[2] == 0
    assert counts[3] > 5
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()) == 0


def test_a_fault_of_a_monitor_ends_it_and_not_training(tmp_path, capsys):
    model = tiny()
    model.blocks[0]["attn"].monitor_qk = lambda x: 1 / 0
    run, _, _ = train(tmp_path / "runs", ALWAYS, steps=3, model=model)
    assert len(points_of(run)["train/loss"]) == 3
    points = points_of(run)
    assert not [key for key in points if "attn_" in key]
    assert (
        sorted(points["layer/head/grad_norm"]) == sorted(points["layer/embed/act_rms"]) == [0, 1, 2]
    )
    said = capsys.readouterr().err
    assert said.count("watch: no attention from step 0 on: ZeroDivisionError") == 1


def test_a_fault_between_the_passes_ends_the_watch(tmp_path, capsys):
    run, loop, _ = train(tmp_path / "runs", ALWAYS, steps=2, loader=Odd())
    assert len(points_of(run)["train/loss"]) == 2
    assert loop._engine.watch.is_sampling is False
    assert "watch stopped at step 0: ValueError" in capsys.readouterr().err


class Odd(Batches):
    """Batches whose ids cannot be read."""

    def __iter__(self):
        class Broken:
            def tolist(self):
                raise ValueError("no ids")

        for one in super().__iter__():
            one["ids"] = Broken()
            yield one


def test_the_first_update_says_how_long_it_is_and_how_the_model_starts(tmp_path):
    run, _, _ = train(tmp_path / "runs", ALWAYS, steps=3)
    found = points_of(run)
    first = {key for key in found if key.startswith("init/")}
    assert first == {
        "init/loss_excess", "init/unshifted", "init/leak", "init/max_steps", "init/weight_gain",
        "init/act_ratio", "init/grad_ratio",
    }  # fmt: skip
    assert all(list(found[key]) == [0] for key in first)
    assert found["init/leak"][0] == 0.0
    assert found["init/max_steps"][0] == 3.0
