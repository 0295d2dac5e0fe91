from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FIELDS = {
    "id",
    "experiment",
    "variant",
    "state",
    "created_at",
    "commit",
    "dirty",
    "config_digest",
    "seed",
    "parent",
    "objective",
}


def test_ls_lists_every_run_newest_first(lab):
    done = lab.run("ls")
    assert done.code == 0
    rows = done.out.splitlines()
    heads = "run experiment seed state step val/loss vs baseline age code"
    assert rows[0].split() == heads.split()
    assert len(rows) == 9
    assert "exp06_dead" in rows[1]
    assert "crashed" in rows[1]
    assert "+0.180 worse" in next(row for row in rows if "exp01" in row)
    assert "[HEAD] [baseline]" in next(row for row in rows if "1.848" in row)
    assert done.err == ""


def test_ls_in_json_has_the_fields_that_scripts_rely_on(here):
    done = here("ls", "--json")
    data = json.loads(done.out)
    assert data["schema_version"] == 1
    assert len(data["runs"]) == data["num_all"] == 8
    for run in data["runs"]:
        assert set(run) >= FIELDS
        assert set(run["objective"]) >= {"metric", "mode", "value", "step"}
    by_name = {run["experiment"]: run for run in data["runs"]}
    assert by_name["exp09_nan"]["objective"]["value"] == "NaN"
    assert by_name["exp07_code"]["dirty"] is True
    assert by_name["exp06_dead"]["state"] == "crashed"
    assert by_name["exp01"]["created_at"].endswith("Z")


def test_ls_says_how_many_it_left_out(here):
    done = here("ls", "-n", "3")
    assert len(done.out.splitlines()) == 4
    assert "hint: 3 of 8 runs; more: -n 8" in done.err


def test_quiet_prints_full_ids_only(here):
    for verb in (("ls",), ("rank",), ("show", "exp01")):
        rows = here(*verb, "-q").out.split()
        assert rows
        assert all(len(row) == 10 and row.isalnum() for row in rows)
    assert here("compare", "baseline", "exp01", "-q").out == "worse\n"
    assert here("status", "-q").out.split() == ["exp06_dead:s0", "exp09_nan:s0"]


def test_show_tells_everything_about_a_run(lab):
    done = lab.run("show", "exp01")
    assert done.code == 0
    assert done.err.startswith("exp01 = ")
    text = done.out
    for word in ("finished, 20 steps", "val/loss (objective)", "checkpoints  10, 20 (best, last)"):
        assert word in text
    assert "1 key differs: optim.lr 0.003 -> 0.01" in text
    assert text.splitlines()[-1].startswith("worse  than")
    assert "\n  path         runs/exp=exp01/run=" in text


def test_an_id_prefix_needs_no_resolution_line(here, ids):
    full = ids("exp01")
    assert here("show", full[:4]).err == ""
    assert here("show", full[:4], "--json").err == ""


def test_show_in_json(here):
    data = json.loads(here("show", "exp01", "--json").out)
    assert {"path", "command", "checkpoints", "metrics", "environment", "events"} <= set(data)
    assert [item["step"] for item in data["checkpoints"]] == [10, 20]
    nan = json.loads(here("show", "exp09_nan", "--json").out)
    last = {metric["key"]: metric["last"] for metric in nan["metrics"]}
    assert last["val/loss"] == "NaN"


def test_show_digest_accounts_for_every_key(here):
    done = here("show", "exp01", "--digest")
    rows = dict(line.split(maxsplit=1) for line in done.out.splitlines()[:7])
    assert rows["digest"].startswith("v1:")
    assert rows["apart"] == "seed = 0"
    assert rows["counted"] == "4 keys"
    assert "expdb.noise" in rows["ignored"]
    assert rows["rules"] == "today's, the same as when it ran"
    assert "  optim.lr  0.003 -> 0.01" in done.out


