from __future__ import annotations

import pytest

from expdb.errors import BadInput
from expdb.importers.patterns import best_of, by_name, by_regex, llmc, nanogpt, pairs

TRAIN = "step:13/6200 train_loss:6.5125 train_time:641ms step_avg:213.66ms"


def test_nanogpt_keeps_units_in_names():
    line = nanogpt(TRAIN)
    assert line is not None
    assert line.step == "13"
    assert line.pairs == [
        ("train/loss", "6.5125"),
        ("train/elapsed_ms", "641"),
        ("train/step_ms", "213.66"),
    ]


def test_a_step_time_that_is_no_number_costs_no_loss():
    line = nanogpt("step:1/6200 train_loss:10.9184 train_time:74.701s step_avg:nanms")
    assert line is not None
    assert line.pairs == [
        ("train/loss", "10.9184"),
        ("train/elapsed_s", "74.701"),
        ("train/step_ms", "nan"),
    ]


def test_llmc_has_long_names():
    line = llmc("s:1 trl:10.9598 lr:0.000002 norm:15.24")
    assert line is not None
    assert dict(line.pairs) == {
        "train/loss": "10.9598", "train/lr": "0.000002", "train/grad_norm": "15.24",
    }  # fmt: skip
    assert llmc("s:0 tel:11.0092") == ("0", [("val/loss", "11.0092")])


@pytest.mark.parametrize(
    ("text", "step", "found"),
    [
        ("step 10: loss=3.2, lr=1e-4", "10", {"loss": "3.2", "lr": "1e-4"}),
        (
            "[X] iter: 7 | val/loss: 2.5 | dt: 12.5ms |",
            "7",
            {"val/loss": "2.5", "dt_ms": "12.5"},
        ),
        ("global_step=3 acc=51.5% (best=nan)", "3", {"acc_pct": "51.5", "best": "nan"}),
        ("Iteration [5/100] loss: -.5", "5", {"loss": "-.5"}),
        ("step #4 | loss = inf", "4", {"loss": "inf"}),
    ],
)
def test_pairs_reads_what_people_print(text, step, found):
    line = pairs(text)
    assert line is not None
    assert line.step == step
    assert dict(line.pairs) == found


@pytest.mark.parametrize(
    "text", ["loss=3.2", "stepping out", "step 10", "step ten: loss=3", "version=1.2.3", ""]
)
def test_pairs_leaves_other_lines(text):
    assert pairs(text) is None


def test_a_regex_names_its_metrics():
    read = by_regex(r"after (?P<step>\d+): (?P<train__loss>\S+)(?: acc (?P<acc>\S+))?")
    assert read("x after 7: 1.5") == ("7", [("train/loss", "1.5")])
    assert read("x after 7: 1.5 acc 0.3") == ("7", [("train/loss", "1.5"), ("acc", "0.3")])
    assert read("nothing") is None


@pytest.mark.parametrize(
    "regex", ["(", r"(?P<step>\d+)", r"(?P<loss>\d+)", r"\d+", "(?P<step>x)" * 2]
)
def test_a_regex_that_cannot_do_is_refused(regex):
    with pytest.raises(BadInput, match="--regex"):
        by_regex(regex)


def test_the_best_pattern_is_guessed():
    assert best_of(iter([TRAIN] * 3)) == "nanogpt"
    assert best_of(iter(["s:0 tel:11.0", "s:0 trl:11.0 lr:0 norm:1"])) == "llmc"
    assert best_of(iter(["import torch", "step 1: loss=2.0"])) == "pairs"
    assert best_of(iter(["nothing here", ""])) == ""
    with pytest.raises(BadInput, match="no pattern is called x"):
        by_name("x")
