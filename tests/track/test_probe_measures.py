"""What probes measure inside a loop: a clock of the test's own, toys whose answers are known."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from expdb.errors import BadInput
from expdb.store.probing import read_found
from expdb.track import loading
from expdb.track.loop import Loop
from expdb.track.probes import loader, lr_range, throughput
from expdb.track.state import State
from tests.track import tiny_training as tiny
from tests.track.tiny_linear import ONE, Rows, linear, squared


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class SlowRows:
    """A loader whose batches take time by the clock of the test."""

    def __init__(self, clock, seconds, *batches):
        self.clock, self.seconds, self.batches = clock, seconds, batches

    def __iter__(self):
        while True:
            for batch in self.batches:
                self.clock.now += self.seconds
                yield batch


def drive(loop, state, work, before=None):
    """Do what a script does."""
    for update in loop:
        if before is not None:
            before(update)
        for batch in update:
            update.backward(*work(state, batch))
        update.step()


@pytest.fixture
def probe(tmp_path):
    """Run a loop under a task, and return what was found."""

    def measured(task, state, work=squared, *, before=None, **options):
        run = tiny.StandIn(tmp_path / "run=k3f9x2m7qd")
        run.task, run.store = task, SimpleNamespace(root=tmp_path / "store")
        loop = Loop(run, state, max_steps=3, save_every=1, **options)
        with pytest.raises(SystemExit) as end:
            drive(loop, state, work, before)
        assert end.value.code == 0
        assert run.saved == []
        assert run.points == []
        return read_found(tmp_path / "store")

    return measured


class Test_throughput:
    TASK: ClassVar = {"kind": "throughput", "updates": 50, "warm_up": 5}

    def work(self, clock, *, seconds=0.5):
        """2,048 tokens of which as many again are padding; the very first step takes long."""
        seen = []

        def one(state, _batch):
            clock.now += seconds if seen else 100.0
            seen.append(1)
            return state.models[""](ONE[0]).square().sum(), 2048

        return one

    def test_tokens_over_seconds_without_the_warm_up(self, probe):
        clock = Clock()
        found = probe(self.TASK, linear(Rows(ONE)), self.work(clock), clock=clock)
        assert (found["updates"], found["tokens"], found["seconds"]) == (50, 50 * 2048, 25.0)
        assert found["tokens_per_s"] == 4096.0
        assert (found["median_s"], found["p95_s"]) == (0.5, 0.5)
        assert (found["device"], found["warm_up"], found["wait_share"]) == ("cpu", 5, 0.0)

    def test_every_micro_batch_counts_and_an_evaluation_does_not(self, probe):
        clock = Clock()

        def validate(_step):
            clock.now += 1000.0
            return {"val/loss": 1.0}

        found = probe(
            self.TASK, linear(Rows(ONE)), self.work(clock), clock=clock, accum=3,
            eval_every=1, evaluate=validate,
        )  # fmt: skip
        assert (found["tokens"], found["seconds"], found["accum"]) == (150 * 2048, 75.0, 3)

    def test_a_step_that_compiles_is_left_out(self, probe, monkeypatch):
        clock, number = Clock(), []

        def compiles(update):
            number.append(update)
            if len(number) == 9:  # the fourth that is timed
                from torch._dynamo.utils import counters

                counters["stats"]["unique_graphs"] += 1
                clock.now += 300.0

        found = probe(self.TASK, linear(Rows(ONE)), self.work(clock), clock=clock, before=compiles)
        assert (found["seconds"], found["updates_that_compiled"]) == (25.0, 1)
        assert len(number) == 5 + 4 + 50

    @pytest.mark.soak
    def test_what_torch_compiles_is_seen(self, probe):
        torch.manual_seed(0)
        model = torch.compile(nn.Linear(3, 1), backend="eager")
        optim = torch.optim.SGD(model.parameters(), lr=0.1)
        short, long = torch.ones(4, 3), torch.ones(9, 3)
        # Warm-up compiles for short batches; the first long one is the third that is timed.
        state = State(model=model, optim=optim, loader=Rows(*[short] * 7, *[long] * 70))

        def work(state, batch):
            return state.models[""](batch).square().sum(), len(batch)

        found = probe(self.TASK, state, work)
        assert found["updates_that_compiled"] == 1
        assert found["tokens"] == 50 * 9

    def test_one_that_compiles_for_ever_is_said(self, probe):
        from torch._dynamo.utils import counters

        def compiles(_update):
            counters["stats"]["unique_graphs"] += 1

        clock = Clock()
        with pytest.raises(BadInput, match="compiles something again and again"):
            probe(self.TASK, linear(Rows(ONE)), self.work(clock), clock=clock, before=compiles)

    def test_the_ninety_fifth_of_a_hundred(self):
        assert throughput.percentile(list(range(1, 101)), 0.95) == 95
        assert throughput.percentile([7.0], 0.95) == 7.0
        found = throughput.summary(100.0, 10.0, [0.1] * 18 + [1.0, 3.0], 5.0)
        assert (found["median_s"], found["p95_s"], found["wait_share"]) == (0.1, 1.0, 0.5)


class Test_loader:
    TASK: ClassVar = {"kind": "loader", "updates": 10, "warm_up": 2}

    def found(self, probe, data_s, compute_s, **options):
        clock = Clock()

        def work(state, batch):
            clock.now += compute_s
            return squared(state, batch)

        state = linear(SlowRows(clock, data_s, ONE))
        return probe(self.TASK, state, work, clock=clock, **options)

    def test_slow_data_are_the_bound(self, probe):
        found = self.found(probe, 0.05, 0.01)
        assert found["verdict"] == "data-bound"
        assert found["step_s"] == pytest.approx(0.06)
        assert (found["data_s"], found["compute_s"]) == pytest.approx((0.05, 0.01))
        assert found["wait_share"] == pytest.approx(5 / 6)

    def test_slow_compute_is_the_bound(self, probe):
        found = self.found(probe, 0.01, 0.05, accum=2)
        assert found["verdict"] == "compute-bound"
        assert (found["data_s"], found["compute_s"]) == pytest.approx((0.02, 0.1))
        assert found["wait_share"] == pytest.approx(1 / 6)

    def test_neither_is_when_both_take_the_same(self):
        assert loader.verdict(0.01, 0.011) == "balanced"
        assert loader.verdict(0.0126, 0.01) == "data-bound"
        assert loader.verdict(0.01, 0.0126) == "compute-bound"

    def test_workers_that_keep_up(self):
        even = [0.05] * 20
        found = loader.suggested(0.05, 0.01, even, workers=0, cores=16, is_cuda=True)
        assert (found["needed"], found["enough"]) == (6, True)  # 1.2 x 5
        assert found["num_workers"] == 6
        assert (found["pin_memory"], found["prefetch_factor"]) == (True, 2)
        # Two workers that give a batch each 50 ms take 100 ms over one.
        more = loader.suggested(0.05, 0.01, even, workers=2, cores=16, is_cuda=False)
        assert (more["needed"], more["possible"], more["enough"]) == (12, 8, False)
        small = loader.suggested(0.05, 0.01, even, workers=0, cores=2, is_cuda=False)
        assert (small["num_workers"], small["enough"]) == (1, False)
        jumpy = loader.suggested(0.05, 0.1, [0.01] * 9 + [0.5], workers=0, cores=4, is_cuda=False)
        assert (jumpy["num_workers"], jumpy["prefetch_factor"]) == (1, 4)

    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_data_loader_takes_the_options(self, workers):
        rows = TensorDataset(torch.arange(4))
        DataLoader(rows, **loading.loader_options(workers, is_cuda=False))


class Test_memory:
    def test_fp32_adamw_is_sixteen_bytes_a_parameter(self, probe):
        model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
        state = State(
            model=model,
            optim=torch.optim.AdamW(model.parameters()),
            loader=Rows(torch.ones(32, 64)),
        )
        number = 64 * 128 + 128 + 128 * 8 + 8

        def work(state, batch):
            return state.models[""](batch).square().sum(), 32

        found = probe({"kind": "memory"}, state, work)
        assert (found["num_params"], found["dtypes"]) == (number, {"float32": number})
        assert (found["parameters"], found["gradients"]) == (4 * number, 4 * number)
        steps = 4 * len(list(model.parameters()))  # AdamW counts its steps for each tensor
        assert found["optimizer"] == 8 * number + steps
        # Kept for backward: the input, what ReLU gave (twice, one storage), and the last output.
        assert found["activations"] == 4 * 32 * (64 + 128 + 8)
        assert found["peak"] > found["parameters"]
        assert (found["reserved"], found["precision"]) == (None, "fp32")
        assert found["optimizers"][0]["name"] == "AdamW"


class Curved:
    """A quadratic with one weight: SGD at a rate above 2 / curvature diverges."""

    CURVATURE = 4.0

    def __init__(self, start=3.0):
        self.model = nn.Linear(1, 1, bias=False).double()
        nn.init.constant_(self.model.weight, start)
        optim = torch.optim.SGD(self.model.parameters(), lr=0.5)
        sched = torch.optim.lr_scheduler.LambdaLR(optim, lambda k: 1 / (k + 1))
        self.state = State(model=self.model, optim=optim, sched=sched, loader=tiny.Windows())

    def work(self, state, _batch):
        torch.rand(3), random.random()
        return self.CURVATURE / 2 * state.models[""].weight.square().sum(), 1


class Test_lr:
    TASK: ClassVar = {"kind": "lr", "updates": 120, "low": 1e-4, "high": 10.0}

    def test_rates_go_up_by_one_factor(self):
        rates = lr_range.rates(1e-7, 1.0, 200)
        assert (rates[0], rates[-1], len(rates)) == (1e-7, 1.0, 200)
        ratios = [b / a for a, b in pairwise(rates)]
        assert max(ratios) == pytest.approx(min(ratios), rel=1e-9)

    def test_a_quadratic_diverges_beyond_two_over_its_curvature(self, probe):
        toy = Curved()
        found = probe(self.TASK, toy.state, toy.work)
        series = found["series"]
        loss = [one["loss"] for one in series]
        rises = [i for i in range(len(loss) - 1) if loss[i + 1] > loss[i]]
        border = 2 / toy.CURVATURE
        assert series[rises[0]]["lr"] > border >= series[rises[0] - 1]["lr"]
        assert rises == list(range(rises[0], len(loss) - 1))
        assert found["outcome"] == "found"
        assert found["lr"] < border
        assert "four" not in found["stopped"]
        assert found["stopped"].startswith(("the smoothed loss is 4 times", "the loss is no"))
        assert len(series) < 120  # it ended there, not at the last rate
        assert (found["own_lr"], found["is_first"]) == (0.5, False)

    def test_everything_is_as_before_to_the_bit(self, probe):
        toy = Curved()
        torch.manual_seed(3)
        toy.state.loop.num_batches = 0  # as a loop begins
        before, drawn = toy.state.digest(), torch.get_rng_state()
        weight = toy.model.weight
        probe(self.TASK, toy.state, toy.work)
        assert toy.state.digest() == before
        assert torch.equal(torch.get_rng_state(), drawn)
        assert toy.model.weight is weight
        assert toy.model.weight.item() == 3.0

    def test_the_rate_stands_beside_the_loss_before_its_step(self, probe):
        toy = Curved()
        found = probe(self.TASK, toy.state, toy.work)
        [first, second, *_] = found["series"]
        weight = 3.0 - first["lr"] * toy.CURVATURE * 3.0
        assert first == {"lr": 1e-4, "loss": 18.0, "smoothed": pytest.approx(18.0)}
        assert second["loss"] == pytest.approx(2 * weight * weight, rel=1e-12)

    def test_groups_keep_their_ratio(self):
        one, two = nn.Linear(1, 1), nn.Linear(1, 1)
        optim = torch.optim.SGD(
            [{"params": one.parameters(), "lr": 0.1}, {"params": two.parameters(), "lr": 0.02}]
        )
        state = State(model=nn.ModuleList([one, two]), optim=optim, loader=Rows(ONE))
        lr_range._set_rates(lr_range._shares(state), 1.0)
        assert [group["lr"] for group in optim.param_groups] == pytest.approx([1.0, 0.2])

    def curve(self, loss_at, *, noise=0.0, low=1e-6, high=1.0, num=200):
        chance = random.Random(0)
        lrs = lr_range.rates(low, high, num)
        losses = [loss_at(lr) + chance.gauss(0, noise) for lr in lrs]
        smooth = lr_range.Smooth()
        return lr_range.steepest(lrs, losses, [smooth.add(one) for one in losses])

    def test_the_steepest_point_is_found_and_not_the_lowest(self):
        def falling(lr):  # steepest at 1e-3, lowest at 0.1, then up
            up = max(0.0, math.log10(lr) + 1) ** 2
            return 4.0 - 2.0 / (1 + math.exp(-3 * (math.log10(lr) + 3))) + up

        found = self.curve(falling, noise=0.02)
        assert found["outcome"] == "found"
        assert 10**-3.3 < found["lr"] < 10**-2.5  # the mean lags by about 10 updates
        assert 0.05 < found["lowest_lr"] < 0.3

    @pytest.mark.parametrize("seed", range(8))
    def test_noise_alone_is_inconclusive(self, seed):
        chance = random.Random(seed)
        found = self.curve(lambda _lr: 5.5 + chance.gauss(0, 0.1))
        assert found["outcome"] == "inconclusive"
        assert found["lr"] is None

    def test_a_loss_that_only_rises_or_falls_at_once_is_inconclusive(self):
        assert self.curve(lambda lr: 1 + lr)["outcome"] == "inconclusive"
        rising = self.curve(lambda lr: 5 + 3 * math.log10(lr * 1e6))
        assert (rising["outcome"], rising["why"]) == ("inconclusive", "the loss only rises")
        at_once = self.curve(lambda lr: 1 + math.exp(-1.0 * math.log10(lr * 1e6)))
        assert at_once["why"] == "the loss falls steepest at the very first rates"

    def test_few_updates_say_nothing(self):
        assert self.curve(lambda lr: 1.0, num=15)["outcome"] == "inconclusive"


def test_a_script_that_does_not_finish_an_update_is_told(tmp_path):
    run = tiny.StandIn(tmp_path / "run=other")
    run.task, run.store = Test_throughput.TASK, SimpleNamespace(root=tmp_path / "store")
    loop = Loop(run, linear(Rows(ONE)), max_steps=3)
    with pytest.raises(BadInput, match=r"step 0 was not finished by update\.step"):
        list(loop)