def test_compare_shows_what_differs_and_the_verdict(lab):
    done = lab.run("compare", "baseline", "exp01")
    assert done.code == 0
    rows = done.out.splitlines()
    assert any(row.split() == ["optim.lr", "0.003", "0.01"] for row in rows)
    assert "code         same     main" in done.out
    assert any(row.startswith("worse  val/loss +0.180 (+9.7 %)") for row in rows)
    assert done.err.count(" = ") == 2


def test_compare_names_changed_code(here):
    done = here("compare", "baseline", "exp07_code")
    assert any("M knobs.py" in row for row in done.out.splitlines())
    assert "no difference  val/loss" in done.out


def test_diff_is_another_name_of_compare(here):
    assert here("diff", "baseline", "exp01").out == here("compare", "baseline", "exp01").out


def test_compare_in_json_has_the_fields_that_scripts_rely_on(here):
    data = json.loads(here("compare", "baseline", "exp01", "--json").out)
    assert set(data) >= {"schema_version", "runs", "config", "code", "environment", "metrics"}
    assert data["config"] == [{"key": "optim.lr", "values": [0.003, 0.01], "absent": []}]
    assert data["code"]["same_tree"] is True
    assert data["code"]["files"] == []
    by_key = {metric["key"]: metric for metric in data["metrics"]}
    assert by_key["val/loss"]["delta"] == pytest.approx(0.18)
    assert by_key["val/loss"]["better"] is False
    assert data["verdict"]["outcome"] == "worse"
    assert data["verdict"]["reason"].startswith("val/loss")


@pytest.mark.parametrize(
    ("other", "condition", "code"),
    [
        ("exp01", "worse", 1),
        ("exp01", "different", 1),
        ("exp01", "inconclusive", 0),
        ("exp02_near", "worse", 0),
        ("exp02_near", "different", 0),
        ("exp09_nan", "inconclusive", 1),
    ],
)
def test_fail_if_sets_the_exit_code(here, other, condition, code):
    done = here("compare", "baseline", other, "--fail-if", condition)
    assert done.code == code
    assert done.out


def test_compare_of_three_runs(here):
    done = here("compare", "baseline", "exp01", "exp02_near")
    assert done.out.splitlines()[-3].startswith("exp01       worse")
    data = json.loads(here("compare", "baseline", "exp01", "exp02_near", "--json").out)
    assert len(data["verdicts"]) == 2
    assert len(data["metrics"][0]["delta"]) == 2


def test_compare_config_and_all(here):
    only = here("compare", "baseline", "exp01", "--config").out
    assert "val/loss" not in only
    every = here("compare", "baseline", "exp01", "--config", "--all").out
    assert len(every.splitlines()) > len(only.splitlines())


def test_rank_orders_by_the_objective_and_names_who_is_left_out(lab):
    done = lab.run("rank")
    assert done.code == 0
    rows = done.out.splitlines()
    assert rows[0] == "val/loss, lower is better, last value; noise +-0.022"
    order = [row.split()[2] for row in rows[3:9]]
    assert order == [
        "baseline",
        "exp07_code",
        "exp02_near",
        "baseline",
        "exp01",
        "\\x1b[31m[red]\\u202eevil",
    ]
    assert any(row.startswith("not ranked  ") and "NaN since step 10" in row for row in rows)
    assert rows[-1] == "no winner  1 to 4 cannot be told apart by one seed each"


def test_rank_in_json_and_by_another_metric(here):
    data = json.loads(here("rank", "--json").out)
    assert [run["objective"]["value"] for run in data["runs"]][:2] == [1.848, 1.849]
    assert data["num_tied"] == 4
    assert {item["reason"] for item in data["not_ranked"]} >= {"NaN since step 10"}
    done = here("rank", "train/loss", "-n", "2")
    assert done.out.startswith("train/loss, lower is better")
    assert (
        here("rank", "train/loss", "--max", "-q").out.split()[-1]
        == (here("rank", "train/loss", "-q").out.split()[0])
    )


