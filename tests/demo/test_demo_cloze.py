from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from expdb.demo.build import build_model
from expdb.demo.cloze import (
    CHOICE_BYTES,
    CONTEXT_BYTES,
    ClozeItems,
    as_items,
    choice_scores,
    make_items,
    score_cloze,
)
from expdb.demo.layers import DenseConfig, Layout
from expdb.demo.model import Decoder
from expdb.errors import BadInput

CONFIG = DenseConfig(d=32, layers=2, heads=2, hidden=48, seq_len=88, init_std=0.3)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def text() -> torch.Tensor:
    return torch.randint(
        256, (4000,), dtype=torch.uint8, generator=torch.Generator().manual_seed(7)
    )


class Remembers(nn.Module):
    """Knows the whole text by heart: finds a row's context there and says what follows."""

    def __init__(self, text: torch.Tensor) -> None:
        super().__init__()
        self.text = bytes(text.tolist())

    def forward(self, tokens: torch.Tensor, layout: Layout) -> torch.Tensor:
        rows = []
        for row in tokens.tolist():
            start = self.text.find(bytes(row[:CONTEXT_BYTES]))
            following = [self.text[start + p + 1] for p in layout.positions_T.tolist()]
            rows.append(nn.functional.one_hot(torch.tensor(following), 256).float() * 20.0)
        return torch.stack(rows)


def test_items_hold_the_true_continuation_at_the_answer_and_others_elsewhere(text):
    items = make_items(text, num_items=60)
    whole = bytes(text.tolist())
    for rows, answer in zip(items.tokens.tolist(), items.answers.tolist(), strict=True):
        start = whole.find(bytes(rows[0][:CONTEXT_BYTES]))
        truth = whole[start + CONTEXT_BYTES : start + CONTEXT_BYTES + CHOICE_BYTES]
        choices = [bytes(row[CONTEXT_BYTES:]) for row in rows]
        assert len({bytes(row[:CONTEXT_BYTES]) for row in rows}) == 1
        assert [i for i, choice in enumerate(choices) if choice == truth] == [answer]
        assert all(choice in whole for choice in choices)
    assert set(items.answers.tolist()) == {0, 1, 2, 3}


def test_items_depend_on_text_number_and_seed_and_not_on_global_state(text):
    before = torch.get_rng_state()
    items = make_items(text, num_items=20, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert make_items(text, num_items=20, seed=1).digest == items.digest
    assert make_items(text, num_items=20, seed=2).digest != items.digest
    assert make_items(text, num_items=21, seed=1).digest != items.digest


def test_a_model_that_knows_the_text_scores_one(text):
    result = score_cloze(Remembers(text), make_items(text, num_items=50))
    assert (result.acc, result.acc_stderr, result.n, result.chance) == (1.0, 0.0, 50, 0.25)


def test_an_untrained_model_is_near_chance(text):
    items = make_items(text, num_items=200)
    result = score_cloze(build_model({"kind": "dense", "layers": 1}, seed=0), items)
    assert result.acc == pytest.approx(0.25, abs=0.09)
    assert result.acc_stderr == pytest.approx(math.sqrt(result.acc * (1 - result.acc) / 199))
    assert result.items_digest == items.digest


def test_swapping_the_choices_keeps_the_accuracy(text):
    items = make_items(text, num_items=60)
    decoder = Decoder(CONFIG, generator=torch.Generator().manual_seed(0))
    swapped = as_items(items.tokens.flip(1), 3 - items.answers)
    assert swapped.digest != items.digest
    first, second = score_cloze(decoder, items), score_cloze(decoder, swapped)
    assert first.acc == second.acc
    assert 0.0 < first.acc < 1.0
    wrong = ClozeItems(tokens=items.tokens.flip(1), answers=items.answers, digest="")
    assert score_cloze(decoder, wrong).acc != first.acc


def test_choices_side_by_side_score_as_each_in_a_row_of_its_own(text):
    items = make_items(text, num_items=10)
    decoder = Decoder(CONFIG, generator=torch.Generator().manual_seed(0)).eval()
    rows = items.tokens.flatten(0, 1).long()
    with torch.no_grad():
        log_p = decoder(rows[:, :-1]).log_softmax(dim=2)
    alone = log_p.gather(2, rows[:, 1:, None])[:, -CHOICE_BYTES:, 0].sum(dim=1).view(10, 4)
    assert alone.std() > 1.0
    for batch_size in (3, 32):
        together = choice_scores(decoder, items, batch_size=batch_size)
        assert torch.allclose(together, alone, atol=1e-3)


def test_scoring_leaves_generator_and_mode_as_they_were(text):
    config = DenseConfig(d=32, layers=1, heads=2, hidden=48, seq_len=88, dropout=0.5)
    decoder = Decoder(config, generator=torch.Generator().manual_seed(0)).train()
    before = torch.get_rng_state()
    items = make_items(text, num_items=20)
    assert torch.equal(choice_scores(decoder, items), choice_scores(decoder, items))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(module.training for module in decoder.modules())


def test_unusable_items_are_bad_input(text):
    with pytest.raises(BadInput, match="needs 176 bytes"):
        make_items(text[:175])
    with pytest.raises(BadInput, match="at least 2 items"):
        make_items(text, num_items=1)
    with pytest.raises(BadInput, match="repeats itself"):
        make_items(torch.zeros(500, dtype=torch.uint8), num_items=4)
    short = Decoder(DenseConfig(d=32, layers=1, heads=2, hidden=48, seq_len=64))
    items = make_items(text, num_items=4)
    with pytest.raises(BadInput, match="takes 64 positions, not 87"):
        choice_scores(short, items)
