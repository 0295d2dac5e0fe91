"""What happens at the borders of updates: evaluations, checkpoints, stops, misuse."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal

import pytest
import torch
from torch import nn

from expdb.errors import BadInput, Corrupt
from expdb.store.checkpoints import read_manifests
from expdb.track import rng
from expdb.track.loop import Loop
from expdb.track.plain import digest_of
from expdb.track.state import State
from tests.track import tiny_training as tiny
from tests.track.tiny_linear import ONE, Rows, drive, linear, squared


@pytest.fixture
def run(tmp_path):
    return tiny.StandIn(tmp_path / "run=k3f9x2m7qd")


class Test_the_order_of_things:
    def script(self, run, state, **options):
        """What happened, in order: points, evaluations, checkpoints."""
        told = []
        log, save = run.log, run.checkpoint
        run.log = lambda m, step=None: (
            told.append((min(set(m) - {"train/tokens"}), step)),
            log(m, step=step),
        )
        run.checkpoint = lambda step, s: (told.append(("save", step)), save(step, s))
        drive(run, state, evaluate=lambda k: {"val/loss": 1.0}, **options)
        return told

    def test_train_points_are_of_the_weights_they_were_computed_with(self, run):
        told = self.script(run, linear(Rows(ONE)), max_steps=4, eval_every=2, save_every=2)
        train = "train/data_wait_pct"
        assert told == [
            ("val/loss", 0),
            (train, 0),
            (train, 1),
            ("val/loss", 2),
            ("save", 2),
            (train, 2),
            (train, 3),
            ("val/loss", 4),
            ("save", 4),
        ]
        assert run.console.said.count(("evaluated", 2)) == 1
        assert [step for step, _, _ in run.console.steps] == [1, 2, 3, 4]

    def test_the_end_is_evaluated_and_saved_whatever_the_intervals(self, run):
        told = self.script(run, linear(Rows(ONE)), max_steps=3, eval_every=2, save_every=2)
        assert told[-2:] == [("val/loss", 3), ("save", 3)]
        assert run.saved[-1].checkpoint.complete
        assert run.step == 3

    def test_a_resume_repeats_no_evaluation_and_no_checkpoint(self, run):
        self.script(run, linear(Rows(ONE)), max_steps=2, eval_every=2, save_every=2)
        again = tiny.StandIn(run.layout.root, attempt=2, resumed_from=2)
        told = self.script(again, linear(Rows(ONE)), max_steps=4, eval_every=2, save_every=2)
        assert told[0] == ("train/data_wait_pct", 2)
        assert told[-2:] == [("val/loss", 4), ("save", 4)]
        once_more = tiny.StandIn(run.layout.root, attempt=3, resumed_from=4)
        assert self.script(once_more, linear(Rows(ONE)), max_steps=4) == []

    def test_a_fork_is_evaluated_where_it_begins(self, run, tmp_path):
        self.script(run, linear(Rows(ONE)), max_steps=2)
        fork = tiny.StandIn(tmp_path / "fork", fork=(run.layout, 2))
        told = self.script(fork, linear(Rows(ONE), lr=0.3), max_steps=3)
        assert told[0] == ("val/loss", 2)
        assert fork.series("train/lr") == {2: 0.3}

    def test_a_checkpoint_every_two_hours_by_the_clock(self, run):
        now = itertools.count(0, 100.0)  # 100 s pass at each look
        looks = []

        def clock():
            looks.append(next(now))
            return looks[-1]

        saves = []
        save = run.checkpoint
        run.checkpoint = lambda step, s: (saves.append((step, looks[-1])), save(step, s))
        drive(run, linear(Rows(ONE)), max_steps=60, save_every_s=7200.0, clock=clock)
        gaps = [b - a for (_, a), (_, b) in itertools.pairwise([(0, 0.0), *saves[:-1]])]
        assert len(gaps) >= 3
        assert all(7200 <= gap <= 8400 for gap in gaps)
        saves.clear()
        other = linear(Rows(ONE))
        drive(run, other, max_steps=60, save_every_s=None, clock=clock)
        assert [step for step, _ in saves] == [60]


class Test_evaluation:
    def test_draws_nothing_from_training_and_gives_the_modes_back(self, tmp_path):
        modes = []

        def evaluate(_step):
            modes.append((state.models[""].training, torch.is_grad_enabled()))
            return tiny.evaluate(_step)

        traces = []
        for name, options in (("with", {"evaluate": evaluate}), ("without", {"evaluate": None})):
            torch.manual_seed(1)
            state = tiny.build()
            state.models[""].norm.eval()
            run = tiny.StandIn(tmp_path / name)
            traces.append(tiny.train(run, state, steps=6, seed=1, eval_every=2, **options))
            assert state.models[""].training
            assert not state.models[""].norm.training
        assert traces[0]["points"] == traces[1]["points"]
        assert modes == [(False, False)] * 4

    def test_the_objective_of_the_best_step_is_kept(self, run):
        values = iter([3.0, math.nan, 1.0, 2.0])
        state = linear(Rows(ONE))
        drive(run, state, max_steps=3, eval_every=1, evaluate=lambda k: {"val/loss": next(values)})
        assert (state.loop.best_value, state.loop.best_step) == (1.0, 2)

    def test_a_bad_value_is_said_and_training_goes_on(self, run):
        log = run.log

        def strict(metrics, step=None):
            log({k: v for k, v in metrics.items() if v is not None}, step=step)
            if None in metrics.values():
                raise BadInput(f"val/loss at step {step} is None")

        run.log = strict
        drive(run, linear(Rows(ONE)), max_steps=1, evaluate=lambda k: {"val/acc": None})
        assert ("warn", 0, "val/loss at step 0 is None") in run.console.said

    def test_lost_loss_and_lost_objective_end_the_run(self, run):
        nan = (torch.full((2, 3), math.nan, dtype=torch.float64), torch.ones(2))
        state = linear(Rows(ONE, ONE, nan, nan, nan, nan, nan))

        def evaluate(step):
            return {"val/loss": float(state.models[""].weight.sum())}

        with pytest.raises(SystemExit) as stop:
            drive(run, state, max_steps=9, eval_every=4, evaluate=evaluate)
        assert stop.value.code == 1
        assert run.events == [("failed", "train/loss is NaN since step 2, val/loss at 4")]

    def test_a_lost_objective_alone_does_not(self, run):
        drive(
            run,
            linear(Rows(ONE)),
            max_steps=2,
            eval_every=1,
            evaluate=lambda k: {"val/loss": math.inf},
        )
        assert run.events == []
        assert run.step == 2


class Test_stopping:
    def test_a_signal_saves_at_the_border_and_exits_143(self, run):
        state, before = linear(Rows(ONE)), signal.getsignal(signal.SIGTERM)
        loop = Loop(run, state, max_steps=9, save_every=4)

        def train():
            for update in loop:
                for batch in update:
                    update.backward(*squared(state, batch))
                if loop.step == 2:
                    os.kill(os.getpid(), signal.SIGUSR1)
                update.step()

        with pytest.raises(SystemExit) as stop:
            train()
        assert stop.value.code == 143
        assert run.events == [("preempted", "SIGUSR1 at step 3, checkpoint saved")]
        assert [one.step for one in read_manifests(run.layout) if one.complete] == [3]
        assert signal.getsignal(signal.SIGTERM) is before

    def test_before_the_first_update_there_is_nothing_to_save(self, run):
        def evaluate(_step):
            os.kill(os.getpid(), signal.SIGTERM)

        with pytest.raises(SystemExit):
            drive(run, linear(Rows(ONE)), max_steps=9, evaluate=evaluate)
        assert run.events == [("preempted", "SIGTERM at step 0, before the first update")]
        assert read_manifests(run.layout) == ()

    def test_a_checkpoint_that_fails_then_is_told_in_the_reason(self, run):
        def full(step, state):
            raise Corrupt("checkpoint 1 of k3f9 could not be written: No space left on device")

        def told(metrics, step=None):
            os.kill(os.getpid(), signal.SIGTERM)

        run.checkpoint, run.log = full, told
        with pytest.raises(SystemExit) as stop:
            drive(run, linear(Rows(ONE)), max_steps=9)
        assert stop.value.code == 143
        [(_, reason)] = run.events
        assert reason.startswith("SIGTERM at step 1, no checkpoint: checkpoint 1 of k3f9 could not")

    def test_ctrl_c_passes_through(self, run):
        before = signal.getsignal(signal.SIGTERM)

        def interrupted(_step):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            drive(run, linear(Rows(ONE)), max_steps=9, evaluate=interrupted)
        assert signal.getsignal(signal.SIGTERM) is before
        with contextlib.suppress(KeyboardInterrupt):
            for _ in Loop(run, linear(Rows(ONE)), max_steps=9):
                raise KeyboardInterrupt
        assert signal.getsignal(signal.SIGTERM) is before

    def test_a_checkpoint_that_fails_in_between_is_said_and_the_last_one_is_raised(self, run):
        save = run.checkpoint

        def full_once(step, state):
            if step == 1:
                raise Corrupt("no space")
            save(step, state)

        run.checkpoint = full_once
        drive(run, linear(Rows(ONE)), max_steps=2, save_every=1)
        assert ("warn", 1, "no space") in run.console.said
        run.checkpoint = lambda step, state: (_ for _ in ()).throw(Corrupt("no space"))
        with pytest.raises(Corrupt, match="no space"):
            drive(run, linear(Rows(ONE)), max_steps=2)


class Test_misuse:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"accum": 0}, "accum is 0, and must be at least 1"),
            ({"max_steps": -1}, "max_steps is -1"),
            ({"save_every": 0}, "save_every is 0"),
            ({"precision": "fp8"}, "precision is 'fp8'"),
        ],
    )
    def test_values_that_make_no_sense(self, run, options, message):
        with pytest.raises(BadInput, match=message):
            Loop(run, linear(Rows(ONE)), **{"max_steps": 1, **options})

    def test_a_state_without_loader_or_optimizer(self, run):
        with pytest.raises(BadInput, match="State with loader="):
            Loop(run, linear(None), max_steps=1)
        with pytest.raises(BadInput, match="State with optim="):
            Loop(run, State(model=nn.Linear(1, 1), loader=[1]), max_steps=1)

    def test_a_loader_that_gives_nothing(self, run):
        with pytest.raises(BadInput, match="the loader gives no batch"):
            drive(run, linear(Rows()), max_steps=1)


def test_an_ended_loader_begins_again_and_counts_epochs(run):
    class Sampled(Rows):
        def __init__(self, *batches):
            super().__init__(*batches)
            self.epochs = []

        def set_epoch(self, epoch):
            self.epochs.append(epoch)

    state = linear(Sampled(ONE, ONE))
    drive(run, state, max_steps=5)
    assert state.loop.epoch == 2
    assert state.loader.epochs == [1, 2]


def test_a_plain_dataloader_with_a_seed_drawn_at_its_start_resumes_the_generators(tmp_path):
    """torch's DataLoader draws from the global generator when its iterator is made."""

    def build():
        torch.manual_seed(3)
        model = tiny.TinyDecoder(dropout=0.5)
        windows = tiny.Windows().data[:1].expand(8, -1)  # all alike: only dropout differs
        loader = torch.utils.data.DataLoader(windows, batch_size=1)
        return State(model=model, optim=torch.optim.SGD(model.parameters(), lr=0.1), loader=loader)

    def train(run, state, steps):
        torch.manual_seed(4)
        for update in Loop(run, state, max_steps=steps, save_every=2):
            for batch in update:
                update.backward(*tiny.summed_loss(state.models[""], batch))
            update.step()
        return run.series("train/loss")

    whole = train(tiny.StandIn(tmp_path / "run"), build(), 6)
    torch.rand(5)
    resumed = tiny.StandIn(tmp_path / "run", attempt=2, resumed_from=2)
    assert train(resumed, build(), 6) == {k: v for k, v in whole.items() if k >= 2}
    assert resumed.events == [
        ("note", "the loader has no state_dict: its data starts from the beginning")
    ]


