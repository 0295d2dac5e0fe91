"""`expdb run`: real repositories and processes; edits meanwhile, kills, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from expdb.cli.main import main
from tests.query.made import make_store

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
G = "# @package _global_\n"
SEEDS = "hydra: {sweeper: {params: {seed: '0,1,2'}}}\n"
SCRIPT = """\
import os, pathlib, signal, sys, time
import hydra
import expdb
import knobs
from expdb.store import checkpoints
from expdb.store.layout import RunLayout

def save(run, step):
    layout = RunLayout(run.dir)
    folder = checkpoints.temp_dir(layout, step)
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"weights %d" % step)
    parts = {"model": {"file": "model.pt", "names": []}}
    checkpoints.seal(folder, checkpoints.Manifest(step=step, attempt=run.attempt, parts=parts))
    checkpoints.put_in_place(layout, step)

@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    run = expdb.start(cfg, store="runs")
    assert not cfg.fail, "told to fail"
    saved = [int(p.name[5:]) for p in pathlib.Path(run.dir).glob("checkpoints/step=*")]
    first = max(saved, default=0) + 1
    pathlib.Path("left-in-the-tree.txt").write_text("written beside the code")
    for step in range(first, cfg.steps + 1):
        run.log({"train/loss": knobs.WIDTH / step}, step=step)
        time.sleep(float(os.environ.get("SLEEP", "0")))
        if told:
            save(run, step)
            run.preempt("told to stop")
            sys.exit(143)
    if os.environ.get("SAID"):
        with open(os.environ["SAID"], "a") as file:
            file.write(f"{cfg.name} {cfg.seed} from {first}\\n")
    save(run, cfg.steps)
    run.finish()

main()
"""
FILES = {
    "train.py": SCRIPT,
    "knobs.py": "WIDTH = 1.0\n",
    "README.md": "read me\n",
    ".gitignore": "__pycache__/\n/runs/\n",
    "conf/train.yaml": "defaults: [expdb: default, _self_]\nseed: 0\nsteps: 5\nname: base\n"
    "fail: false\nobjective: {metric: train/loss}\n",
    "conf/exp/a.yaml": f"{G}name: a\n{SEEDS}",
    "conf/exp/b.yaml": f"{G}name: b\n{SEEDS}",
    "conf/exp/c.yaml": f"{G}name: c\n{SEEDS}",
}
ALL = [(name, seed) for name in "abc" for seed in range(3)]


class Lab:
    """A repository with experiments, and a folder for temporary files that has to end empty."""

    def __init__(self, top: Path, temp: Path, *, is_git: bool = True) -> None:
        self.top, self.temp = top, temp
        self.begun: list[subprocess.Popen[str]] = []
        temp.mkdir()
        for name, text in FILES.items():
            self.write(name, text)
        if is_git:
            self.git("init", "-q", "-b", "main")
            self.git("add", "-A")
            self.git("commit", "-qm", "first")
        self.expdb("init", "runs")

    def write(self, name: str, text: str) -> None:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *words: str) -> str:
        own = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", *own, *words], cwd=self.top, capture_output=True, text=True, check=True
        )
        return done.stdout

    def env(self, **more: str) -> dict[str, str]:
        paths = os.pathsep.join(map(str, (ROOT, ROOT / "tui")))
        own = {"PYTHONPATH": paths, "TMPDIR": str(self.temp), "OMP_NUM_THREADS": "1"}
        return {**os.environ, **own, **more}

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "expdb.cli.main", *words]

    def expdb(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*words), cwd=self.top, env=self.env(**env),
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def begin(self, *words: str, **env: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            self.words("run", *words), cwd=self.top, env=self.env(**env),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            # A test run in the background of a shell hands an ignored SIGINT down.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        self.begun.append(child)
        return child

    def run(self, *words: str, rc: int = 0, **env: str) -> dict[str, Any]:
        done = self.expdb("run", "--json", *words, **env)
        assert done.returncode == rc, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return json.loads(done.stdout)

    def status(self) -> dict[tuple[str, int], str]:
        done = self.expdb("status", "--json")
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)["experiments"]
        return {(row["experiment"], row["seed"]): row["state"] for row in rows if row["declared"]}

    def runs(self) -> list[dict[str, Any]]:
        """Every run with its last attempt's pin, the oldest first."""
        found = []
        for path in self.top.glob("runs/exp=*/run=*/run.json"):
            attempts = sorted(path.parent.glob("attempts/*/pin.json"))
            read = [json.loads(one.read_text()) for one in (path, *attempts)]
            found.append(
                {**read[0], "pin": read[-1], "attempts": len(attempts), "dir": path.parent}
            )
        return sorted(found, key=lambda run: run["created_at_ms"])

    def seen(self) -> dict[str, bytes | str]:
        """What the user has in git, byte for byte, and the files of the work tree."""
        found: dict[str, bytes | str] = {
            name: (self.top / ".git" / name).read_bytes() for name in ("HEAD", "index", "config")
        }
        found["branches"] = self.git("for-each-ref", "refs/heads", "refs/stash", "refs/tags")
        found["files"] = self.git("ls-files", "--others", "--exclude-standard")
        return found

    def is_clean(self) -> bool:
        """Whether no work tree, claim or temporary file of a job is left."""
        assert len(self.git("worktree", "list").splitlines()) == 1, self.git("worktree", "list")
        assert list(self.temp.glob("expdb-*")) == []
        return list(self.top.glob("runs/.expdb/jobs/*.json")) == []

    def until(self, holds: Callable[[], Any], child: subprocess.Popen[str] | None = None) -> None:
        limit = time.monotonic() + 90
        while not holds():
            assert child is None or child.poll() is None, child.communicate()
            assert time.monotonic() < limit
            time.sleep(0.02)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path / "repo", tmp_path / "temp")
    yield made
    for child in made.begun:
        child.kill()  # its jobs go with it
        child.communicate()


