from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from expdb.model import Attempt, Pin, Run
from expdb.query.compare_results import (
    CodeDiff,
    Comparison,
    ConfigDiff,
    FileDiff,
    MetricDiff,
    NamedDiff,
    Verdict,
)
from expdb.query.results import ABSENT, Noise, Outcome
from expdb.report import comparison, comparison_tables, verdict
from expdb.report.rows_out import write_csv
from expdb.text import cells

BASELINE, EXP01, COSINE, ZLOSS = "k3f9x2m7qd", "t1h6y3cz8r", "d6v3m9s2xk", "g2z8r5n1fs"
SAME_ENV = (NamedDiff(name="python", values=("3.11.7", "3.11.7")),)


def filler(number: int, runs: int = 2) -> tuple[ConfigDiff, ...]:
    """Equal keys, so that the number of all keys is as in a real config."""
    return tuple(
        ConfigDiff(key=f"model.k{at:02d}", values=(at,) * runs, differs=False)
        for at in range(number)
    )


def metric_diff(key: str, *values: float, outcome: Outcome | None = None, **change) -> MetricDiff:
    deltas = (None, *(round(value - values[0], 6) for value in values[1:]))
    made = MetricDiff(
        key=key,
        values=values,
        deltas=deltas,
        deltas_pct=(None, *((value / values[0] - 1) * 100 for value in values[1:])),
        better=(None,) * len(values),
        outcomes=(None, *([outcome] * (len(values) - 1))),
        step=300,
    )
    return replace(made, **change)


def compare_exp01(cast: SimpleNamespace) -> Comparison:
    return Comparison(
        runs=(cast.run(BASELINE), cast.run(EXP01)),
        objective=cast.loss,
        step=300,
        config=(*filler(40), ConfigDiff(key="optim.lr", values=(0.003, 0.01), differs=True)),
        code=CodeDiff(same_tree=True),
        environment=SAME_ENV,
        data=(NamedDiff(name="train", values=("sha256:1", "sha256:1")),),
        metrics=(
            metric_diff("val/loss", 1.848, 2.028, outcome=Outcome.WORSE, is_objective=True),
            metric_diff("val/ppl", 6.347, 7.599),
            metric_diff("train/loss", 1.620, 1.831),
            metric_diff("train/tokens_per_s", 18420.0, 18310.0),
            metric_diff("train/lr", 0.001, 0.001),
            metric_diff("layer/0/norm", 1.0, 2.0),
        ),
        evals=(
            metric_diff(
                "eval/cloze/acc",
                0.460,
                0.430,
                outcome=Outcome.NO_DIFFERENCE,
                noise=(None, 0.0497),
                n=400,
            ),
        ),
        num_events=({}, {"warn": 1}),
        verdicts=(
            Verdict(
                run=EXP01,
                outcome=Outcome.WORSE,
                reason="val/loss +0.180 (+9.7 %), beyond noise ±0.022",
                delta=0.18,
                delta_pct=9.74,
                step=300,
            ),
        ),
        noise=cast.noise,
    )


def using(run: Run, blob: str) -> Run:
    """Return the run with the files that it imported."""
    used = {"train.py": blob, "expdb/demo/data.py": blob, "expdb/demo/model.py": "same"}
    attempt = replace(run.attempts[-1], pin=replace(run.pin, used=used))
    return replace(run, attempts=(attempt,))


def compare_zloss(cast: SimpleNamespace) -> Comparison:
    return replace(
        compare_exp01(cast),
        runs=(using(cast.run(BASELINE), "1"), using(cast.run(ZLOSS), "2")),
        config=(*filler(41), ConfigDiff(key="loop.z_loss", values=(ABSENT, 0.0001), differs=True)),
        code=CodeDiff(
            same_tree=False,
            files=(
                FileDiff(status="M", path="train.py", num_added=9, num_removed=2),
                FileDiff(status="M", path="expdb/demo/data.py", num_added=3, num_removed=3),
                FileDiff(status="A", path="zloss.py", num_added=14, num_removed=0),
                FileDiff(status="A", path="conf/exp/exp07_zloss.yaml", num_added=4, num_removed=0),
            ),
        ),
        environment=(*SAME_ENV, NamedDiff(name="torch.num_threads", values=("1", "2"))),
        metrics=(
            metric_diff("val/loss", 1.848, 1.839, outcome=Outcome.NO_DIFFERENCE, is_objective=True),
            metric_diff("train/tokens_per_s", 18420.0, 21760.0),
        ),
        evals=(
            metric_diff(
                "eval/cloze/acc",
                0.460,
                0.468,
                outcome=Outcome.NO_DIFFERENCE,
                noise=(None, 0.0489),
                n=400,
            ),
        ),
        num_events=({}, {}),
        verdicts=(
            Verdict(
                run=ZLOSS,
                outcome=Outcome.NO_DIFFERENCE,
                reason="val/loss -0.009 (-0.5 %), inside noise ±0.022",
                delta=-0.009,
            ),
        ),
    )


