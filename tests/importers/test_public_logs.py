"""Public logs and tables, with the numbers that are known of them; beside each a small one like it.

The files lie where EXPDB_CASES says; without them these tests are skipped, and the small ones run.
"""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest

from expdb.index.reader import open_reader
from expdb.query.rank import ranking
from expdb.query.seeds import over_seeds


def test_b01_a_speed_run_of_6200_steps(place, cases):
    found = place.take(cases / "nanogpt_muon_6200" / "train.log")
    (made,) = found.runs
    series = place.run(made.id).series
    train, val = series["train/loss"], series["val/loss"]
    assert (found.pattern, found.skipped) == ("nanogpt", ())
    assert (train.count, train.first_step, train.last_step) == (6200, 1, 6200)
    assert (train.first, train.last) == (10.9184, 3.2533)
    assert (train.min, train.min_step) == (2.9533, 5424)
    assert (val.count, val.first_step, val.last_step) == (51, 0, 6200)
    assert (val.first, val.last, val.min, val.min_step) == (10.9264, 3.2785, 3.2785, 6200)
    # The 13 lines without a step time, of 12 steps and an evaluation, all have their loss.
    nan = "select step from points where key = 'train/step_ms' and isnan(value) order by step"
    steps = [step for (step,) in place.ask(nan)]
    losses = "select count(*) from points where key like '%loss' and step <= ?"
    assert place.ask(losses, steps[-1]) == [(len(steps),)] == [(13,)]


def test_b02_the_baseline_of_19560_steps(place, cases):
    (made,) = place.take(cases / "llmc_19560" / "main.log").runs
    series = place.run(made.id).series
    train, val = series["train/loss"], series["val/loss"]
    assert (train.count, train.first_step, train.last_step) == (19_560, 0, 19_559)
    assert (train.first, train.last, train.min, train.min_step) == (11.0091, 3.2217, 3.1022, 18_017)
    assert (val.count, val.min) == (80, 3.2722)
    tied = "select step from points where key = 'val/loss' and value = 3.2722 order by step"
    assert place.ask(tied) == [(19_250,), (19_500,), (19_560,)]
    assert val.min_step == 19_250  # of equal values the earliest
    assert series["train/grad_norm"].first == 15.37


def test_b03_two_settings_of_six_seeds(place, cases):
    names = {}
    for path in sorted((cases / "seed_sweep").glob("*.log")):
        (made,) = place.take(path, objective="val/loss").runs
        names[made.id] = (made.experiment.split("_")[0][-5:], made.seed)
        series = place.run(made.id).series
        assert series["val/loss"].count == 36
        assert "train/loss" not in series
    assert Counter(setting for setting, _ in names.values()) == {"b1090": 6, "b1095": 6}
    with open_reader(place.store, build=False) as reader:
        rows = ranking(reader, "val/loss").rows
        better, worse = over_seeds(reader, "val/loss").groups
    assert [(names[row.id], row.value) for row in (rows[0], rows[1], rows[-1])] == [
        (("b1095", 4), 3.27706),
        (("b1095", 1), 3.27715),
        (("b1090", 4), 3.28388),
    ]
    assert [_rounded(group) for group in (better, worse)] == [
        ("b1095", 6, 3.278003, 0.000783),
        ("b1090", 6, 3.282940, 0.001084),
    ]


def _rounded(group):
    """Return the setting of a group, its number of runs, mean and sample deviation."""
    setting = group.experiment.split("_")[0][-5:]
    return setting, len(group.runs), round(group.mean, 6), round(group.sd, 6)


def test_b08_a_trainer_state_of_7000_steps(place, cases):
    path = cases / "hf_mt5_summarise" / "trainer_state.json"
    body = json.loads(path.read_text())
    assert (len(body["log_history"]), body["best_metric"]) == (770, None)
    found = place.take(path, experiment="mt5")
    (made,) = found.runs
    assert (made.num_points, made.num_keys, found.skipped) == (1960, 10, ())
    assert place.ask("select count(distinct step) from points") == [(700,)]
    run = place.run(made.id)
    loss, val, rouge = (run.series[name] for name in ("loss", "eval_loss", "eval_rougeL"))
    assert (loss.first_step, loss.first, loss.last_step, loss.last) == (10, 25.5062, 7000, 2.2437)
    assert (loss.min, loss.min_step) == (2.231, 6930)
    assert (val.min, val.min_step) == (2.0531845092773438, 6900)
    assert round(val.last, 8) == 2.06527686
    assert (round(rouge.max or 0, 8), rouge.max_step, round(rouge.last, 8)) == (
        0.34297534, 6700, 0.32015842,
    )  # fmt: skip
    assert run.max_steps == 9411


def test_small_speed_runs_of_the_same_form(place, tmp_path):
    values = {"b1090": (3.3, 3.5), "b1095": (3.1, 3.2)}
    for setting, ends in values.items():
        for seed, end in enumerate(ends):
            lines = ["step:0/2 val_loss:10.82584 train_time:0.000s step_avg:nanms"]
            lines += [f"step:{n}/2 train_time:{n}.041s step_avg:90041.48ms" for n in (1, 2)]
            lines += [f"step:2/2 val_loss:{end} train_time:2.675s step_avg:313.53ms"]
            path = tmp_path / f"opt-{setting}-seed-{seed}.log"
            path.write_text("\n".join(lines) + "\n")
            (made,) = place.take(path, objective="val/loss").runs
            series = place.run(made.id).series
            assert sorted(series) == ["train/elapsed_s", "train/step_ms", "val/loss"]
            assert series["val/loss"].count == 2
    sql = "select experiment, avg(value), count(*) from runs group by all order by 2"
    assert place.ask(sql) == [
        ("opt-b1095", pytest.approx(3.15), 2),
        ("opt-b1090", pytest.approx(3.4), 2),
    ]


def test_a_small_log_of_llmc(place, tmp_path):
    path = tmp_path / "main.log"
    path.write_text(
        "s:0 tel:11.0092\n"
        "s:0 trl:11.0091 lr:0.000001 norm:15.37\n"
        "s:1 trl:nan lr:0.000002 norm:inf\n"
        "s:2 tel:9.5\n"
    )
    (made,) = place.take(path).runs
    series = place.run(made.id).series
    assert series["val/loss"].last == 9.5
    assert (series["train/loss"].count, series["train/loss"].nonfinite) == (2, 1)
    assert math.isinf(series["train/grad_norm"].last)
