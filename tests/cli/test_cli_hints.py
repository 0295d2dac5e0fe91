"""What is said to a command line that makes no sense: which one would, in the user's own words."""

from __future__ import annotations

import shlex

import pytest

from expdb.cli.command import as_filter
from expdb.cli.verbs import all_verbs
from expdb.query.filters.parser import parse


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("ls exp01", "expdb ls -w 'exp = exp01'"),
        ("log exp01 baseline", "expdb log -w 'exp in (exp01, baseline)'"),
        ("ls exp01+optim.lr=0.01", """expdb ls -w 'name = "exp01+optim.lr=0.01"'"""),
        ("ls state=failed", "expdb ls -w state=failed"),
        ("ls 'optim.lr > 1'", "expdb ls -w 'optim.lr > 1'"),
        ("rank val/loss exp01", "expdb rank val/loss -w 'exp = exp01'"),
        ("best val/loss exp01", "expdb best val/loss -w 'exp = exp01'"),
        ("rank exp01", "exp01 is an experiment: -w 'exp = exp01'"),
        ("best exp01", "exp01 is an experiment: -w 'exp = exp01'"),
        ("status exp01", "expdb ls -w 'exp = exp01'"),
        ("ops exp01", "expdb ls -w 'exp = exp01'"),
        ("compare exp01", "expdb compare baseline exp01"),
        ("show exp01 baseline", "several runs: expdb compare exp01 baseline"),
        ("baseline exp01 exp07_code", "several runs: expdb compare exp01 exp07_code"),
        ("tag exp01", "expdb tag NAME exp01"),
        ("tag exp01 paper", "the other way round: expdb tag paper exp01"),
        ("label keep exp01", "the other way round: expdb label exp01 keep"),
        ("note 'too high' exp01", "the other way round: expdb note exp01 'too high'"),
        ("ctl stop exp01", "expdb ctl exp01 stop"),
        ("rollback exp01 20", "a step stands behind its run: expdb rollback exp01@20"),
        ("path exp01 20", "a step stands behind its run: expdb path exp01@20"),
        ("path exp01 @best", "a step stands behind its run: expdb path exp01@best"),
        ("resume exp01 a=1", "with another setting it is a new run: expdb rerun exp01 a=1"),
        ("export exp01", "expdb export exp01 --csv points.csv"),
        ("doctor exp01", "expdb doctor --conf exp01"),
        ("sql select id from runs", "quote it: expdb sql 'select ...'"),
        ("sql runs", "tables: expdb sql 'show tables'       columns: expdb sql 'describe runs'"),
        ("help lss", "nearest: ls"),
    ],
)
def test_the_command_that_was_meant(here, line: str, hint: str) -> None:
    done = here(*shlex.split(line))
    assert done.code in (2, 3)
    assert done.out == ""
    assert f"hint: {hint}\n" in done.err


@pytest.mark.parametrize("verb", sorted(set(all_verbs())))
def test_too_many_words_are_counted_and_the_usage_said(here, verb: str) -> None:
    words = ["save" if verb == "ctl" else "bash" if verb == "completion" else "run"] * 3
    done = here(verb, *(["x", *words] if verb == "ctl" else words), "--nope")
    assert done.code == 2
    assert f"hint: usage: expdb {verb}" in done.err
    assert f"more: expdb {verb} --help" in done.err


def test_a_verb_without_its_word_names_the_word(here) -> None:
    for verb in ("show", "path", "note", "rerun", "resume", "ctl"):
        done = here(verb)
        assert (done.code, done.err.splitlines()[0]) == (2, f"error: {verb} wants RUN")
        assert done.err.splitlines()[1].startswith(f"hint: usage: expdb {verb} [OPTIONS] RUN")
    assert here("rm", "x", "-w", "seed = 1").err.startswith("error: RUN and -w,")


def test_help_is_a_verb(here) -> None:
    assert here("help").out == here("--help").out
    assert here("help", "ls").out == here("ls", "--help").out
    assert here("help", "diff").out == here("diff", "--help").out
    assert here("help", "help").code == 0


@pytest.mark.parametrize("words", [["it's"], ['a "b"'], ["and"], ["a b", "c"], ["ünï"], ["("]])
def test_a_hinted_filter_can_be_read(words: list[str]) -> None:
    parse(as_filter(words))


def test_a_declared_experiment_that_was_never_run(mine, own_lab) -> None:
    folder = own_lab.top / "conf" / "exp"
    folder.mkdir(parents=True)
    for name in ("exp03_lr_jump", "exp11_a", "exp11_b", "exp01"):
        (folder / f"{name}.yaml").write_text("# @package _global_\n")
    command = "python train.py +exp=exp03_lr_jump"
    for word in ("exp03", "exp03_lr_jump", "exp03_lr_jmp"):
        done = mine("show", word)
        assert (done.code, done.out) == (3, "")
        assert f"hint: exp03_lr_jump is declared, never run: {command}\n" in done.err
    assert f"never run: {command}\n" in mine("rollback", "exp03").err
    assert "hint: declared, never run: exp11_a, exp11_b\n" in mine("tail", "exp11").err
    assert "declared" not in mine("show", "exp0").err  # it has runs, and others begin so
    done = mine("tag", "exp11_a", "exp01")
    assert (done.code, done.err.splitlines()[-2]) == (
        2, "error: exp11_a cannot be a tag: an experiment is called so"
    )  # fmt: skip


def test_sql_says_that_a_run_is_its_whole_id(here, ids) -> None:
    run = ids("exp01")
    for column in ("id", "name"):
        done = here("sql", f"select * from runs where {column} = '{run[:4]}'")
        assert done.err == f"no rows\nhint: a run is its whole id in sql: '{run}'\n"
    done = here("sql", f"select * from points where run = '{run[:5]}'", "--csv")
    assert done.err == f"hint: a run is its whole id in sql: '{run}'\n"
    baseline = ids("baseline")
    assert f"'{baseline}'" in here("sql", "select 1 from runs where id = 'baseline'").err
    assert here("sql", f"select 1 from runs where id = '{run}' and seed = 9").err == "no rows\n"


def test_the_tables_and_columns_that_the_hint_names(here) -> None:
    done = here("sql", "show tables", "--csv")
    assert {"runs", "points", "series", "texts"} <= set(done.out.split())
    done = here("sql", "describe runs", "--csv")
    assert "\nlast_step,BIGINT," in done.out


def test_what_more_promises_is_shown(here) -> None:
    assert "hint: 5 of 8 runs; more: -n 8, or filter" in here("ls", "-n", "5").err
    assert "hint: 1 of 8 runs; more: -n 4" in here("ls", "-n", "1").err
    ranked = len(here("rank", "-q").out.split())
    assert f"hint: 2 of {ranked} runs; more: -n {ranked}\n" in here("rank", "-n", "2").err
    assert "more" not in here("rank", "-n", str(ranked)).err
    assert "hint: 1 of 5 groups; more: -n 4" in here("rank", "--over", "seed", "-n", "1").err


@pytest.mark.parametrize("verb", sorted(all_verbs()))
def test_q_says_what_it_prints(here, verb: str) -> None:
    said = {
        "compare": "Only the outcome, one word a run.",
        "status": "Only the experiments that need a run, one a line.",
        "path": "Only the id of the run.",
        "ls": "Only ids, one a line.",
        "undo": "Only the id of the op.",
    }
    done = here(verb, "--help")
    assert said.get(verb, "") in " ".join(done.out.split())
