"""The borders of rules over one measured value: just inside is fine, just beyond for long fires."""

from __future__ import annotations

import pytest

from tests.monitor.feeding import found_in, only

ROWS = [
    # rule, metric, fine, beyond, steps until it fires, severity
    ("data_bound", "train/data_wait_pct", 10.0, 10.1, 50, "warn"),
    ("adam_stale", "layer/a/adam_staleness", 2.3, 2.31, 2, "warn"),
    ("update_ratio", "group/mlp/update_ratio", 1e-2, 1.1e-2, 5, "info"),
    ("update_ratio", "group/mlp/update_ratio", 1e-5, 9e-6, 5, "info"),
    ("activation_outliers", "layer/a/act_kurtosis", 100.0, 101.0, 5, "info"),
    ("dead_units", "layer/a/act_dead", 0.5, 0.51, 5, "warn"),
    ("attn_logit", "layer/a/attn_logit_max", 50.0, 50.1, 2, "warn"),
    ("attn_logit", "layer/a/attn_logit_max", 50.0, 1000.1, 2, "critical"),
    ("attn_collapse", "layer/a/attn_entropy_q25", 0.1, 0.09, 3, "warn"),
    ("emb_collapse", "layer/embed/emb_cosine", 0.5, 0.51, 2, "warn"),
    ("moe_imbalance", "layer/a/moe_max_vio", 1.0, 1.1, 200, "warn"),
    ("moe_imbalance", "layer/a/moe_max_vio", 1.0, 3.1, 200, "critical"),
    ("dead_expert", "layer/a/moe_dead_experts", 0.0, 1.0, 200, "warn"),
    ("mem_retries", "sys/memory_retries", 0.0, 1.0, 1, "warn"),
]


@pytest.mark.parametrize(("rule", "key", "fine", "beyond", "num", "severity"), ROWS)
def test_a_value_just_beyond_its_border_for_long_enough_fires(
    rule: str, key: str, fine: float, beyond: float, num: int, severity: str
) -> None:
    section = only(**{rule: True})
    steady = {"train/lr": 1e-3}
    start = [steady, steady]  # the first rate is warm-up
    assert found_in([*start, *[{**steady, key: fine}] * (num + 50)], section) == []
    rows = [*start, *[{**steady, key: beyond}] * num]
    assert found_in(rows[:-1], section) == []
    (found,) = found_in(rows, section)
    assert (found.severity, found.key, found.step) == (severity, key, len(rows) - 1)


def test_activations_ten_times_their_own_history_grow() -> None:
    calm = [{"layer/a/act_rms": 1.0 + 0.01 * (at % 5)} for at in range(40)]
    for factor, steps in ((9.0, []), (10.5, [141])):
        rows = [*calm, *[{"layer/a/act_rms": factor}] * 5]
        found = found_in(rows, only(activation_growth=True), first=100)
        assert [one.step for one in found if one.severity == "warn"] == steps