def test_a_matrix_runs_from_its_pin_while_files_are_edited(lab: Lab) -> None:
    (lab.top / "knobs.py").write_text("WIDTH = 2.0  # not committed\n")
    tree = lab.git("stash", "create").split()[0]
    tree = lab.git("rev-parse", f"{tree}^{{tree}}").strip()
    before = lab.seen()
    child = lab.begin("-j", "2", "--json")
    lab.until(lambda: len(lab.runs()) >= 1, child)
    lab.write("knobs.py", "raise SystemExit('edited meanwhile')\n")
    lab.write("conf/train.yaml", FILES["conf/train.yaml"].replace("steps: 5", "steps: 7"))
    lab.until(lambda: len(lab.runs()) >= 4, child)
    lab.write("train.py", "raise SystemExit('gone')\n")
    out, err = child.communicate(timeout=200)
    assert child.returncode == 0, err
    found = json.loads(out)
    runs = lab.runs()
    assert sorted((run["experiment"], run["seed"]) for run in runs) == ALL
    for run in runs:
        git = run["pin"]["git"]
        assert (git["commit"], git["tree"], git["dirty"]) == (found["commit"], tree, False)
        assert set(git["used"]) == {"train.py", "knobs.py"}
        assert _state(run) == "finished"
    assert found["tree"] == tree
    assert {job["end"] for job in found["jobs"]} == {"done"}
    assert sorted(job["run"] for job in found["jobs"]) == sorted(run["id"] for run in runs)
    assert lab.is_clean()
    assert set(lab.status().values()) == {"stale"}  # the edits are of now
    for name in ("train.py", "conf/train.yaml"):
        lab.write(name, FILES[name])
    lab.write("knobs.py", "WIDTH = 2.0  # not committed\n")
    assert lab.status() == dict.fromkeys(ALL, "up to date")
    assert lab.seen() == before
    assert list(lab.top.glob("runs/.expdb/jobs/*")) == []  # no log of what went well
    again = lab.run()
    assert (again["jobs"], again["left_out"]) == ([], {"up to date": 9})
    assert len(lab.runs()) == 9