def compare_cosine(cast: SimpleNamespace) -> Comparison:
    """A project without a declared noise: inconclusive."""
    return replace(
        compare_zloss(cast),
        runs=(cast.run(BASELINE), cast.run(COSINE)),
        config=(
            *filler(38),
            ConfigDiff(key="schedule.kind", values=("multi_step", "cosine"), differs=True),
            ConfigDiff(key="schedule.min_ratio", values=(ABSENT, 0.1), differs=True),
            ConfigDiff(key="schedule.fractions", values=([0.8, 0.9], ABSENT), differs=True),
            ConfigDiff(key="schedule.factors", values=([0.316, 0.1], ABSENT), differs=True),
        ),
        code=CodeDiff(same_tree=True),
        environment=SAME_ENV,
        metrics=(
            metric_diff("val/loss", 1.848, 1.841, outcome=Outcome.INCONCLUSIVE, is_objective=True),
        ),
        verdicts=(
            Verdict(
                run=COSINE,
                outcome=Outcome.INCONCLUSIVE,
                reason="val/loss -0.007 (-0.4 %): 1 seed each and no noise declared",
                delta=-0.007,
            ),
        ),
        noise=None,
    )


def compare_three(cast: SimpleNamespace) -> Comparison:
    two = compare_exp01(cast)
    outcomes = (None, Outcome.WORSE, Outcome.NO_DIFFERENCE)
    return replace(
        two,
        runs=(*two.runs, cast.run(COSINE)),
        config=(
            *filler(37, 3),
            ConfigDiff(key="optim.lr", values=(0.003, 0.01, 0.003), differs=True),
            ConfigDiff(
                key="schedule.kind", values=("multi_step", "multi_step", "cosine"), differs=True
            ),
            ConfigDiff(key="schedule.min_ratio", values=(ABSENT, ABSENT, 0.1), differs=True),
            ConfigDiff(
                key="schedule.fractions", values=([0.8, 0.9], [0.8, 0.9], ABSENT), differs=True
            ),
            ConfigDiff(
                key="schedule.factors", values=([0.316, 0.1], [0.316, 0.1], ABSENT), differs=True
            ),
        ),
        environment=(NamedDiff(name="python", values=("3.11.7",) * 3),),
        data=(NamedDiff(name="train", values=("sha256:1",) * 3),),
        metrics=(
            replace(
                metric_diff("val/loss", 1.848, 2.028, 1.841, is_objective=True), outcomes=outcomes
            ),
            metric_diff("train/loss", 1.620, 1.831, 1.611),
        ),
        evals=(metric_diff("eval/cloze/acc", 0.460, 0.430, 0.465, n=400),),
        num_events=({}, {}, {}),
        verdicts=(
            two.verdicts[0],
            Verdict(
                run=COSINE,
                outcome=Outcome.NO_DIFFERENCE,
                reason="val/loss -0.007 (-0.4 %), inside noise ±0.022",
            ),
        ),
    )


@pytest.mark.parametrize("width", [100, 80])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("worse", compare_exp01),
        ("code", compare_zloss),
        ("inconclusive", compare_cosine),
        ("three", compare_three),
    ],
)
def test_compare_is_as_in_its_golden_file(cast, screen, golden, name, make, width):
    lines = comparison.render(make(cast), screen(width=width))
    assert max(cells(line) for line in lines) <= width or name != "worse"
    golden(f"compare-{name}-{width}.txt", lines)


def test_compare_in_a_pipe_has_no_empty_cell(cast, screen, golden):
    lines = comparison.render(compare_exp01(cast), screen(terminal=False, ascii=True))
    golden("compare-pipe.txt", lines)
    assert all(line.isascii() for line in lines)


def test_too_narrow_for_columns_runs_become_rows(cast, screen, golden):
    lines = comparison.render(compare_three(cast), screen(width=70))
    golden("compare-three-70.txt", lines)
    assert lines[1].startswith("k3f9  baseline")


def test_between_names_and_rows_stands_the_id_alone(cast, screen):
    lines = comparison.render(compare_exp01(cast), screen(width=62))
    assert lines[0].split() == ["k3f9", "t1h6", "delta"]
    assert any("train/tokens_per_s" in line for line in lines)


def test_all_lists_what_is_equal(cast, screen):
    some = comparison.render(compare_exp01(cast), screen())
    every = comparison.render(compare_exp01(cast), screen(), all=True)
    assert len([line for line in every if line.startswith("  model.k")]) == 40
    assert not any("model.k00" in line or "layer/0" in line for line in some)
    assert any("layer/0/norm" in line for line in every)


def test_config_only_shows_nothing_else(cast, screen):
    lines = comparison.render(compare_exp01(cast), screen(), config_only=True)
    assert [line.split()[0] for line in lines[1:]] == ["config", "optim.lr"]


def test_equal_runs_say_same(cast, screen):
    made = replace(compare_exp01(cast), config=filler(41))
    lines = comparison.render(made, screen())
    assert lines[1] == "config       same     41 keys"


