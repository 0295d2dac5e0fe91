"""What one update computes: accumulation by tokens, clipping, the scaler, schedules, averages."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from expdb.errors import BadInput
from expdb.store.checkpoints import read_manifests
from expdb.track.loop import Loop
from expdb.track.state import State
from expdb.track.update import _multiply
from tests.track import tiny_training as tiny
from tests.track.tiny_linear import ONE, Rows, drive, halves, linear, squared


@pytest.fixture
def run(tmp_path):
    return tiny.StandIn(tmp_path / "run=k3f9x2m7qd")


class Test_accumulation:
    def test_four_by_b_equals_one_by_four_b_with_unequal_masks(self, tmp_path):
        parts, whole = halves(4)
        small, large = tiny.StandIn(tmp_path / "small"), tiny.StandIn(tmp_path / "large")
        left, right = linear(Rows(*parts)), linear(Rows(whole))
        drive(small, left, max_steps=3, accum=4)
        drive(large, right, max_steps=3, accum=1)
        for a, b in zip(left.models[""].parameters(), right.models[""].parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
        for key in ("train/loss", "train/grad_norm"):
            pairs = zip(small.series(key).values(), large.series(key).values(), strict=True)
            assert all(abs(a - b) < 1e-6 for a, b in pairs)

    def test_the_mean_of_means_would_be_another_gradient(self):
        parts, (inputs, mask) = halves(4)
        state = linear(Rows(*parts))
        params = list(state.models[""].parameters())
        nll, n = squared(state, (inputs, mask))
        true = torch.autograd.grad(nll / n, params)
        naive = [
            sum(torch.autograd.grad(nll / n, [p])[0] for nll, n in micro) / 4
            for p in params
            for micro in [[squared(state, one) for one in parts]]
        ]
        assert any((a - b).abs().max() > 1e-3 for a, b in zip(true, naive, strict=True))

    @pytest.mark.parametrize("kind", ["int", "tensor"])
    def test_the_count_may_be_an_int_or_a_scalar_tensor(self, run, kind):
        parts, _ = halves(2)
        state = linear(Rows(*parts))
        total = sum(int(mask.sum()) for _, mask in parts)
        for update in Loop(run, state, max_steps=1, accum=2):
            for batch in update:
                nll, n = squared(state, batch)
                update.backward(nll, n if kind == "int" else torch.tensor(n))
            update.step()
        assert state.loop.tokens == run.num_tokens == total
        assert run.series("train/loss")[0] == pytest.approx(
            sum(squared(linear(Rows()), one)[0].item() for one in parts) / total
        )

    def test_an_update_without_a_valid_token_leaves_the_weights(self, run):
        inputs = torch.randn(2, 3, dtype=torch.float64)
        state = linear(Rows((inputs, torch.zeros(2))))
        before = state.models[""].weight.clone()
        drive(run, state, max_steps=2)
        assert torch.equal(state.models[""].weight, before)
        assert math.isnan(run.series("train/loss")[0])

    def test_low_precision_sums_are_divided_in_float32(self, run):
        model = nn.Linear(4, 4)
        state = State(model=model, optim=torch.optim.SGD(model.parameters(), lr=0.0), loader=[1])
        for update in Loop(run, state, max_steps=1, precision="bf16"):
            for _ in update:
                with update.autocast():
                    out = model(torch.ones(2, 4))
                assert out.dtype == torch.bfloat16
                update.backward(out.square().sum(), 8)
            update.step()
        assert math.isfinite(run.series("train/grad_norm")[0])


class Test_clipping:
    def test_the_norm_is_logged_before_clipping_and_the_step_is_of_the_clipped(self, run):
        state = linear(Rows(ONE), lr=1.0)
        before = [p.detach().clone() for p in state.models[""].parameters()]
        nll, n = squared(state, ONE)
        grads = torch.autograd.grad(nll / n, list(state.models[""].parameters()))
        norm = math.sqrt(sum(g.square().sum().item() for g in grads))
        drive(run, state, max_steps=1, clip=norm / 2)
        assert run.series("train/grad_norm")[0] == pytest.approx(norm)
        moved = [b - p for b, p in zip(before, state.models[""].parameters(), strict=True)]
        assert math.sqrt(sum(m.square().sum().item() for m in moved)) == pytest.approx(norm / 2)

    def test_without_clip_the_gradient_is_taken_whole(self, run):
        state = linear(Rows(ONE), lr=1.0)
        before = state.models[""].bias.item()
        nll, n = squared(state, ONE)
        [grad] = torch.autograd.grad(nll / n, [state.models[""].bias])
        drive(run, state, max_steps=1)
        assert before - state.models[""].bias.item() == pytest.approx(grad.item())


class Test_the_gradient_scaler:
    def scaled(self, rows, scale):
        state = linear(rows)
        state.scheds = {"": torch.optim.lr_scheduler.StepLR(state.optims[""], 1, gamma=0.5)}
        state.scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1000)
        return state

    def test_an_overflow_is_skipped_counted_and_moves_neither_weights_nor_schedule(self, run):
        bad = (torch.full((2, 3), 1e200, dtype=torch.float64), torch.ones(2))
        state = self.scaled(Rows(ONE, bad, ONE), scale=1024.0)
        state.emas = {"": torch.optim.swa_utils.AveragedModel(state.models[""])}
        seen = []
        for update in Loop(run, state, max_steps=3):
            for batch in update:
                update.backward(*squared(state, batch))
            update.step()
            rate = state.optims[""].param_groups[0]["lr"]
            seen.append((state.models[""].weight.clone(), rate, state.scaler.get_scale()))
        assert [rate for _, rate, _ in seen] == [0.05, 0.05, 0.025]
        assert [scale for _, _, scale in seen] == [1024.0, 512.0, 512.0]
        assert torch.equal(seen[0][0], seen[1][0])
        assert not torch.equal(seen[1][0], seen[2][0])
        assert run.series("train/num_skipped_steps") == {0: 0, 1: 1, 2: 1}
        assert state.loop.step == 3
        assert int(state.emas[""].n_averaged) == 2
        assert not math.isfinite(run.series("train/grad_norm")[1])

    def test_the_scale_leaves_norm_and_step_as_they_are(self, tmp_path):
        plain, scaled = linear(Rows(ONE)), self.scaled(Rows(ONE), scale=2.0**20)
        runs = [tiny.StandIn(tmp_path / "plain"), tiny.StandIn(tmp_path / "scaled")]
        drive(runs[0], plain, max_steps=1, clip=1.0)
        drive(runs[1], scaled, max_steps=1, clip=1.0)
        assert runs[0].series("train/grad_norm") == runs[1].series("train/grad_norm")
        torch.testing.assert_close(plain.models[""].weight, scaled.models[""].weight)

    def test_it_is_saved_with_its_count_of_skips(self, run, tmp_path):
        bad = (torch.full((2, 3), 1e200, dtype=torch.float64), torch.ones(2))
        state = self.scaled(Rows(bad, ONE), scale=1024.0)
        drive(run, state, max_steps=2)
        other = self.scaled(Rows(bad, ONE), scale=4.0)
        again = tiny.StandIn(run.layout.root, attempt=2, resumed_from=2)
        drive(again, other, max_steps=2)
        assert other.scaler.get_scale() == 512.0
        assert other.loop.num_skipped == 1


def test_two_optimizers_step_and_clear_together(run):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)).double()
    first = torch.optim.AdamW(model[0].parameters(), lr=0.01)
    second = torch.optim.SGD(model[1].parameters(), lr=0.1)
    state = State(model=model, optim={"adamw": first, "sgd": second}, loader=Rows(ONE))
    before = [p.detach().clone() for p in model.parameters()]
    for update in Loop(run, state, max_steps=2, clip=1.0):
        for batch in update:
            nll = model(batch[0]).square().sum()
            update.backward(nll, 2)
        update.step()
        assert all(p.grad is None for p in model.parameters())
    assert not any(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert run.series("train/lr") == {0: 0.01, 1: 0.01}
    assert [one.step for one in read_manifests(run.layout)] == [2]


def test_a_schedule_that_counts_tokens_is_given_them(run):
    given = []

    class ByTokens:
        def step(self, tokens=0):
            given.append(tokens)

        def state_dict(self):
            return {}

        def load_state_dict(self, saved):
            pass

    parts, _ = halves(2)
    drive(run, linear(Rows(*parts), sched=ByTokens()), max_steps=2, accum=2)
    assert given == [sum(int(mask.sum()) for _, mask in parts)] * 2


def test_averaged_weights_follow_every_update(run):
    state = linear(Rows(ONE))
    state.emas = {"": torch.optim.swa_utils.AveragedModel(state.models[""])}
    drive(run, state, max_steps=3)
    assert int(state.emas[""].n_averaged) == 3


class Test_misuse:
    def test_an_update_must_be_finished_once(self, run):
        state = linear(Rows(ONE))
        with pytest.raises(BadInput, match=r"step 0 was not finished by update\.step"):
            list(Loop(run, state, max_steps=2))
        for update in Loop(run, state, max_steps=1):
            with pytest.raises(BadInput, match=r"without update\.backward"):
                update.step()
            update.backward(*squared(state, ONE))
            with pytest.raises(BadInput, match="more than accum=1 times"):
                update.backward(*squared(state, ONE))
            update.step()
            with pytest.raises(BadInput, match="called twice at step 0"):
                update.step()

    @pytest.mark.parametrize("nll", [1.0, torch.ones(()), torch.ones(2, requires_grad=True)])
    def test_a_loss_that_is_no_summed_scalar(self, run, nll):
        [update] = itertools.islice(Loop(run, linear(Rows(ONE)), max_steps=1), 1)
        with pytest.raises(BadInput, match="summed loss as a scalar tensor"):
            update.backward(nll, 1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_on_a_cuda_device_no_step_waits_for_it(run, precision):
    torch.manual_seed(0)
    model = tiny.TinyDecoder().cuda()
    optim = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = tiny.Windows().data.cuda()
    state = State(model=model, optim=optim, loader=list(data.split(2)))
    loop = Loop(run, state, max_steps=12, accum=2, precision=precision, clip=1.0)
    assert (state.scaler is not None) == (precision == "fp16")
    for update in loop:
        if precision != "fp16":  # the scaler must look at its overflow flag
            torch.cuda.set_sync_debug_mode("error")
        try:
            for window in update:
                with update.autocast():
                    nll, _ = tiny.summed_loss(model, window)
                update.backward(nll, torch.full((), window[:, 1:].numel(), device="cuda"))
            update.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    losses = [float(loss) for loss in run.series("train/loss").values()]
    assert len(losses) == 12
    assert all(map(math.isfinite, losses))
    assert state.loop.tokens == run.num_tokens == 12 * 2 * 2 * tiny.LENGTH
    seen = [int(value) for value in run.series("train/tokens").values()]
    assert seen == [step * 2 * 2 * tiny.LENGTH for step in range(13)]


def test_a_factor_on_the_device_scales_gradients_of_every_precision():
    grads = [torch.full((2,), 3.0, dtype=d) for d in (torch.float64, torch.float32, torch.bfloat16)]
    _multiply(grads, torch.tensor(0.5, dtype=torch.float64))
    assert [grad.tolist() for grad in grads] == [[1.5, 1.5]] * 3
    assert [grad.dtype for grad in grads] == [torch.float64, torch.float32, torch.bfloat16]