@pytest.mark.soak
def test_a_failing_experiment_stops_no_other(lab: Lab) -> None:
    lab.write("conf/exp/b.yaml", f"{G}name: b\nfail: true\n")
    lab.write("conf/exp/d.yaml", f"{G}defaults: [/nothing: here]\n")
    done = lab.expdb("run")
    assert done.returncode == 1
    assert done.stdout == ""
    said = done.stderr
    assert "warning: d is left out: " in said
    assert "ran        6 done, 1 failed, in " in said
    assert "log runs/.expdb/jobs/b~s0.log" in said
    assert "told to fail" in (lab.top / "runs/.expdb/jobs/b~s0.log").read_text()
    assert "again:     expdb run --missing --failed" in said
    assert lab.is_clean()
    assert lab.expdb("fsck").returncode == 0
    states = Counter(lab.status().values())
    assert states == {"up to date": 6, "failed": 1, "invalid": 1}
    assert lab.run()["left_out"] == {"failed": 1, "invalid": 1, "up to date": 6}
    lab.write("conf/exp/b.yaml", f"{G}name: b\n")
    assert [job["experiment"] for job in lab.run("b")["jobs"]] == ["b"]
    assert not (lab.top / "runs/.expdb/jobs/b~s0.log").exists()


@pytest.mark.soak
def test_stopped_by_hand_it_saves_and_goes_on_later(lab: Lab, tmp_path: Path) -> None:
    said = tmp_path / "said"
    before = lab.seen()
    child = lab.begin("a", "b:s0", "-j", "2", SLEEP="1")
    lab.until(lambda: len(list(lab.top.glob("runs/exp=*/run=*/attempts/1/live.json"))) == 2, child)
    assert Counter(lab.status().values())["pending"] == 2
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "ran        2 stopped, 2 not begun, in " in err
    assert "go on:     expdb run --missing" in err
    assert lab.is_clean()
    assert lab.seen() == before
    assert Counter(lab.status().values())["preempted"] == 2
    steps = {
        run["id"]: max(int(path.name[5:]) for path in run["dir"].glob("checkpoints/step=*"))
        for run in lab.runs()
    }
    found = lab.run("a", "b:s0", "-j", "2", SAID=str(said))
    assert {job["resumes"]: job["step"] for job in found["jobs"] if job["resumes"]} == steps
    assert sorted(said.read_text().split("\n"))[1:] == sorted(
        f"{job['experiment']} {job['seed']} from {(job['step'] or 0) + 1}" for job in found["jobs"]
    )
    assert Counter(run["attempts"] for run in lab.runs()) == {1: 2, 2: 2}
    assert {job["end"] for job in found["jobs"]} == {"done"}
    assert Counter(lab.status().values()) == {"up to date": 4, "missing": 5}


def test_killed_it_takes_its_jobs_along_and_the_next_does_what_is_missing(lab: Lab) -> None:
    before = lab.seen()
    child = lab.begin("a", "-j", "2", SLEEP="4")
    lab.until(lambda: len(list(lab.top.glob("runs/exp=*/run=*/attempts/1/live.json"))) == 2, child)
    assert lab.expdb("ls").returncode == 0  # a command beside it leaves it alone
    assert len(lab.git("worktree", "list").splitlines()) == 3
    child.kill()
    child.communicate()
    lab.until(lambda: {_state(run) for run in lab.runs()} != {"running"})
    lab.until(lambda: "running" not in {_state(run) for run in lab.runs()})
    assert [_state(run) for run in lab.runs()] == ["preempted", "preempted"]
    found = lab.run("a", "-j", "2")
    assert len(lab.runs()) == 3
    assert {job["end"] for job in found["jobs"]} == {"done"}
    assert all(lab.status()["a", seed] == "up to date" for seed in range(3))
    assert lab.is_clean()
    assert lab.seen() == before


@pytest.mark.soak
def test_two_at_once_train_each_declared_run_once(lab: Lab) -> None:
    children = [lab.begin("-j", "2", "--json") for _ in range(2)]
    outs = [child.communicate(timeout=200) for child in children]
    assert [child.returncode for child in children] == [0, 0], outs
    assert sorted((run["experiment"], run["seed"]) for run in lab.runs()) == ALL
    ends = Counter(job["end"] for out, _ in outs for job in json.loads(out)["jobs"])
    assert ends["done"] == 9
    assert set(ends) <= {"done", "taken", "done before"}
    assert lab.is_clean()