def test_data_that_no_run_recorded_is_not_called_the_same(cast, screen):
    lines = comparison.render(replace(compare_exp01(cast), data=()), screen())
    assert "data         none recorded" in lines


def test_unknown_code_says_why(cast, screen):
    made = replace(compare_exp01(cast), code=CodeDiff(same_tree=None, note="k3f9 is not pinned"))
    lines = comparison.render(made, screen())
    assert "code         unknown  k3f9 is not pinned" in lines


def test_other_items_are_named(cast, screen):
    made = compare_exp01(cast)
    right = made.runs[1]
    other = replace(right, evals=(replace(right.evals[0], items_digest="sha256:other"),))
    lines = comparison.render(replace(made, runs=(made.runs[0], other)), screen())
    assert "evals        step 300, 400 items, other items" in lines


def test_nan_is_shown_as_such(cast, screen):
    nan = metric_diff("val/loss", 1.848, float("nan"), is_objective=True)
    lines = comparison.render(replace(compare_exp01(cast), metrics=(nan,)), screen())
    assert next(line for line in lines if "val/loss" in line).split()[:3] == [
        "val/loss",
        "1.848",
        "NaN",
    ]


def test_an_unpinned_run_and_a_detached_one_name_their_code(cast, screen):
    detached = Pin(commit=cast.first, branch="detached")
    base = cast.run(BASELINE)
    left = replace(base, attempts=(replace(base.attempts[0], pin=detached),))
    made = replace(compare_exp01(cast), runs=(left, cast.run(EXP01)))
    assert any("detached at 4be1f02, clean" in line for line in comparison.render(made, screen()))
    nothing = replace(base, attempts=(Attempt(number=1, pin=Pin(reasons=("not in git",))),))
    made = replace(made, runs=(nothing, made.runs[1]), code=CodeDiff(same_tree=False))
    assert any("no commit → 4be1f02" in line for line in comparison.render(made, screen()))


def test_what_would_settle_an_inconclusive_comparison(cast):
    assert verdict.settle(compare_cosine(cast)) == [
        ("settle", "python train.py -m +exp=baseline,exp02_cosine seed=1,2"),
        ("hint", "or declare the noise you know, in conf/expdb: noise: {val/loss: SD}"),
    ]
    assert verdict.settle(compare_exp01(cast)) == []
    variant = replace(compare_cosine(cast), runs=(cast.run(BASELINE), cast.run("h4q8z1rn6c")))
    assert [label for label, _ in verdict.settle(variant)] == ["hint"]


def test_measured_noise_says_over_how_many_seeds(cast, screen):
    noise = Noise(metric="val/loss", sd=0.0081, source="measured", num_seeds=3)
    lines = comparison.render(replace(compare_exp01(cast), noise=noise), screen())
    assert lines[-1] == "       noise: seed sd 0.008 measured over 3 seeds, 1 seed each"


def test_many_files_are_counted(cast, screen):
    files = tuple(
        FileDiff(status="M", path=f"a{at}.py", num_added=1, num_removed=None) for at in range(50)
    )
    made = replace(compare_zloss(cast), code=CodeDiff(same_tree=False, files=files))
    lines = comparison.render(made, screen())
    assert "  20 more: --all" in [line.rstrip() for line in lines]
    assert len(comparison.render(made, screen(), all=True)) == len(lines) + 19 + 44


def test_a_comparison_as_markdown_and_csv(cast, screen, golden):
    found = compare_exp01(cast)
    style = screen(terminal=False, ascii=True)
    golden("compare-worse.md", comparison_tables.to_markdown(found, style))
    golden("compare-worse.csv", write_csv(*comparison_tables.table(found)).splitlines())
    only = comparison_tables.to_markdown(found, style, config_only=True)
    assert len(only) == 4
    assert only[-1].startswith("| optim.lr | 0.003 | 0.01 |")
    heads, rows = comparison_tables.table(found, config_only=True)
    assert [row[:2] for row in rows] == [["config", "optim.lr"]]
    assert {len(row) for row in rows} == {len(heads)}


def test_a_comparison_of_three_has_deltas_beside_each(cast, screen, golden):
    found = compare_three(cast)
    lines = comparison_tables.to_markdown(found, screen(terminal=False, ascii=True))
    golden("compare-three.md", lines)
    table = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1
    heads, rows = comparison_tables.table(found)
    assert {len(row) for row in rows} == {len(heads)}
    assert heads[-4:] == [
        f"{what} {run.id}" for run in found.runs[1:] for what in ("delta", "outcome")
    ]


def test_a_name_stays_text_in_markdown(cast, screen):
    evil = replace(cast.run(EXP01), experiment="a|b<i>\n*x*")
    found = replace(compare_exp01(cast), runs=(cast.run(BASELINE), evil))
    text = "\n".join(comparison_tables.to_markdown(found, screen(terminal=False)))
    assert r"a\|b\<i\>\\x0a\*x\* t1h6" in text
