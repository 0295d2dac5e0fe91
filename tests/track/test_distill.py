from __future__ import annotations

import copy
import math

import pytest

from expdb.errors import BadInput
from expdb.track.distill import compare_teacher

torch = pytest.importorskip("torch")


class Tiny(torch.nn.Module):
    """Logits of the token itself: an embedding, dropout and a projection."""

    def __init__(self, width: int = 8, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = torch.nn.Embedding(16, width)
        self.drop = torch.nn.Dropout(0.5)
        self.out = torch.nn.Linear(width, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.drop(self.embed(tokens)))


class Fixed(torch.nn.Module):
    def __init__(self, row: list[float]) -> None:
        super().__init__()
        self.row = torch.nn.Parameter(torch.tensor(row))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.row.expand(*tokens.shape, -1)


def batches(num: int = 2):
    made = torch.Generator().manual_seed(1)
    found = [torch.randint(16, (3, 5), generator=made) for _ in range(num)]
    return [(tokens, tokens) for tokens in found]


def test_equal_models_have_no_distance_and_agree_everywhere():
    model = Tiny().train()
    twin = copy.deepcopy(model)
    found = compare_teacher(model, twin, batches())
    assert found["kl"] == 0.0
    assert found["top1_agreement"] == 1.0
    assert found["loss_gap"] == 0.0
    assert found["size_ratio"] == 1.0
    assert found["speed_ratio"] > 0


def test_the_values_are_those_of_the_formulas_over_all_tokens_that_count():
    # Teacher (1/2, 1/4, 1/4), student uniform: KL = ln 3 - 1.5 ln 2.
    teacher, student = Fixed([math.log(2), 0.0, 0.0]), Fixed([0.0, 0.0, 0.0])
    tokens = torch.tensor([[0, 0, 1, -100]])
    found = compare_teacher(student, teacher, [(tokens, tokens), (tokens, tokens)])
    assert found["kl"] == pytest.approx(math.log(3) - 1.5 * math.log(2), abs=1e-6)
    assert found["student_loss"] == pytest.approx(math.log(3), abs=1e-6)
    assert found["teacher_loss"] == pytest.approx((math.log(2) + math.log(4)) / 2, abs=1e-6)
    assert found["loss_gap"] == pytest.approx(math.log(3) - 1.5 * math.log(2), abs=1e-6)
    assert found["top1_agreement"] == 1.0, "of equal logits the first is the largest"
    other = compare_teacher(Fixed([0.0, 0.0, 9.0]), teacher, [(tokens, tokens)])
    assert other["top1_agreement"] == 0.0


def test_what_the_teacher_rules_out_adds_nothing_and_what_is_no_number_stays_one():
    tokens = torch.tensor([[0, 0, 0]])
    teacher = Fixed([0.0, 0.0, -math.inf])
    found = compare_teacher(Fixed([0.0, 0.0, -math.inf]), teacher, [(tokens, tokens)])
    assert found["kl"] == 0.0
    assert math.isinf(compare_teacher(teacher, Fixed([0.0] * 3), [(tokens, tokens)])["kl"])
    assert math.isnan(compare_teacher(Fixed([math.nan, 0, 0]), teacher, [(tokens, tokens)])["kl"])


def test_it_leaves_no_trace_and_names_what_does_not_fit():
    student, teacher = Tiny(4).train(), Tiny(8, seed=3).eval()
    before = torch.get_rng_state().clone()
    found = compare_teacher(student, teacher, batches())
    assert student.training
    assert student.drop.training
    assert not teacher.training
    assert torch.equal(torch.get_rng_state(), before)
    assert all(one.grad is None for one in student.parameters())
    assert found["kl"] > 0
    assert found["size_ratio"] == pytest.approx((8 * 16 + 9 * 16) / (4 * 16 + 5 * 16))
    tokens = torch.tensor([[0, 0, 0]])
    with pytest.raises(BadInput, match=r"\[1, 3, 3\], the teacher's \[1, 3, 2\]"):
        compare_teacher(Fixed([0.0] * 3), Fixed([0.0] * 2), [(tokens, tokens)])
    with pytest.raises(BadInput, match="no label"):
        compare_teacher(student, teacher, [(tokens, torch.full((1, 3), -100))])
