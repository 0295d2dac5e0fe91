"""Filters, orders, columns, seeds and kinds of output of `ls`, `rank`, `best`, `compare`."""

from __future__ import annotations

import csv
import io
import json

import pytest


def table(text):
    """Return the rows of CSV as dicts."""
    return list(csv.DictReader(io.StringIO(text)))


def names(here, *args):
    """Return the experiments that `ls` lists, in order."""
    done = here("ls", "--csv", *args)
    assert done.code == 0, done.err
    return [row["experiment"] for row in table(done.out)]


def test_ls_takes_a_filter(here):
    assert names(here, "-w", "optim.lr > 0.003") == ["exp02_near", "exp01"]
    assert names(here, "-w", "val/loss is nan") == ["exp09_nan"]
    assert names(here, "-w", "state = finished", "-w", "seed = 1") == ["baseline"]
    assert names(here, "-w", "val/loss.at(10) > 2.25 and state = finished") == [
        "\\x1b[31m[red]\\u202eevil",
        "exp01",
    ]
    assert len(names(here, "--since", "1d")) == 8
    assert names(here, "--since", "2099-01-01") == []


def test_a_wrong_filter_points_at_the_place(here):
    done = here("ls", "-w", "state = finished and optm.lr > 0.001")
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "error: no config key is called optm.lr\n"
        "         state = finished and optm.lr > 0.001\n"
        "                              ^^^^^^^\n"
        "hint: nearest: optim.lr\n"
    )
    done = here("rank", "-w", "optim.lr >")
    assert (done.code, done.err.splitlines()[0]) == (2, "error: a value is missing after >")
    assert here("best", "-w", "state = runing").code == 3
    done = here("compare", "-w", "x\x1b[31m")
    assert done.code == 2 or done.code == 3
    assert "\x1b" not in done.err


def test_nothing_selected_is_said_and_is_no_error(here):
    done = here("ls", "-w", "seed = 77")
    assert (done.code, done.out) == (0, "")
    assert done.err == "no run is selected\nhint: all runs: expdb ls\n"
    done = here("rank", "-w", "seed = 77")
    assert (done.code, done.err) == (3, "error: no run is selected\nhint: expdb ls\n")
    assert here("ls", "--study", "s").code == 3


def test_ls_sorts_with_a_leading_minus(here):
    assert names(here, "--sort", "-val/loss", "-n", "2") == [
        "\\x1b[31m[red]\\u202eevil",
        "exp06_dead",
    ]
    assert names(here, "--sort", "val/loss")[0] == "baseline"
    assert names(here, "--sort=-age") == names(here)[::-1]
    done = here("ls", "--sort", "val/los")
    assert done.code == 3
    assert "nearest: val/loss" in done.err


def test_ls_adds_and_removes_columns(here):
    done = here("ls", "--cols", "+optim.lr,-code", "-w", "experiment = exp01")
    assert done.out.splitlines()[0].split()[-2:] == ["age", "optim.lr"]
    assert done.out.splitlines()[1].split()[-1] == "0.01"
    done = here("ls", "--cols", "run,val/loss.best,host", "-n", "1", "--json")
    columns = json.loads(done.out)["runs"][0]["columns"]
    assert set(columns) == {"val/loss.best", "host"}
    assert here("ls", "--cols", "+optm.lr").code == 3


def test_ls_writes_csv_markdown_and_json_lines(here):
    rows = table(here("ls", "--csv").out)
    assert len(rows) == 8
    assert len(rows[0]["run"]) == 10
    assert {row["val/loss"] for row in rows if row["experiment"] == "exp09_nan"} == {"NaN"}
    lines = here("ls", "--md").out.splitlines()
    assert len(lines) == 10
    assert lines[1].startswith("| --- | --- | ---: |")
    documents = [json.loads(line) for line in here("ls", "--jsonl").out.splitlines()]
    assert documents == json.loads(here("ls", "--json").out)["runs"]


def test_two_kinds_of_output_are_refused(here):
    done = here("ls", "--json", "--csv")
    assert done.code == 2
    assert done.err.startswith("error: --json and --csv are two kinds of output")
    assert here("ls", "--over", "seed", "--sort", "age").code == 2
    assert here("compare", "baseline", "exp01", "--csv", "--md").code == 2


def test_the_limit_says_how_many_there_are(here):
    done = here("ls", "-n", "2")
    assert done.err == "hint: 2 of 8 runs; more: -n 8, or filter: -w 'state = failed'\n"
    done = here("ls", "-n", "2", "-w", "state = finished")
    assert done.err == "hint: 2 of 6 runs; more: -n 6\n"


def test_rank_says_what_it_measures_against(here, ids):
    done = here("rank")
    assert done.err.splitlines()[0] == (
        f"baseline = {ids('baseline:s0')} (ref baseline: exp baseline, seed 0)"
    )
    assert done.err.splitlines()[-1] == "seeds:     expdb rank --over seed"
    few = here("rank", "-w", "experiment ~ exp0", "--csv")
    assert [row["experiment"] for row in table(few.out)] == ["exp07_code", "exp02_near", "exp01"]