def test_the_loop_tells_the_console(run):
    now = itertools.count(0, 0.25)
    drive(run, linear(Rows(ONE)), max_steps=30, clock=lambda: next(now))
    step, end, shown = run.console.steps[-1]
    assert (step, end) == (30, 30)
    assert shown["eta_s"] == 0
    losses = list(run.series("train/loss").values())
    assert shown["loss"] == pytest.approx(sum(losses[-20:]) / 20)
    assert run.console.steps[8][2]["eta_s"] is None
    assert run.console.steps[9][2]["eta_s"] > 0
    assert 0 < run.series("train/data_wait_pct")[3] < 100
    assert run.series("train/tokens_per_s")[3] == pytest.approx(2 / 0.75)


class Test_tokens_seen:
    """train/tokens at step k is what the weights with k updates have seen."""

    def rows(self):
        return Rows((torch.ones(3, 3).double(), torch.tensor([1, 1, 1]).double()),
                    (torch.ones(3, 3).double(), torch.tensor([1, 0, 0]).double()))  # fmt: skip

    def test_each_step_has_one_point_and_so_has_the_last_evaluation(self, run):
        drive(run, linear(self.rows()), max_steps=4, eval_every=2, evaluate=lambda k: {})
        points = [(step, value) for key, step, value in run.points if key == "train/tokens"]
        assert points == [(0, 0), (1, 3), (2, 4), (3, 7), (4, 8)]

    def test_a_resume_goes_on_with_the_count(self, run):
        drive(run, linear(self.rows()), max_steps=3, save_every=3)
        again = tiny.StandIn(run.layout.root, attempt=2, resumed_from=3)
        drive(again, linear(self.rows()), max_steps=5)
        assert run.series("train/tokens") == {0: 0, 1: 3, 2: 4, 3: 7}
        assert again.series("train/tokens") == {3: 7, 4: 10, 5: 11}  # these rows begin anew

    def test_an_evaluation_may_say_it_itself(self, run):
        drive(run, linear(self.rows()), max_steps=1, evaluate=lambda k: {"train/tokens": 5.0 + k})
        assert run.series("train/tokens") == {0: 5.0, 1: 6.0}


def test_a_loop_draws_nothing_itself(run):
    state = linear(Rows(ONE))
    before = digest_of(rng.capture())
    drive(run, state, max_steps=3, save_every=1, evaluate=tiny.evaluate, eval_every=1, clip=1.0)
    assert digest_of(rng.capture()) == before
    torch.rand(1)
    assert digest_of(rng.capture()) != before
