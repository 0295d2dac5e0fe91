"""Means over seeds, their half-widths, and the t distribution behind them."""

from __future__ import annotations

import math

import pytest

from expdb.errors import BadInput, NotFound
from expdb.index.reader import Reader, open_reader
from expdb.model import RunState
from expdb.query.results import Noise, Outcome
from expdb.query.seed_compare import compare_seeds
from expdb.query.seed_results import SeedGroups
from expdb.query.seeds import mean_delta, over_seeds
from expdb.query.student import t_quantile, welch_half_width
from expdb.store.store import Store
from tests.query.conftest import set_ref
from tests.query.made import make_run, write_run

NOISE = Noise(metric="val/loss", sd=0.008, source="declared")


@pytest.mark.parametrize(
    ("p", "df", "value"),
    [
        (0.975, 1, 12.7062), (0.975, 2, 4.3027), (0.975, 3, 3.1824), (0.975, 4, 2.7764),
        (0.975, 5, 2.5706), (0.975, 10, 2.2281), (0.975, 30, 2.0423), (0.975, 120, 1.9799),
        (0.95, 5, 2.0150), (0.995, 7, 3.4995), (0.9, 1, 3.0777), (0.9995, 2, 31.5991),
        (0.5, 3, 0.0), (0.025, 4, -2.7764), (0.975, 1e6, 1.9600),
    ],
)  # fmt: skip
def test_t_quantiles_are_those_of_the_tables(p: float, df: float, value: float) -> None:
    assert t_quantile(p, df) == pytest.approx(value, abs=5.1e-5)


def test_t_quantiles_grow_with_p_and_fall_with_df() -> None:
    values = [t_quantile(0.975, df) for df in (0.7, 1, 2.5, 3.19, 8, 55.5, 1e4)]
    assert values == sorted(values, reverse=True)
    assert t_quantile(0.99, 3) > t_quantile(0.975, 3)


def test_welch_is_worked_out_by_hand() -> None:
    left, right = [1.848, 1.864, 1.856], [1.841, 1.868, 1.851]
    a, b = 0.000064 / 3, 0.00018633333 / 3
    df = (a + b) ** 2 / (a**2 / 2 + b**2 / 2)
    assert welch_half_width(left, right) == pytest.approx(t_quantile(0.975, df) * math.sqrt(a + b))
    assert welch_half_width([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]) == 0


def test_a_half_width_comes_from_both_spreads_else_from_noise_else_there_is_none() -> None:
    three, one = (1.0, 1.01, 1.02), (1.5,)
    found = mean_delta(three, (2.0, 2.01, 2.02), NOISE, "min")
    assert found is not None
    assert (found.how, found.outcome) == ("welch", Outcome.WORSE)
    found = mean_delta(three, one, NOISE, "min")
    assert found is not None
    assert found.half_width == pytest.approx(1.959964 * 0.008 * math.sqrt(1 / 3 + 1))
    assert (found.how, found.outcome) == ("noise", Outcome.WORSE)
    found = mean_delta(three, one, None, "min")
    assert found is not None
    assert (found.half_width, found.how, found.outcome) == (None, "", Outcome.INCONCLUSIVE)
    assert mean_delta(three, (), NOISE, "min") is None
    unjudged = mean_delta(three, one, NOISE, None)
    assert unjudged is not None
    assert unjudged.outcome is None


def shown(found: SeedGroups) -> list[str]:
    return [
        f"{group.name} {len(group.values)} {group.mean:.3f}"
        + ("" if group.sd is None else f" {group.sd:.3f}")
        + ("" if group.delta is None else f" {group.delta.value:+.3f} {group.delta.half_width:.3f}")
        for group in found.groups
    ]


def test_the_cast_over_seeds_is_as_on_the_screen(cast: Reader) -> None:
    found = over_seeds(cast)
    assert shown(found) == [
        "exp07_zloss 1 1.839 -0.017 0.018",
        "exp06_moe 1 1.852 -0.004 0.018",
        "exp02_cosine 3 1.853 0.014 -0.003 0.028",
        "baseline 3 1.856 0.008",
        "exp04_bad_batch 1 1.859 +0.003 0.018",
        "exp01+optim.lr=0.005 1 1.902 +0.046 0.018",
        "exp01 1 2.028 +0.172 0.018",
        "exp03_lr_jump 1 2.871 +1.015 0.018",
    ]
    assert [group.is_baseline for group in found.groups].index(True) == 3
    assert found.groups[3].refs == ("baseline",)
    assert [why for _, why in found.not_ranked] == ["NaN since step 50", "crashed", "running"]


