"""`notify` and `events --watch` as people and scripts call them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notify.stubs import Web, serving

KEY = "11aa22bb-KEY"
CONF = """\
expdb:
  notify:
    team: {kind: wecom, url_env: EXPDB_TEAM_URL, rules: [loss_*, run_*]}
    file: {kind: file, path: told.jsonl, min_severity: critical, resolve: false}
"""


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setenv("NO_PROXY", "*")
    with serving(Web()) as server:
        yield server


@pytest.fixture
def declared(own_lab: Any) -> Path:
    """The laboratory with a config that names two channels."""
    (own_lab.top / "conf").mkdir()
    (own_lab.top / "conf/train.yaml").write_text(CONF)
    return Path(own_lab.top)


def test_without_channels_it_says_how_to_make_one(here) -> None:
    done = here("notify")
    assert (done.code, done.out) == (0, "")
    assert re.match(
        r"no channel is declared in the config of run \w{4}\nhint: expdb: \{notify", done.err
    )
    assert json.loads(here("notify", "--json").out)["channels"] == []
    for words in (("notify", "test"), ("events", "--watch", "--notify")):
        assert here(*words).code == 3


def test_channels_are_listed_with_what_they_need(declared, mine, monkeypatch, web) -> None:
    done = mine("notify")
    assert done.code == 0
    assert re.search(
        r"team +wecom +not ready +EXPDB_TEAM_URL +warn and worse of loss_\* run_\*", done.out
    )
    assert "not set" in done.out
    said = json.loads(mine("notify", "--json").out)
    assert said["declared_in"] == "conf/train.yaml"
    team, file = said["channels"]
    assert team["needs"] == {"kind": "env", "name": "EXPDB_TEAM_URL"}
    assert (team["ready"], file["ready"]) == (False, True)
    assert file["min_severity"] == "critical"
    monkeypatch.setenv("EXPDB_TEAM_URL", web.url())
    again = mine("notify", "--json").out
    assert json.loads(again)["channels"][0]["ready"]
    assert KEY not in again
    assert mine("notify", "-q").out == "team\nfile\n"


def test_a_test_says_what_the_other_side_answered(declared, mine, monkeypatch, web) -> None:
    done = mine("notify", "test")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0] == (
        "team  wecom  not taken: channel team needs EXPDB_TEAM_URL, which is not set"
    )
    assert lines[1] == "file  file  taken: added to told.jsonl"
    assert json.loads((declared / "told.jsonl").read_text())["rule"] == "test of a channel"
    monkeypatch.setenv("EXPDB_TEAM_URL", web.url())
    done = mine("notify", "test", "team")
    assert (done.code, done.out) == (0, "team  wecom  taken: errcode 0: ok\n")
    assert web.texts[0].splitlines() == [
        "info: test of a channel of test (no run)",
        "a test of the store repo: nothing has happened",
        "do: nothing; alerts of runs come this way",
        "expdb notify",
    ]
    web.answers = [(200, b'{"errcode":93000,"errmsg":"invalid webhook url"}')]
    said = mine("notify", "test", "team", "--json")
    assert said.code == 1
    assert json.loads(said.out)["tests"] == [
        {"channel": "team", "kind": "wecom", "taken": False,
         "said": "errcode 93000: invalid webhook url"}
    ]  # fmt: skip
    done = mine("notify", "test", "nobody")
    assert done.code == 3
    assert "there is: team, file" in done.err
    assert mine("notify", "team").code == 2


def test_a_config_with_an_address_in_it_is_refused(declared, mine, web) -> None:
    wrong = CONF.replace("url_env: EXPDB_TEAM_URL", f"url_env: '{web.url()}'")
    (declared / "conf/train.yaml").write_text(wrong)
    done = mine("notify")
    assert done.code == 2
    assert "expdb.notify.team.url_env is not the name of a variable" in done.err
    assert KEY not in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--notify",), "go with --watch"),
        (("--jsonl",), "go with --watch"),
        (("--watch", "exp01"), "--watch takes --severity"),
        (("--watch", "--json"), "--watch takes --severity"),
        (("--watch", "--once"), "--once goes with --notify"),
    ],
)
def test_words_that_make_no_sense_together(here, words, said) -> None:
    done = here("events", *words)
    assert done.code == 2
    assert said in done.err


@pytest.mark.slow
def test_one_look_tells_what_nobody_was_told(declared, own_lab, mine, monkeypatch, web) -> None:
    monkeypatch.setenv("EXPDB_TEAM_URL", web.url())
    assert mine("events", "--watch", "--notify", "--once").code == 0
    web.got.clear()  # what was shortly before the channel
    (declared / "told.jsonl").unlink(missing_ok=True)
    own_lab.train("late,0,nan,nan,0.003,fail")
    done = mine("events", "--watch", "--notify", "--once")
    assert (done.code, done.out) == (0, "")
    assert done.err == "team: 1 alert told\nfile: 3 alerts told\n"
    assert "critical: run_failed at step 20 of" in web.texts[0]
    assert len((declared / "told.jsonl").read_text().splitlines()) == 3
    assert mine("events", "--watch", "--notify", "--once").err == ""
    assert mine("fsck").code == mine("gc", "--dry-run").code == 0
    own_lab.train("later,0,nan,nan,0.003,fail")
    web.answers = [(500, b"")]
    done = mine("events", "--watch", "--notify", "--once")
    assert done.code == 1
    assert "team took nothing: HTTP 500; 1 to be told, tried again" in done.err
    assert mine("events", "--watch", "--notify", "--once").code == 0


@pytest.mark.slow
def test_a_watch_goes_on_until_it_is_stopped(own_lab) -> None:
    watching = subprocess.Popen(
        [sys.executable, "-m", "expdb.cli.main", "events", "--watch", "--jsonl"],
        cwd=own_lab.top, env=own_lab.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
        # A test run in the background of a shell hands an ignored SIGINT down.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    over = threading.Timer(120, watching.kill)
    over.start()
    assert watching.stderr is not None
    assert watching.stdout is not None
    assert watching.stderr.readline().startswith("watching 8 runs, 0 live; Ctrl-C ends it")
    own_lab.train("late,0,2.0,1.9,0.003,die")
    line = json.loads(watching.stdout.readline())
    assert (line["rule"], line["experiment"], line["step"]) == ("run_crashed", "late", 20)
    assert line["command"].startswith("expdb resume ")
    time.sleep(0.1)
    watching.send_signal(signal.SIGINT)
    out, err = watching.communicate(timeout=60)
    over.cancel()
    assert (watching.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert os.path.exists(own_lab.top / "runs/.expdb/notify") is False
