from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def test_runs_go_to_the_trash_and_come_back(mine):
    before = mine("ls", "-q").out.split()
    dry = mine("rm", "exp01", "-w", "state = failed")
    assert dry.code == 2
    dry = mine("rm", "exp01", "--dry-run")
    assert (dry.code, dry.err.splitlines()[-1]) == (0, "nothing written")
    assert dry.out.splitlines()[0].split()[:4] == ["run", "experiment", "state", "size"]
    gone = mine("rm", "-w", "state in (failed, crashed)")
    assert gone.code == 0, gone.err
    assert gone.err.startswith("removed 2 runs to the trash, ")
    assert "undo:      expdb undo\n" in gone.err
    assert len(mine("ls", "-q").out.split()) == len(before) - 2
    assert len(json.loads(mine("rm", "--list", "--json").out)["trash"]) == 2
    back = mine("rm", "--restore", "-q")
    assert len(back.out.split()) == 2
    assert mine("ls", "-q").out.split() == before
    assert mine("rm", "--list").err == "the trash is empty\n"
    assert mine("undo").err.splitlines()[1].split() == [
        "runs",
        "2",
        "runs",
        "in",
        "the",
        "trash",
        "again",
    ]
    assert mine("rm", "baseline").code == 4
    assert mine("rm", "--restore", "nope").code == 3
    assert mine("rm").code == 2
    assert mine("rm", "--list", "--restore").code == 2


def test_rerun_prints_its_command_and_runs_it(own_lab, mine):
    dry = mine("rerun", "exp01", "lr=0.1", "-q", "--dry-run")
    assert dry.code == 0, dry.err
    assert dry.out.startswith("python train.py ")
    assert dry.out.endswith(" lr=0.1 expdb.print=quiet\n")
    assert "warning: the code differs from tree " in dry.err
    (own_lab.top / "train.py").write_text("import sys; print(sys.argv[1:]); sys.exit(7)")
    done = own_lab.run("rerun", "exp01", "lr=0.1")
    assert done.code == 7, done.err
    assert done.out.rstrip().endswith("'lr=0.1']")
    assert "again      " in done.err


def test_a_run_that_has_ended_cannot_be_asked(here):
    done = here("ctl", "exp01", "save")
    assert (done.code, done.out) == (4, "")
    assert " exp01 is not running: it is finished" in done.err
    assert here("ctl", "exp01", "rm").code == 2
    assert here("ctl", "exp06_dead", "stop").err.splitlines()[-1].startswith("hint: take it up ")


def test_a_live_run_is_asked(own_lab, mine):
    code = "import expdb, sys; run = expdb.start({}, name='live', store='runs'); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=own_lab.top,
        env=own_lab.env,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert child.stderr is not None
        child.stderr.readline()  # it says what it is once it is there
        asked = mine("ctl", "live", "save")
        assert (asked.code, asked.out) == (0, "")
        assert asked.err.splitlines()[-1] == "it will answer between two updates"
        waited = mine("ctl", "live", "stop", "--wait", "0.01", "--json")
        assert waited.code == 1
        data = json.loads(waited.out)
        assert (data["verb"], data["state"], data["done"]) == ("stop", "running", None)
        assert mine("rm", "live").code == 4
    finally:
        child.communicate(b"", timeout=60)


@pytest.mark.parametrize("git", [True, False])
def test_init_makes_a_store_where_training_looks_for_it(here, tmp_path: Path, git: bool) -> None:
    if git:
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    inner = tmp_path / "inner"
    inner.mkdir()
    made = here("-C", str(inner), "init")
    assert made.code == 0, made.err
    place = tmp_path / "runs" if git else inner / "runs"
    assert (place / ".gitignore").read_text() == "*\n"
    assert (place / ".expdb/store.json").is_file()
    assert "    run = expdb.start(cfg)\n" in made.err
    again = here("-C", str(inner), "init")
    assert (again.code, again.out) == (0, "")
    assert again.err.startswith("there is a store already: ")
    assert here("-C", str(inner), "ls").code == 0


def test_init_in_a_folder_that_is_named(here, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert here("init", "fresh", "-q").out == "fresh\n"
    (tmp_path / "project").mkdir()
    (tmp_path / "project/train.py").write_text("")
    assert here("init", "project", "-q").out == "project/runs\n"
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / ".gitkeep").touch()
    assert here("init", "kept", "-q").out == "kept\n"
    assert not (tmp_path / "project/.gitignore").exists()
    data = json.loads(here("init", "fresh", "--json").out)
    assert (data["store"], data["created"]) == ("fresh", False)
    assert json.loads(here("--store", "named", "init", "--json").out)["store"] == "named"
    refused = here("init", "project/train.py")
    assert refused.code == 2
    assert "is a file" in refused.err