@pytest.mark.soak
def test_what_is_asked_for_is_what_runs(lab: Lab) -> None:
    assert [*map(_said, lab.run("a:s1")["jobs"])] == ["a:1"]
    lab.write("conf/exp/a.yaml", f"{G}name: a\nsteps: 3\n{SEEDS}")
    plan = lab.run("a", "--dry-run")
    assert ([*map(_said, plan["jobs"])], plan["left_out"]) == (["a:0", "a:2"], {"stale": 1})
    (job,) = lab.run("a", "--stale", "--dry-run")["jobs"]
    assert (_said(job), job["state"], job["reasons"][0]["name"]) == ("a:1", "stale", "steps")
    assert job["command"] == ["python", "train.py", "+exp=a", "seed=1"]
    assert job["estimate_s"] > 0  # as the run of before took
    assert len(lab.run("--all", "-n", "4", "--dry-run")["jobs"]) == 4
    quiet = lab.expdb("run", "a", "--stale", "-q")
    assert quiet.returncode == 0
    assert quiet.stdout.split() == [lab.runs()[-1]["id"]]
    assert lab.run("a:s1", "--dry-run")["left_out"] == {"up to date": 1}
    assert lab.run("a:s1", "--all")["jobs"][0]["end"] == "done"
    assert len(lab.runs()) == 3
    for words, code in ((["nothing"], 3), (["a:s7"], 3), (["a@3"], 2), (["-j", "0"], 2)):
        assert lab.expdb("run", *words).returncode == code
    assert len(lab.runs()) == 3


@pytest.mark.soak
def test_asked_twice_it_kills(lab: Lab) -> None:
    child = lab.begin("a", SLEEP="100")
    lab.until(lambda: list(lab.top.glob("runs/exp=*/run=*/attempts/1/live.json")), child)
    child.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert child.poll() is None  # it waits for its job
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert re.search(r"stopped    a:s0  \w{4}  .*ended by signal 9, crashed", err), err
    assert lab.is_clean()
    assert Counter(lab.status().values()) == {"crashed": 1, "missing": 8}


def _state(run: dict[str, Any]) -> str:
    return str(json.loads((run["dir"] / "status.json").read_text())["state"])


def _said(job: dict[str, Any]) -> str:
    return f"{job['experiment']}:{job['seed']}"


@pytest.mark.soak
def test_the_parent_of_a_job_is_where_the_work_tree_came_from(lab: Lab) -> None:
    lab.run("a:s0")
    lab.run("b:s0")
    (first, second) = lab.runs()
    head = {"format": 1, "run": first["id"], "step": None, "op": second["id"]}
    lab.write(".git/expdb/HEAD", json.dumps(head))
    lab.run("c:s0")
    assert lab.runs()[-1]["parent"] == {"run": first["id"], "step": None}


@pytest.mark.soak
def test_without_git_it_runs_where_it_is_and_says_so(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "plain", tmp_path / "temp", is_git=False)
    done = lab.expdb("run", "a", "-j", "2")
    assert done.returncode == 0, done.stderr
    assert "code       not in a git repository: jobs run in this folder" in done.stderr
    assert len(lab.runs()) == 3
    assert (lab.top / "left-in-the-tree.txt").exists()


@pytest.mark.soak
def test_in_place_it_holds_a_rollback_back(lab: Lab) -> None:
    lab.run("a:s0")
    child = lab.begin("b", "--in-place", SLEEP="0.3")
    lab.until(lambda: len(lab.runs()) == 2, child)
    refused = lab.expdb("rollback", "a", "-y")
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert (refused.returncode, child.returncode) == (4, 130)
    assert "from this work tree" in refused.stderr or "in this work tree" in refused.stderr
    assert (lab.top / "left-in-the-tree.txt").exists()


def test_what_is_named_and_cannot_be_trained_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_store(tmp_path / "runs")
    (tmp_path / "conf/exp").mkdir(parents=True)
    (tmp_path / "conf/train.yaml").write_text("seed: 0\n")
    (tmp_path / "conf/exp/bad.yaml").write_text(f"{G}defaults: [/nothing: here]\n")
    main_script = '@hydra.main(config_path="conf", config_name="train")\ndef main(cfg): ...\n'
    (tmp_path / "train.py").write_text(main_script)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "bad"]) == 1
    assert "warning: bad is left out: nothing=here: no such file" in capsys.readouterr().err
    assert main(["run"]) == 0  # nothing that could be trained is missing
