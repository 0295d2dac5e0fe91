from __future__ import annotations

import json
import shutil
import subprocess
import sys


def test_rollback_dry_run_is_data_and_writes_nothing(lab, here):
    done = lab.run("rollback", "--dry-run")
    assert done.code == 0
    assert done.out.startswith("target   ")
    assert "change  knobs.py" in done.out
    assert done.err.endswith("nothing written\n")
    data = json.loads(here("rollback", "--dry-run", "--json").out)
    assert set(data) >= {"schema_version", "target", "plan", "blocked", "checkpoint"}
    assert set(data["target"]) == {"run", "step", "commit"}
    assert data["plan"] == [{"path": "knobs.py", "action": "change", "note": "edited"}]
    assert data["checkpoint"]["complete"] is True
    assert lab.git("status", "--porcelain") == " M knobs.py\n"


def test_rollback_without_a_terminal_wants_a_yes(own_lab):
    done = own_lab.run("rollback")
    assert done.code == 4
    assert done.out == ""
    assert "error: rollback asks before it writes, and there is no terminal" in done.err
    assert "hint: expdb rollback -y" in done.err


def test_rollback_undo_and_undo_again(own_lab, mine):
    before = own_lab.git("status", "--porcelain")
    done = mine("rollback", "-y")
    assert done.code == 0, done.err
    assert done.out.startswith("rolled back to ")
    assert "1 path restored" in done.out
    for label in ("continue:", "retrain:", "undo:", "rescue:"):
        assert f"\n{label:<11}" in done.err
    assert (own_lab.top / "knobs.py").read_text() == "WIDTH = 1\n"
    assert "* " not in mine("ls").out
    assert "rolled back" not in mine("rollback", "-y").out

    undone = mine("undo")
    assert (undone.code, undone.out) == (0, "")
    assert undone.err.startswith("undid rollback to ")
    assert (own_lab.top / "knobs.py").read_text() == "WIDTH = 2\n"
    assert own_lab.git("status", "--porcelain") == before

    ops = json.loads(mine("ops", "--json").out)["ops"]
    assert [op["kind"] for op in ops] == ["undo", "rollback", "baseline"]
    again = mine("undo", ops[0]["id"], "-q")
    assert again.code == 0, again.err
    assert len(again.out.strip()) == 10
    assert (own_lab.top / "knobs.py").read_text() == "WIDTH = 1\n"


DIES = """
import os, sys
from expdb.actions import change
from expdb.cli.main import main

change.restore = lambda *args, **named: os._exit(9)
main(["rollback", "-y"])
"""


def test_a_rollback_that_was_killed_is_said_finished_or_taken_back(own_lab, mine):
    command = [sys.executable, "-c", DIES]
    killed = subprocess.run(command, cwd=own_lab.top, env=own_lab.env, check=False)
    assert killed.returncode == 9
    listed = mine("ls")
    assert listed.code == 0
    assert listed.err.startswith("warning: rollback to ")
    assert "hint: finish it: expdb rollback --continue" in listed.err
    assert len(listed.out.splitlines()) == 9
    assert "\nunfinished " in mine("status").out
    refused = mine("rollback", "-y")
    assert refused.code == 4
    assert "nothing written" in refused.err
    back = mine("rollback", "--abort")
    assert back.code == 0, back.err
    assert back.out.startswith("took back rollback to ")
    assert mine("ls").err == ""
    assert mine("rollback", "--abort").code == 3
    assert own_lab.git("status", "--porcelain") == " M knobs.py\n"


