"""`log`, `tail` and `events` on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from expdb.model import Event, RunState
from expdb.store.files import read_json
from expdb.store.layout import RunLayout
from expdb.store.status import Status, write_status
from tests.query.made import make_run, make_store, write_run

pytestmark = pytest.mark.slow

RUN = "x5j2v8c0ke"


def test_log_lists_what_ls_lists(here):
    heads = [here(verb).out.splitlines()[0] for verb in ("log", "ls")]
    assert heads[0] == heads[1]
    assert here("log", "--json").out == here("ls", "--json").out
    assert here("log", "-q").out == here("ls", "-q").out
    done = here("log", "-n", "3")
    assert len(done.out.splitlines()) == 4
    assert "hint: 3 of 8 runs; more: -n 8" in done.err
    assert here("log", "--csv").out == here("ls", "--csv").out
    assert "hint: 3 of 8 runs; more: -n 8" in here("log", "--graph", "-n", "3").err
    assert here("log", "--graph", "--csv").code == 2


def test_log_graph_shows_what_changed_and_its_effect(lab, here):
    done = lab.run("log", "--graph")
    assert (done.code, done.err) == (0, "")
    rows = done.out.splitlines()
    assert rows[0].split() == ["val/loss", "vs", "parent", "changed"]
    assert "baseline [HEAD] [baseline]" in rows[1]
    worse = next(row for row in rows if "exp01" in row)
    assert "+0.180 worse" in worse
    assert worse.endswith("optim.lr 0.003 -> 0.01")
    code = next(row for row in rows if "exp07_code" in row)
    assert code.rstrip().endswith("code 1 file")
    assert len(rows[1].split("  ")[0].split()) == 2  # both seeds of the baseline in one row
    assert any(
        "exp06_dead  crashed 20/20" in row or "exp06_dead  crashed 20" in row for row in rows
    )
    assert done.out.isascii()


def test_log_graph_in_json_and_by_id(here, ids):
    data = json.loads(here("log", "--graph", "--json").out)
    nodes = {node["experiment"]: node for node in data["nodes"]}
    worse = nodes["exp01"]
    assert worse["outcome"] == "worse"
    assert worse["changes"]["config"][0]["key"] == "optim.lr"
    assert nodes["exp07_code"]["changes"]["code"]["files"] == 1
    roots = [node for node in data["nodes"] if not node["parent_in_store"]]
    assert roots[0]["id"] == ids("baseline:s0")
    assert worse["id"] in roots[0]["children"] or worse["parent"] != roots[0]["id"]
    listed = here("log", "--graph", "-q").out.split()
    assert sorted(listed) == sorted(here("ls", "-q").out.split())


def test_log_takes_filters_and_keeps_the_ancestors(here):
    done = here("log", "--graph", "-w", "experiment = exp01")
    assert done.code == 0
    assert "exp01" in done.out
    assert "baseline" in done.out
    assert "exp02_near" not in done.out
    assert here("log", "-w", "state = failed", "-q").out.split() == (
        here("show", "exp09_nan", "-q").out.split()
    )
    none = here("log", "--graph", "-w", "seed = 77")
    assert (none.out, none.code) == ("", 0)
    assert none.err == "no run is selected\nhint: all runs: expdb log --graph\n"
    assert here("log", "--since", "soon").code == 2


def test_log_of_an_empty_store_says_how_to_begin(here, tmp_path):
    make_store(tmp_path / "runs")
    for words in (("log",), ("log", "--graph"), ("log", "--graph", "--json")):
        done = here("-C", str(tmp_path), *words)
        assert done.code == 0
    assert "no runs yet" in here("-C", str(tmp_path), "log").err


def test_tail_shows_the_end_of_the_log(here, ids):
    done = here("tail", "exp01", "-n", "1")
    assert done.out.startswith("finished  exp01 ")
    assert done.err.startswith("exp01 = ")
    full = ids("exp01")
    many = here("tail", full, "-n", "100")
    assert f"exp01  {full}  seed 0" in many.out
    assert many.err == ""


def test_tail_of_a_run_that_died_says_so(here):
    done = here("tail", "exp06_dead")
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("crashed  exp06_dead ")
    assert "the process died without a word" in done.out
    assert done.err.splitlines()[-1].startswith("resume:    expdb resume ")


def test_tail_without_a_name_is_of_the_newest_run(here):
    done = here("tail")
    assert done.err.startswith(f"{here('ls', '-q').out.split()[0]} exp06_dead, attempt 1, crashed")
    assert here("tail", "-f").out == done.out


def test_tail_shows_hostile_text_as_text(here):
    runs = json.loads(here("ls", "--json").out)["runs"]
    evil = next(run["id"] for run in runs if run["experiment"].startswith("\x1b"))
    done = here("tail", evil, "-n", "100")
    assert "\x1b" not in done.out + done.err
    assert "\\x1b[31m[red]\\u202eevil" in done.out


@pytest.fixture
def live(tmp_path: Path) -> RunLayout:
    """A run of which this process is the owner."""
    store = make_store(tmp_path / "runs")
    run = make_run(RUN, experiment="exp05", state=RunState.RUNNING)
    layout = RunLayout(write_run(store, run))
    (layout.attempt(1) / "log.txt").write_text("  step 100   saved  checkpoint, 4.6 MB\n")
    return layout


def follow(lab, layout: RunLayout) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "expdb.cli.main", "tail", "-f"],
        cwd=layout.root.parents[2],
        env={**lab.env, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background of a shell hands an ignored SIGINT down.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_tail_f_follows_a_live_run_to_its_end(lab, live):
    process = follow(lab, live)
    assert process.stdout is not None
    assert process.stdout.readline() == "  step 100   saved  checkpoint, 4.6 MB\n"
    with (live.attempt(1) / "log.txt").open("a") as log:
        log.write("  step 110   train  loss 1.291   eta 0:14\n")
        log.flush()
        assert process.stdout.readline() == "  step 110   train  loss 1.291   eta 0:14\n"
        write_status(live, Status(state="finished", last_step=300), durable=False)
        log.write(f"\nfinished  exp05 {RUN}  300 steps in 35s\n")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == f"\nfinished  exp05 {RUN}  300 steps in 35s\n"
    assert err == f"{RUN} exp05, attempt 1, live; Ctrl-C leaves the run alone\n"


def test_ctrl_c_ends_tail_with_130_and_leaves_the_run_alone(lab, live):
    before = read_json(live.status_json)
    process = follow(lab, live)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert read_json(live.status_json) == before


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """A store with a run that had trouble today, one that had some last week, and one without."""
    store = make_store(tmp_path / "runs")
    now = time.time_ns() // 1_000_000
    spike = Event(
        step=151, severity="critical", rule="loss_spike", message="z 30.7 > 6", created_at_ms=now
    )
    old = Event(
        step=9,
        severity="warn",
        rule="grad_spike",
        message="\x1b[31mz",
        created_at_ms=now - 7 * 10**8,
    )
    write_run(store, make_run("e7s5g2p0va", experiment="exp03", events=(spike,)))
    write_run(store, make_run("t1h6y3cz8r", experiment="exp01", events=(old,)))
    write_run(store, make_run("k3f9x2m7qd"))
    return tmp_path


def test_events_of_one_run_end_with_where_trouble_began(here, watched):
    done = here("-C", str(watched), "events", "exp03")
    assert done.code == 0
    assert done.out.splitlines()[-2:] == [
        "first     loss_spike at 151",
        "good      none: no checkpoint before 151",
    ]
    assert "show:      expdb events e7s5@151" in done.err
    one = here("-C", str(watched), "events", "e7s5@151")
    assert one.out.startswith("loss_spike  critical at step 151 of e7s5 exp03, ")
    assert here("-C", str(watched), "events", "e7s5@7").code == 3


def test_events_of_all_runs_are_those_of_the_last_day(here, watched):
    os.chdir(watched)
    done = here("events")
    assert [line.split()[0] for line in done.out.splitlines()] == ["run", "e7s5"]
    assert len(here("events", "--since", "30d").out.splitlines()) == 3
    assert len(here("events", "--since", "30d", "--severity", "critical").out.splitlines()) == 2
    chosen = here("events", "-w", "experiment = exp01")
    assert "\\x1b[31mz" in chosen.out
    assert here("events", "-w", "experiment = exp01", "-q").out == "t1h6y3cz8r\n"
    assert here("events", "k3f9", "e7s5", "-q").out == "e7s5g2p0va\n"


def test_no_events_is_said(here, watched):
    os.chdir(watched)
    done = here("events", "k3f9")
    assert (done.code, done.out, done.err) == (0, "", "no events in 1 run\n")
    assert here("events", "--since", "2100-01-01").err == "no events in 3 runs\n"
    assert here("events", "k3f9", "--json").code == 0


def test_events_for_programs(here, watched):
    os.chdir(watched)
    data = json.loads(here("events", "exp03", "--json").out)
    assert data["events"][0]["rule"] == "loss_spike"
    assert here("events", "--csv").out.splitlines()[0].startswith("run,experiment,seed,step")
    assert here("events", "--md").out.startswith("| run | experiment |")
    limited = here("events", "--since", "30d", "-n", "1")
    assert "hint: 1 of 2 events; more: -n 2" in limited.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("events", "exp03", "-w", "seed = 0"), 2),
        (("events", "exp03", "e7s5@151"), 2),
        (("events", "--severity", "info"), 2),
        (("events", "--since", "soon"), 2),
        (("events", "nothing"), 3),
        (("tail", "nothing"), 3),
    ],
)
def test_wrong_words_are_refused(here, watched, words, code):
    assert here("-C", str(watched), *words).code == code


def test_tail_shows_a_last_line_without_an_end_of_a_run_that_is_over(here, live):
    write_status(live, Status(state="failed", reason="RuntimeError: out of memory"))
    (live.attempt(1) / "log.txt").write_text("line 1\nRuntimeError: out of memory")
    done = here("--store", str(live.root.parents[1]), "tail", RUN)
    assert done.out.splitlines()[:2] == ["line 1", "RuntimeError: out of memory"]
    one = here("--store", str(live.root.parents[1]), "tail", RUN, "-n", "1")
    assert one.out.splitlines()[0] == "RuntimeError: out of memory"


def test_log_why_names_what_moved_the_metric(here, ids):
    worse = ids("exp01")
    done = here("log", "--why", "val/loss", worse)
    assert done.code == 0
    assert done.out.splitlines()[-2].startswith("cause   optim.lr 0.003 -> 0.01  val/loss +0.180")
    assert here("log", "--why", "val/loss", worse, "-q").out == "optim.lr\n"
    data = json.loads(here("log", "--why", "val/loss", worse, "--json").out)
    assert data["run"] == worse
    assert data["causes"][0]["pairs"][0]["after"] == [worse]
    everything = json.loads(here("log", "--why", "val/loss", "--json").out)
    assert everything["run"] is None
    assert "knobs.py" in [cause["name"] for cause in everything["causes"]]


@pytest.mark.parametrize(
    "words", [("exp01",), ("--why", "val/loss", "--graph"), ("--why", "val/loss", "--csv")]
)
def test_log_why_refuses_what_it_would_not_use(here, words):
    assert here("log", *words).code == 2


def test_log_why_of_an_unknown_metric_names_the_nearest(here):
    done = here("log", "--why", "val/los")
    assert done.code == 3
    assert "nearest: val/loss" in done.err


def test_compare_code_is_a_patch_and_stat_its_files(here):
    done = here("compare", "baseline", "exp07_code", "--code")
    assert done.code == 0
    assert done.out.splitlines()[-2:] == ["-WIDTH = 1", "+WIDTH = 2"]
    stat = here("compare", "baseline", "exp07_code", "--stat").out.splitlines()
    assert stat[1:] == ["  M knobs.py  +1  -1", "1 file, +1 -1"]
    data = json.loads(here("compare", "baseline", "exp07_code", "--code", "--json").out)
    assert "+WIDTH = 2\n" in data["code"]["patches"][0]["patch"]
    assert (
        "patches" not in json.loads(here("compare", "baseline", "exp07_code", "--json").out)["code"]
    )
    assert "the same code" in here("compare", "baseline", "exp01", "--code").out
    for more in ("--csv", "-q", "--config", "--fail-if=worse"):
        assert here("compare", "baseline", "exp01", "--code", more).code == 2