def test_a_filter_and_a_limit_keep_what_is_measured_against(cast: Reader) -> None:
    found = over_seeds(cast, where="r.experiment = ?", params=["exp02_cosine"], limit=1)
    assert shown(found) == ["exp02_cosine 3 1.853 0.014 -0.003 0.028"]
    assert found.base is not None
    assert found.base.seeds == (0, 1, 2)
    assert over_seeds(cast, limit=2).num_all == 8
    with pytest.raises(NotFound, match="no run is selected"):
        over_seeds(cast, where="r.experiment = ?", params=["none"])


def test_newest_first_keeps_groups_without_a_value(cast: Reader) -> None:
    found = over_seeds(cast, newest_first=True)
    assert [group.name for group in found.groups][:4] == [
        "exp05_overfit", "exp07_zloss", "exp09_fp16", "exp06_moe",
    ]  # fmt: skip
    assert found.groups[3].states == {"finished": 1, "crashed": 1}
    assert (found.groups[0].values, found.groups[0].delta) == ((), None)


def test_the_newest_finished_run_of_a_seed_counts_and_other_configs_stand_apart(
    store: Store,
) -> None:
    write_run(store, make_run("aaaaaaaaaa", seed=0, value=3.0, minutes=0))
    write_run(store, make_run("bbbbbbbbbb", seed=0, value=2.0, minutes=1))
    write_run(store, make_run("cccccccccc", seed=0, value=1.0, minutes=2, state=RunState.FAILED))
    write_run(store, make_run("dddddddddd", seed=1, value=2.2, minutes=3))
    write_run(store, make_run("eeeeeeeeee", seed=2, value=9.0, minutes=4, config={"other": 1}))
    nan = make_run("ffffffffff", seed=3, minutes=5, points={"val/loss": {0: math.nan}})
    write_run(store, nan)
    with open_reader(store) as reader:
        found = over_seeds(reader)
        first, second = found.groups
        assert (first.runs, first.mean) == (("bbbbbbbbbb", "dddddddddd"), pytest.approx(2.1))
        assert (first.shares_name, second.shares_name) == (True, True)
        assert second.runs == ("eeeeeeeeee",)
        assert {row.id: why for row, why in found.not_ranked} == {
            "cccccccccc": "failed", "ffffffffff": "NaN since step 0",
        }  # fmt: skip


def test_without_a_baseline_the_first_is_measured_against_the_second(store: Store) -> None:
    for at, value in enumerate((1.0, 1.001, 1.002)):
        write_run(store, make_run(f"a{at:09d}", experiment="a", seed=at, value=value))
        write_run(store, make_run(f"b{at:09d}", experiment="b", seed=at, value=value + 1))
    with open_reader(store) as reader:
        found = over_seeds(reader)
        assert found.baseline is None
        assert found.ahead is not None
        assert (found.ahead.outcome, found.ahead.how) == (Outcome.BETTER, "welch")


def test_groups_are_compared_by_every_metric(cast: Reader) -> None:
    found = compare_seeds(cast, ["k3f9x2m7qd", "d6v3m9s2xk", "t1h6y3cz8r"])
    assert [metric.key for metric in found.metrics] == [
        "val/loss", "train/loss", "train/tokens_per_s", "eval/cloze/acc",
    ]  # fmt: skip
    loss = found.metrics[0]
    assert [len(values) for values in loss.values] == [3, 3, 1]
    assert [group.delta and group.delta.outcome for group in found.groups] == [
        None, Outcome.NO_DIFFERENCE, Outcome.WORSE,
    ]  # fmt: skip
    assert all(delta is None or delta.outcome is None for delta in found.metrics[1].deltas)


def test_comparing_one_group_or_an_unknown_metric_is_refused(cast: Reader) -> None:
    with pytest.raises(BadInput, match="these runs are one group"):
        compare_seeds(cast, ["k3f9x2m7qd", "m8c2v5tq1n"])
    with pytest.raises(NotFound) as error:
        compare_seeds(cast, ["k3f9x2m7qd", "d6v3m9s2xk"], metric="val/los")
    assert error.value.hints == ("nearest: val/loss",)


def test_a_group_without_a_finite_value_is_inconclusive(store: Store) -> None:
    write_run(store, make_run("aaaaaaaaaa", value=2.0))
    write_run(store, make_run("bbbbbbbbbb", experiment="b", points={"val/loss": {0: math.inf}}))
    set_ref(store, "baseline", "aaaaaaaaaa")
    with open_reader(store) as reader:
        found = compare_seeds(reader, ["aaaaaaaaaa", "bbbbbbbbbb"])
        assert (found.groups[1].values, found.groups[1].delta) == ((), None)