def test_rank_over_seeds(here):
    done = here("rank", "--over", "seed")
    assert done.code == 0
    assert done.err.splitlines()[0].endswith("; over seeds: exp baseline, seeds 0-1")
    rows = done.out.splitlines()
    assert rows[0] == "val/loss, lower is better, last value, mean over seeds"
    by_name = {row.split()[1]: row.split() for row in rows[3:8]}
    assert by_name["baseline"][3:6] == ["2", "1.856", "0.011"]
    assert by_name["exp01"][2:8] == ["1", "2.028", "-", "+0.172", "+-0.019", "worse"]
    assert "+- is 95 %: from the declared noise 0.008" in rows
    assert rows[-1] == "no winner  no experiment is better than baseline beyond noise"
    data = json.loads(here("rank", "--over", "seed", "--json").out)
    assert {group["delta"]["how"] for group in data["groups"] if group["delta"]} == {"noise"}
    assert here("rank", "--over", "seed", "-q").out.split() == [
        run for group in data["groups"] for run in group["runs"]
    ]
    assert table(here("rank", "--over", "seed", "--csv").out)[0]["seeds"]


def test_ls_over_seeds(here):
    done = here("ls", "--over", "seed", "-n", "3")
    assert done.out.splitlines()[0].split() == [
        "experiment", "seeds", "runs", "val/loss", "sd", "vs", "baseline", "age",
    ]  # fmt: skip
    assert done.err == "hint: 3 of 7 groups; more: -n 7\n"
    lines = here("ls", "--over", "seed", "--jsonl").out.splitlines()
    assert len([json.loads(line) for line in lines]) == 7


def test_best_is_one_run(here, ids):
    done = here("best")
    baseline = ids("baseline:s0")
    assert done.out == f"{baseline}  baseline  seed 0  val/loss 1.848 @20\n"
    assert done.err == ""
    assert here("best", "-q").out == f"{baseline}\n"
    data = json.loads(here("best", "--json").out)
    assert (data["run"]["id"], data["objective"]["metric"]) == (baseline, "val/loss")
    done = here("best", "-w", "experiment = exp07_code")
    assert done.err == "hint: not better than baseline (1.848) beyond noise +-0.022\n"
    assert here("best", "train/lr", "-q").code == 0
    done = here("best", "val/los")
    assert (done.code, done.out) == (3, "")


def test_best_over_seeds_is_one_experiment(here, ids):
    done = here("best", "--over", "seed")
    assert done.out == "exp07_code  1 seed  val/loss mean 1.849\n"
    assert done.err == "hint: not better than baseline (1.856) beyond noise +-0.019\n"
    assert here("best", "--over", "seed", "-q").out == f"{ids('exp07_code')}\n"
    data = json.loads(here("best", "--over", "seed", "--json").out)
    ranked = json.loads(here("rank", "--over", "seed", "--json").out)
    assert data["group"] == ranked["groups"][0]
    assert data["baseline"] == ids("baseline:s0")
    only = here("best", "--over", "seed", "-w", "experiment = baseline", "-q").out.split()
    assert only == [ids("baseline:s0"), ids("baseline:s1")]
    assert here("best", "train/lr", "--over", "seed", "-q").code == 0
    refused = here("best", "--over", "study")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == here("rank", "--over", "study").err.replace("rank", "best")


def test_compare_takes_what_a_filter_selects(here, ids):
    done = here("compare", "baseline:s0", "-w", "optim.lr > 0.003", "--json")
    assert done.code == 0
    runs = [run["id"] for run in json.loads(done.out)["runs"]]
    assert runs == [ids("baseline:s0"), ids("exp01"), ids("exp02_near")]
    done = here("compare", "-w", "val/loss is missing")
    assert (done.code, done.err.splitlines()[0]) == (2, "error: one run cannot be compared")
    assert here("compare", "baseline").code == 2


@pytest.mark.parametrize(("condition", "code"), [("worse", 1), ("inconclusive", 0)])
def test_compare_over_seeds(here, condition, code):
    done = here("compare", "baseline", "exp01", "--over", "seed", "--fail-if", condition)
    assert done.code == code
    assert done.out.splitlines()[-1] == (
        "worse  val/loss +0.172, 1 seed against 2, beyond noise +-0.019"
    )
    rows = table(here("compare", "baseline", "exp01", "--over", "seed", "--csv").out)
    assert [row["seeds"] for row in rows[:2]] == ["2", "1"]
    assert here("compare", "baseline", "exp01", "--over", "seed", "-q").out == "worse\n"
    assert here("compare", "baseline", "exp01", "--over", "seed", "--md").out.startswith("| metric")
