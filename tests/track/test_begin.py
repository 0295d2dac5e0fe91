"""The order in which a run comes into being: a kill between any two files leaves no half run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import expdb
from expdb.store.runs import read_run, run_dirs
from expdb.store.store import open_store

SCRIPT = """
import os, signal, sys
from expdb.store import files
real, left = os.replace, int(sys.argv[2])
def replace(*names):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*names)
os.replace = replace
import expdb
settings = {"print": "quiet", "labels": ["keep"], "study": "s1"}
expdb.start({"lr": 0.1, "expdb": settings}, store=sys.argv[1])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_run_or_none(tmp_path: Path) -> None:
    open_store(tmp_path, create=True)
    states = []
    for count in (0, 3, 5, 8):
        before = {run for run, *_ in run_dirs(tmp_path)}
        words = [sys.executable, "-c", SCRIPT, str(tmp_path), str(count)]
        assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
        [(_, folder, _)] = [found for found in run_dirs(tmp_path) if found[0] not in before]
        if (folder / "run.json").exists():
            run = read_run(folder, store_root=tmp_path)
            assert json.loads(run.canonical)["lr"] == 0.1
            assert run.problems == ()
            assert (run.labels, run.study) == (("keep",), "s1")
            assert run.host == socket.gethostname()
            states.append(run.state.value)
        else:
            assert not (folder / "status.json").exists()
            states.append("")
    assert states[0] == ""
    assert states[-1] == "crashed"
    # The next start is not disturbed by what is left.
    with expdb.start({}, store=tmp_path) as run:
        assert os.listdir(run.dir)