def test_path_prints_absolute_paths_that_exist(lab, here):
    done = lab.run("path", "exp01@last")
    assert done.code == 0
    assert done.out.strip() == str(lab.top / "runs" / done.out.split("/runs/")[1].strip())
    assert done.out.strip().endswith("checkpoints/step=20")
    assert here("path", "exp01", "config").out.strip().endswith(".json") or here(
        "path", "exp01", "config"
    ).out.strip().endswith(".yaml")
    data = json.loads(here("path", "exp01@10", "--json").out)
    assert data["step"] == 10
    assert here("path", "exp01", "-q").out.strip() == data["run"]


def test_status_shows_work_tree_and_states(lab, here):
    done = lab.run("status")
    assert done.code == 0
    assert done.out.startswith("work tree  main ")
    assert "store      runs: 8 runs" in done.out
    assert "6 finished, 1 crashed, 1 failed" in done.out
    assert "resume:    expdb resume " in done.err
    data = json.loads(here("status", "--json").out)
    assert data["counts"] == {"finished": 6, "crashed": 1, "failed": 1}
    assert data["work_tree"]["in_git"] is True
    assert [edit["path"] for edit in data["work_tree"]["edits"]] == ["knobs.py"]


def test_baseline_alone_shows_it(here):
    done = here("baseline")
    assert done.code == 0
    assert done.out.split()[1:] == ["baseline", "seed", "0"]
    assert json.loads(here("baseline", "--json").out)["op"] is None


def test_ops_list_the_baseline_that_was_set(here):
    done = here("ops")
    assert done.code == 0
    assert "(was none)" in done.out
    assert len(json.loads(here("ops", "--json").out)["ops"]) == 1
    assert len(here("ops", "-q").out.strip()) == 10


def test_reindex_counts_the_runs(own_lab, mine):
    done = own_lab.run("reindex")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("indexed 8 runs in ")
    assert json.loads(mine("reindex", "--json").out)["num_runs"] == 8


CRASHING = """
import expdb
with expdb.start({"seed": 0}, store="runs", name="exp10_bug") as run:
    run.log({"val/loss": 1.0}, step=1)
    try:
        raise KeyError("cause")
    except KeyError as cause:
        error = ValueError("shapes differ")
        error.add_note("in layer 3")
        raise error from cause
"""


def test_a_failed_run_keeps_its_traceback(own_lab):
    (own_lab.top / "crash.py").write_text(CRASHING)
    done = subprocess.run(
        [sys.executable, "crash.py"],
        cwd=own_lab.top,
        env=own_lab.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    printed = done.stderr[done.stderr.index("Traceback") :].splitlines()
    log = Path(own_lab.run("path", "exp10_bug", "log").out.strip())
    kept = [line[4:] for line in log.read_text().splitlines() if line.startswith("  |")]
    assert kept == printed
    shown = own_lab.run("show", "exp10_bug").out.splitlines()
    run = log.parents[2].name.removeprefix("run=")[:4]
    at = shown.index(f"  traceback, last 8 lines; the log: expdb path {run} log")
    assert [line[4:] for line in shown[at + 6 : at + 9]] == printed[-3:]
    told = own_lab.run("tail", "exp10_bug", "-n", "6")
    assert "  | in layer 3" in told.out.splitlines()
    assert "hint: the whole traceback: expdb path " in told.err
    assert "hint:" not in own_lab.run("tail", "exp10_bug", "-n", "60").err


def test_two_seeds_of_one_config_are_compared_as_noise(here):
    done = here("compare", "baseline:s0", "baseline:s1")
    word, note = done.out.splitlines()[-2:]
    assert word == (
        "no difference  val/loss +0.016 (+0.9 %): same config, other seed: this is noise"
    )
    assert note.strip() == "spread: 2 seeds from 1.848 to 1.864, sd 0.011"
    data = json.loads(here("compare", "baseline:s0", "baseline:s1", "--json").out)
    assert data["spread"]["num_seeds"] == 2
    assert here("compare", "baseline:s0", "baseline:s1", "--fail-if", "different").code == 0
