"""`--over seed` as lines: the ranking, the list, the comparison."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace

import pytest

from expdb.query.results import Outcome
from expdb.query.seed_results import SeedComparison, SeedGroup, SeedGroups, SeedMetric
from expdb.query.seeds import mean_delta
from expdb.report import ranking, seed_comparison, seeds, seeds_json
from expdb.report.json import dumps
from expdb.text import cells

AHEAD = "best  exp07_zloss, ahead of baseline by 0.356 ±0.018, beyond noise"
UNKNOWN = "inconclusive  fewer than 3 seeds on a side, and no noise is known"


def make_groups(cast):
    """Return the groups of the cast, newest first, measured against the baseline's."""
    found = {}
    for row in cast.rows:
        found.setdefault(row.name, []).append(row)
    base = tuple(row.value for row in reversed(found["baseline"]))
    groups = []
    for rows in found.values():
        done = [row for row in reversed(rows) if row.state == "finished"]
        values = tuple(row.value for row in done)
        states = {
            state: sum(row.state == state for row in rows) for state in {r.state for r in rows}
        }
        groups.append(
            SeedGroup(
                experiment=rows[0].experiment,
                variant=rows[0].variant,
                digest="v1:295b85f83ea3",
                runs=tuple(row.id for row in done),
                seeds=tuple(row.seed for row in done),
                values=values,
                newest_ms=max(row.created_at_ms for row in rows),
                states={state.value: number for state, number in states.items()},
                mean=statistics.fmean(values) if values else None,
                sd=statistics.stdev(values) if len(values) > 1 else None,
                delta=None
                if rows[0].name == "baseline"
                else mean_delta(base, values, cast.noise, "min"),
                is_baseline=rows[0].name == "baseline",
                refs=tuple(ref for row in done for ref in row.refs),
            )
        )
    return groups


def make_found(cast, *, ranked=True, **change):
    groups = make_groups(cast)
    base = next(group for group in groups if group.is_baseline)
    if ranked:
        groups = sorted((group for group in groups if group.values), key=lambda group: group.mean)
    made = SeedGroups(
        objective=cast.loss,
        noise=cast.noise,
        groups=tuple(groups),
        num_all=len(groups),
        baseline=cast.rows[-1],
        base=base,
        not_ranked=((cast.rows[2], "NaN since step 50"),),
    )
    return replace(made, **change)


def make_comparison(cast):
    by_name = {group.name: group for group in make_groups(cast)}
    groups = (by_name["baseline"], by_name["exp02_cosine"], by_name["exp01"])
    acc = ((0.46, 0.49, 0.473), (0.465, 0.478, 0.470), (0.43,))
    metrics = tuple(
        SeedMetric(
            key=key,
            values=values,
            means=tuple(map(statistics.fmean, values)),
            sds=tuple(statistics.stdev(one) if len(one) > 1 else None for one in values),
            deltas=(None, *(mean_delta(values[0], one, noise, mode) for one in values[1:])),
            is_objective=mode is not None,
        )
        for key, values, noise, mode in (
            ("val/loss", tuple(group.values for group in groups), cast.noise, "min"),
            ("eval/cloze/acc", acc, None, None),
        )
    )
    return SeedComparison(groups=groups, objective=cast.loss, noise=cast.noise, metrics=metrics)


def test_rank_over_seeds_at_100_columns(cast, screen, golden):
    lines = seeds.render_rank(make_found(cast), screen())
    golden("rank-seeds-100.txt", lines)
    assert lines[3] == (
        "  1  exp07_zloss               1  1.839      -  -0.017 ±0.018 noise  1.839  1.839"
    )
    assert lines[-1] == "no winner  no experiment is better than baseline beyond noise"


def test_rank_over_seeds_at_60_columns_loses_min_max_and_sd(cast, screen, golden):
    lines = seeds.render_rank(make_found(cast), screen(width=60))
    golden("rank-seeds-60.txt", lines)
    assert max(cells(line) for line in lines[2:-4]) <= 60


def test_rank_over_seeds_in_a_pipe(cast, screen, golden):
    lines = seeds.render_rank(make_found(cast), screen(terminal=False, ascii=True))
    golden("rank-seeds-pipe.txt", lines)
    assert all(line.isascii() for line in lines)
    rows = [line for line in lines[2:11] if line]
    assert {len([field for field in line.split("  ") if field.strip()]) for line in rows} == {8}


def test_rank_over_seeds_in_json(cast, golden):
    golden("rank-seeds.json", dumps(seeds_json.groups(make_found(cast))).splitlines())


def test_the_resolution_says_the_seeds_of_the_baseline(cast):
    said = ranking.said_of_baseline(cast.rows[-1], is_ref=True)
    said += seeds.said_of_group(make_found(cast))
    assert said == (
        "baseline = k3f9x2m7qd (ref baseline: exp baseline, seed 0);"
        " over seeds: exp baseline, seeds 0-2"
    )
    assert ranking.said_of_baseline(None, is_ref=False) == ""