def test_a_rollback_that_was_killed_is_continued(own_lab, mine):
    command = [sys.executable, "-c", DIES]
    subprocess.run(command, cwd=own_lab.top, env=own_lab.env, check=False)
    done = mine("rollback", "--continue", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["how"] == "continued"
    assert (own_lab.top / "knobs.py").read_text() == "WIDTH = 1\n"


def test_rollback_says_when_there_is_nothing_to_do(mine):
    mine("rollback", "-y", "-q")
    done = mine("rollback", "-y")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("nothing to do: the work tree equals ")
    assert done.err.endswith(" baseline@20, and HEAD is there\n")


def test_rollback_quiet_prints_the_op(mine):
    done = mine("rollback", "exp01", "-y", "-q")
    assert done.code == 0, done.err
    assert len(done.out.strip()) == 10
    head = json.loads(mine("status", "--json").out)["work_tree"]
    assert head["head"] == mine("show", "exp01", "-q").out.strip()
    assert head["equals_head"] is True


def test_rollback_that_would_lose_work_is_refused(own_lab, mine):
    """An ignored file where the target has one: git would overwrite it silently."""
    own_lab.git("rm", "-q", "--cached", "knobs.py")
    own_lab.git("commit", "-qm", "untracked now")
    (own_lab.top / ".git/info/exclude").write_text("/knobs.py\n")
    (own_lab.top / "knobs.py").write_text("precious")
    done = mine("rollback", "-y")
    assert done.code == 4
    assert "blocked  knobs.py" in done.err
    assert "nothing written" in done.err
    assert (own_lab.top / "knobs.py").read_text() == "precious"
    shown = mine("rollback", "--dry-run", "--json")
    assert shown.code == 4
    assert [item["path"] for item in json.loads(shown.out)["blocked"]] == ["knobs.py"]
    forced = mine("rollback", "-y", "--force")
    assert forced.code == 0, forced.err
    assert (own_lab.top / "knobs.py").read_text() == "WIDTH = 1\n"
    assert mine("undo").code == 0
    assert (own_lab.top / "knobs.py").read_text() == "precious"


def test_rollback_into_a_fresh_work_tree(own_lab, mine):
    done = mine("rollback", "baseline", "--worktree", "../fresh")
    assert done.code == 0, done.err
    assert done.out.startswith("made ../fresh at ")
    fresh = own_lab.top.parent / "fresh"
    assert (fresh / "knobs.py").read_text() == "WIDTH = 1\n"
    assert (own_lab.top / "knobs.py").read_text() == "WIDTH = 2\n"
    assert "enter:     cd ../fresh\n" in done.err
    assert done.err.splitlines()[-1] == "remove:    git worktree remove ../fresh"
    assert "undo" not in done.err
    there = own_lab.run("-C", str(fresh), "ops")
    assert there.out.splitlines()[1].endswith("  git worktree remove DIR")
    op = json.loads(own_lab.run("-C", str(fresh), "ops", "--json").out)["ops"][0]
    assert (op["kind"], op["can_undo"]) == ("worktree", False)
    undo = own_lab.run("-C", str(fresh), "undo", op["id"])
    assert (undo.code, undo.err.splitlines()[-1]) == (
        4, "hint: the folder goes by: git worktree remove DIR"
    )  # fmt: skip
    own_lab.git("worktree", "remove", "../fresh")
    assert not fresh.exists()
    made = mine("rollback", "baseline", "--worktree", "../again", "--branch", "try", "--json")
    data = json.loads(made.out)
    assert set(data) == {
        "schema_version", "op", "run", "step", "commit", "tree", "path", "branch", "submodules",
    }  # fmt: skip
    assert (data["branch"], data["submodules"]) == ("try", [])
    taken = mine("rollback", "baseline", "--worktree", "../third", "--branch", "try")
    assert (taken.code, taken.out) == (2, "")
    assert "there is a branch try already" in taken.err
    assert not (own_lab.top.parent / "third").exists()


def test_rollback_outside_of_git_is_refused(own_lab, mine):
    shutil.rmtree(own_lab.top / ".git")
    done = mine("rollback", "-y")
    assert done.code == 4
    assert "not in a git repository" in done.err


def test_baseline_moves_and_undo_takes_it_back(mine):
    done = mine("baseline", "exp02_near")
    assert (done.code, done.out) == (0, "")
    assert "baseline -> " in done.err
    assert "exp02_near" in mine("baseline").out
    assert mine("baseline", "exp02_near").err.endswith("(as it was)\n")
    assert mine("undo").code == 0
    assert mine("baseline").out.split()[1] == "baseline"


def test_resume_names_the_command_and_runs_it(own_lab):
    dry = own_lab.run("resume", "exp06_dead", "--dry-run")
    assert dry.code == 0, dry.err
    run = own_lab.run("show", "exp06_dead", "-q").out.strip()
    assert dry.out.rstrip().endswith(f"expdb.resume={run}")
    assert "train.py" in dry.out
    done = own_lab.run("resume", "exp06_dead")
    assert "resume     " in done.err
    assert "runs       " in done.err
    assert done.code == 1
    assert done.err.endswith(f"asked to go on: expdb.resume={run}\n")
