"""What counts as a value: one rule for every entry point."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from expdb.errors import BadInput
from expdb.track.scalars import BadValue, sorted_out, to_float, whole_step

GOOD = [
    (True, 1.0), (False, 0.0), (3, 3.0), (2**53, 2.0**53), (0.1, 0.1), (-0.0, -0.0),
    (float("inf"), math.inf), (Fraction(1, 2), 0.5),
    (np.float32(0.1), 0.10000000149011612), (np.int64(3), 3.0), (np.bool_(True), 1.0),
    (np.array(0.5), 0.5), (np.array([0.5]), 0.5), (np.array([[2]]), 2.0), (np.float16(1.5), 1.5),
    (torch.tensor([0.5]), 0.5), (torch.tensor(1.0, dtype=torch.bfloat16), 1.0),
    (torch.tensor(0.5, dtype=torch.float16), 0.5), (torch.tensor(2.0, requires_grad=True) * 2, 4.0),
    (torch.tensor(True), 1.0), (torch.tensor(7), 7.0),
]  # fmt: skip
BAD = [
    (None, "None"), ("0.5", "text '0.5'"), (b"1", "text"), (Decimal("0.1"), "decimal.Decimal"),
    (2**53 + 1, "beyond 2^53"), (np.int64(2**60), "beyond 2^53"), (np.array([1, 2]), "2 elements"),
    (torch.ones(2), "2 elements"), (np.array([]), "0 elements"), ([0.5], "list"), (1j, "complex"),
    (np.complex64(1), "complex"), (torch.empty((), device="meta"), "without a value"), ({}, "dict"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), GOOD)
def test_numbers_of_every_library(value: Any, expected: float) -> None:
    found = to_float(value)
    assert type(found) is float
    assert found == expected
    assert math.copysign(1, found) == math.copysign(1, expected)


def test_nan_stays_nan() -> None:
    assert math.isnan(to_float(torch.tensor(float("nan"))))


@pytest.mark.parametrize(("value", "words"), BAD)
def test_what_is_no_number_is_said_in_words(value: Any, words: str) -> None:
    with pytest.raises(BadValue, match=words.replace("^", r"\^")):
        to_float(value)


def test_the_good_values_of_a_call_are_kept_beside_the_bad_ones() -> None:
    host, device, refused = sorted_out({"a": 1, "b": None, "": 2, 3: 4, "c": torch.ones(2)}, 7)
    assert host == {"a": 1.0}
    assert not device
    assert refused == [
        "b at step 7 is None, not a number",
        "a metric name is empty",
        "a metric name is 3",
        "c at step 7 is Tensor of 2 elements, not a number",
    ]


@pytest.mark.parametrize(
    ("step", "whole"), [(3, 3), (3.0, 3), (np.int64(3), 3), (True, 1), (-1, -1)]
)
def test_steps(step: Any, whole: int) -> None:
    assert whole_step(step) == whole
    assert whole_step(torch.tensor(4)) == 4


@pytest.mark.parametrize("step", [3.5, "3", None, float("nan"), 2**63, torch.tensor(2.5)])
def test_what_is_no_step(step: Any) -> None:
    with pytest.raises(BadInput, match="step"):
        whole_step(step)