@pytest.mark.parametrize(
    ("values", "noise", "last"),
    [
        ({"exp07_zloss": (1.5,)}, True, AHEAD),
        (
            {"exp07_zloss": (1.5,), "exp01": (1.6,), "exp06_moe": (1.7,)},
            True,
            f"{AHEAD}; also better: exp01, exp06_moe",
        ),
        ({"exp07_zloss": (1.5,)}, False, UNKNOWN),
    ],
)  # fmt: skip
def test_the_last_line_decides(cast, screen, values, noise, last):
    known = cast.noise if noise else None
    found = make_found(cast, noise=known)
    base = found.base.values
    groups = [
        replace(
            group,
            values=values.get(group.name, group.values),
            mean=statistics.fmean(values.get(group.name, group.values)),
            delta=None
            if group.is_baseline
            else mean_delta(base, values.get(group.name, group.values), known, "min"),
        )
        for group in found.groups
        if noise or group.name in ("baseline", "exp07_zloss")
    ]
    groups.sort(key=lambda group: group.mean)
    assert seeds.render_rank(replace(found, groups=tuple(groups)), screen())[-1] == last


def test_groups_of_one_name_show_their_config(cast, screen):
    found = make_found(cast)
    twice = tuple(replace(group, shares_name=True) for group in found.groups[:1])
    lines = seeds.render_rank(replace(found, groups=twice), screen())
    assert "exp07_zloss (v1:295b85f)" in lines[3]


def test_the_list_over_seeds_has_groups_without_a_value(cast, screen, golden):
    found = make_found(cast, ranked=False)
    golden("ls-seeds-100.txt", seeds.render_list(found, screen()))
    assert seeds.render_list(replace(found, groups=()), screen()) == []


def test_compare_over_seeds(cast, screen, golden):
    lines = seed_comparison.render_comparison(make_comparison(cast), screen())
    golden("compare-seeds-100.txt", lines)
    assert lines[-1].startswith(
        "exp01         worse          val/loss +0.172, 1 seed against 3, beyond"
    )
    piped = screen(terminal=False, ascii=True)
    golden(
        "compare-seeds-pipe.txt", seed_comparison.render_comparison(make_comparison(cast), piped)
    )


def test_compare_over_seeds_as_data(cast):
    made = make_comparison(cast)
    data = json.loads(dumps(seeds_json.comparison(made)))
    assert [item["outcome"] for item in data["verdicts"]] == ["no_difference", "worse"]
    assert data["metrics"][1]["seeds"] == [3, 3, 1]
    heads, rows = seed_comparison.comparison_table(made)
    assert {len(row) for row in rows} == {len(heads)}
    assert len(rows) == 6


def test_a_comparison_without_an_objective_says_so(cast, screen):
    made = replace(make_comparison(cast), objective=None)
    groups = tuple(replace(group, delta=None) for group in made.groups[:2])
    lines = seed_comparison.render_comparison(replace(made, groups=groups), screen())
    assert lines[-1] == "inconclusive  no objective is declared"
    assert seed_comparison.outcome_of(groups[1]) is Outcome.INCONCLUSIVE


def test_the_best_over_seeds(cast, screen, golden):
    found = make_found(cast)
    lines = [seeds.best_line(found, screen()), f"hint: {seeds.best_hint(found, screen())}"]
    golden("best-seeds-100.txt", lines)
    golden("best-seeds.json", dumps(seeds_json.best(found)).splitlines())
    assert lines == [
        "exp07_zloss  1 seed  val/loss mean 1.839",
        "hint: not better than baseline (1.856) beyond noise ±0.018",
    ]


def test_the_best_over_seeds_says_what_it_stands_against(cast, screen):
    found = make_found(cast)
    base = found.base
    ahead = replace(found.groups[0], delta=mean_delta(base.values, (1.5,), cast.noise, "min"))
    assert seeds.best_hint(replace(found, groups=(ahead,)), screen()) == ""
    unknown = replace(found.groups[0], delta=mean_delta(base.values, (1.5,), None, "min"))
    assert seeds.best_hint(replace(found, groups=(unknown,)), screen()) == (
        f"against baseline (1.856) nothing can be said: {seeds.FEW_SEEDS}"
    )
    worse = replace(found.groups[0], delta=mean_delta(base.values, (2.5,), cast.noise, "min"))
    said = seeds.best_hint(replace(found, groups=(worse,)), screen())
    assert said.startswith("worse than baseline (1.856) beyond noise")
    assert seeds.best_hint(replace(found, groups=(base,)), screen()) == ""
    spread = next(group for group in found.groups if group.name == "exp02_cosine")
    line = seeds.best_line(replace(found, groups=(spread,)), screen())
    assert line == "exp02_cosine  3 seeds  val/loss mean 1.853, sd 0.014"
