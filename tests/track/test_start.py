"""What a start writes, what it is fixed to, and that it raises before anything is lost."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

import expdb
from expdb.digest import canonical, digest
from expdb.errors import BadInput, Corrupt, NotFound, Refused, Unsupported
from expdb.model import Objective, Run, RunState
from expdb.store.runs import read_run, run_dirs

QUIET = {"print": "quiet"}


@dataclass
class Config:
    lr: float = 0.1
    seed: int = 3


def start(store: Path, cfg: Any = None, **options: Any) -> Any:
    return expdb.start({"expdb": QUIET} if cfg is None else cfg, store=store, **options)


def read(store: Path, run: Any) -> Run:
    return read_run(run.dir, store_root=store)


def git(top: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=top, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, of which the running script is a part."""
    top = tmp_path / "work"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "train.py").write_text("pass\n")
    (top / ".gitignore").write_text("runs/\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "one")
    git(top, "remote", "add", "origin", "https://ada:FAKE-PW@example.org/x.git")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(top / "train.py"), raising=False)
    monkeypatch.chdir(top)
    return top


# ---------------------------------------------------------------------------- what it writes


def test_the_files_of_a_run(store: Path) -> None:
    cfg = OmegaConf.create({"optim": {"lr": "${base}"}, "base": 0.1, "seed": 5, "x": "???"})
    with start(store, cfg, name="mine", labels=["keep"], objective="val/loss") as run:
        run.log({"val/loss": 1.5}, step=2)
    names = {path.name for path in run.dir.iterdir()}
    assert {"run.json", "status.json", "series.json", "config.json", "config.yaml", "points",
            "unresolved.yaml", "overrides.yaml", "attempts"} <= names  # fmt: skip
    assert run.dir.parent.name == "exp=mine"
    assert json.loads((run.dir / "config.json").read_text()) == {
        "base": 0.1,
        "optim.lr": 0.1,
        "seed": 5,
        "x": {"$missing": True},
    }
    assert yaml.safe_load((run.dir / "unresolved.yaml").read_text())["optim"] == {"lr": "${base}"}
    assert yaml.safe_load((run.dir / "config.yaml").read_text())["optim"] == {"lr": 0.1}
    kept = read(store, run)
    assert (kept.experiment, kept.variant, kept.seed, kept.labels) == ("mine", "", 5, ("keep",))
    assert kept.objective == Objective(metric="val/loss")
    assert (kept.state, kept.last_step, kept.digest[:3]) == (RunState.FINISHED, 2, "v1:")
    assert kept.settings["seed_key"] == "seed"
    assert kept.attempt is not None
    assert kept.attempt.environment["python"] == sys.version.split()[0]
    log = (run.dir / "attempts" / "1" / "log.txt").read_text()
    assert log.startswith(f"mine  {run.id}  seed 5  from scratch\n  parent     none\n")
    assert "finished  mine" in log


@pytest.mark.parametrize(
    "cfg",
    [
        {"lr": 0.1, "seed": 3},
        Config(),
        argparse.Namespace(lr=0.1, seed=3),
        OmegaConf.structured(Config),
    ],
)
def test_every_kind_of_config_gives_the_same_run(store: Path, cfg: Any) -> None:
    with start(store, cfg) as run:
        pass
    kept = read(store, run)
    assert (kept.experiment, kept.seed) == ("adhoc", 3)
    assert kept.digest == digest(canonical({"lr": 0.1}))
    assert json.loads(kept.canonical) == {"lr": 0.1, "seed": 3}


def test_without_a_config_there_is_a_run_all_the_same(store: Path) -> None:
    with expdb.start(store=store) as run:
        run.log({"x": 1})
    kept = read(store, run)
    assert (kept.canonical, kept.seed, kept.objective) == ("{}", None, None)
    assert run.result() != run.result()  # NaN: nothing to rank by


def test_the_objective_is_read_from_the_config_and_may_be_nan(store: Path) -> None:
    cfg = {"objective": {"metric": "acc", "mode": "max"}, "expdb": QUIET}
    with start(store, cfg) as run:
        run.log({"acc": 0.5}, step=1)
        assert run.result() == 0.5
        run.log({"acc": float("nan")}, step=2)
    assert run.result() != run.result()
    assert read(store, run).state is RunState.FINISHED
    assert read(store, run).value() == (pytest.approx(float("nan"), nan_ok=True), 2)
    with start(store, {"objective": "reg:squarederror", "expdb": QUIET}) as other:
        pass
    assert other.objective is None


def test_long_names_and_hostile_ones_stay_in_the_store(store: Path) -> None:
    for name in ("../../etc", "A b/c", "x" * 300, "é\x1b[31m", "CON"):
        with start(store, name=name) as run:
            pass
        assert run.dir.parent.parent == store
        assert read(store, run).experiment == name


# -------------------------------------------------------------------------------------- ends


def test_a_with_block_that_ends_well_finishes(store: Path) -> None:
    for error in (None, SystemExit(0), SystemExit(None)):
        try:
            with start(store) as run:
                if error is not None:
                    raise error
        except SystemExit:
            pass
        assert read(store, run).state is RunState.FINISHED


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (ValueError("shape 3\nof 4"), "failed", "ValueError: shape 3"),
        (RuntimeError(), "failed", "RuntimeError"),
        (BadInput("no such data", hint="x"), "failed", "BadInput: no such data"),
        (SystemExit(3), "failed", "the script ended with exit code 3"),
        (KeyboardInterrupt(), "preempted", "interrupted at step 7, no checkpoint; 7 steps"),
    ],
)
def test_a_with_block_that_ends_badly_says_why_and_lets_the_error_go_on(
    store: Path, error: BaseException, state: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start(store, {})

    def train() -> None:
        with run:
            run.log({"x": 1.0}, step=7)
            raise error

    with pytest.raises(type(error)):
        train()
    kept = read(store, run)
    assert (kept.state, kept.last_step) == (state, 7)
    assert kept.reason.startswith(reason)
    lines = capsys.readouterr().err.splitlines()
    word = "interrupted" if state == "preempted" else state
    assert lines[-2].startswith(f"{word}  adhoc {run.id}  at step 7")
    assert lines[-1].startswith("resume:    expdb resume" if word != "failed" else "look:")


def test_an_end_comes_once(store: Path) -> None:
    run = start(store)
    run.preempt("SIGTERM at step 3")
    before = (run.dir / "status.json").read_bytes()
    run.finish()
    run.fail("later")
    assert (run.dir / "status.json").read_bytes() == before
    assert read(store, run).state is RunState.PREEMPTED


FORGETS = """
import sys, expdb
run = expdb.start({}, store=sys.argv[1])
run.log({"x": 1.0}, step=4)
if sys.argv[2] == "raise":
    raise ValueError("boom")
"""


@pytest.mark.parametrize(
    ("how", "reason"),
    [("return", "the script ended without run.finish()"), ("raise", "ValueError: boom")],
)
def test_a_script_that_forgets_its_run_leaves_it_failed_with_a_reason(
    store: Path, how: str, reason: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORGETS, str(store), how],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (1 if how == "raise" else 0)
    [(_, folder, _)] = run_dirs(store)
    kept = read_run(folder, store_root=store)
    assert (kept.state, kept.reason, kept.last_step) == (RunState.FAILED, reason, 4)
    assert f"failed  adhoc {kept.id}  at step 4: {reason}" in done.stderr


# -------------------------------------------------------------------------------------- code


def test_a_clean_tree_is_pinned_by_its_commit(repo: Path, store: Path) -> None:
    with start(store) as run:
        pass
    pin = read(store, run).pin
    assert (pin.commit, pin.branch, pin.dirty) == (git(repo, "rev-parse", "HEAD"), "main", False)
    assert pin.remote == "https://example.org/x.git"
    assert list(pin.used) == ["train.py"]
    assert git(repo, "rev-parse", f"refs/expdb/pins/{pin.commit}") == pin.commit


def test_edits_are_kept_counted_or_refused(repo: Path, store: Path) -> None:
    (repo / "train.py").write_text("edited\n")
    (repo / "new.py").write_text("new\n")
    (repo / "x.log").write_text("left out\n")
    status = git(repo, "status", "--porcelain")
    objects = git(repo, "count-objects")
    with pytest.raises(Refused, match="the work tree has 2 edits, and"):
        start(store, dirty="refuse")
    assert not list(run_dirs(store))
    with start(store, {"expdb": {**QUIET, "dirty": "allow"}}) as run:
        pass
    pin = read(store, run).pin
    assert (pin.dirty, pin.num_edits, pin.snapshot, pin.tree) == (True, 2, None, None)
    assert (pin.commit, pin.reproducible) == (git(repo, "rev-parse", "HEAD"), False)
    assert git(repo, "count-objects") == objects
    assert (
        f"main {pin.commit[:7]} with 2 edits, not kept"
        in (run.dir / "attempts" / "1" / "log.txt").read_text()
    )
    with start(store) as run:
        pass
    pin = read(store, run).pin
    assert (pin.num_edits, pin.reproducible) == (2, True)
    assert git(repo, "show", f"{pin.snapshot}:train.py") == "edited"
    assert git(repo, "ls-tree", "--name-only", str(pin.snapshot)).split() == [
        ".gitignore",
        "new.py",
        "train.py",
    ]
    assert git(repo, "status", "--porcelain") == status


def test_a_clean_tree_is_not_refused(repo: Path, store: Path) -> None:
    for how in ("refuse", "allow"):
        with start(store, dirty=how) as run:
            pass
        assert read(store, run).pin.reproducible


def test_outside_a_repository_training_starts(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys.modules["__main__"], "__file__", str(tmp_path / "train.py"), raising=False
    )
    for how in ("snapshot", "refuse", "allow"):
        with start(store, dirty=how) as run:
            pass
        pin = read(store, run).pin
        assert (pin.commit, pin.reasons) == (None, ("not in a git repository",))


def test_the_store_lies_at_the_top_of_the_scripts_repository(repo: Path) -> None:
    (repo / "sub").mkdir()
    os.chdir(repo / "sub")
    with expdb.start({"expdb": QUIET}) as run:
        pass
    assert run.dir.parent.parent == repo / "runs"
    assert git(repo, "status", "--porcelain") == ""


def test_where_the_store_is_said_to_be(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = {"expdb": {**QUIET, "store": "here"}}
    with expdb.start(cfg) as run:
        assert run.store.root == repo / "here"
    monkeypatch.setenv("EXPDB_STORE", str(tmp_path / "there"))
    with expdb.start(cfg) as run:
        assert run.store.root == tmp_path / "there"
    with expdb.start(cfg, store=tmp_path / "third") as run:
        assert run.store.root == tmp_path / "third"


# ------------------------------------------------------------------------- refused at the start


@pytest.mark.parametrize(
    ("cfg", "options", "words"),
    [
        ({"expdb": {"resum": 1}}, {}, "expdb.resum"),
        ({"expdb": 3}, {}, "the config key expdb is int"),
        ({}, {"dirty": "never"}, "expdb.dirty is 'never'"),
        ({}, {"objective": {"mode": "max"}}, "names no metric"),
        (3, {}, "the config is int"),
    ],
)
def test_a_wrong_call_is_refused_and_leaves_nothing(
    store: Path, cfg: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        start(store, cfg, **options)
    assert not store.exists()


@pytest.mark.parametrize("option", ["resume", "fork"])
def test_an_unknown_run_is_refused_and_leaves_no_run(store: Path, option: str) -> None:
    with pytest.raises(NotFound):
        start(store, **{option: "exp07"})
    assert not list(run_dirs(store))


def test_mode_off_records_nothing(store: Path) -> None:
    for cfg in ({"expdb": {"mode": False}}, {"expdb": {"mode": "off"}}):
        with start(store, cfg) as run:
            run.log({"x": None})
            run.note("x")
            run.use_data("train", "nothing")
    assert (run.id, run.store) == ("", None)
    assert not store.exists()


def test_a_newer_store_and_a_foreign_folder(store: Path, tmp_path: Path) -> None:
    with start(store):
        pass
    path = store / ".expdb" / "store.json"
    path.write_text(json.dumps({"format": 3, "needs": "0.4", "id": "x"}))
    with pytest.raises(Unsupported, match="has format 3"):
        start(store)
    path.write_text("{")
    with pytest.raises(Corrupt):
        start(store)
    (tmp_path / "file").write_text("")
    with pytest.raises(Corrupt, match="a part of the path is a file"):
        start(tmp_path / "file" / "runs")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "mine.txt").write_text("keep")
    with start(foreign) as run:  # a folder with other things in it becomes a store, and keeps them
        pass
    assert (foreign / "mine.txt").read_text() == "keep"
    assert read(foreign, run).state is RunState.FINISHED


@pytest.fixture
def another_uid() -> Iterator[None]:
    if os.getuid() != 0:
        pytest.skip("only root can be another user for a while")
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.fixture
def others_store(tmp_path: Path) -> Path:
    for folder in [tmp_path, *tmp_path.parents[:3]]:
        folder.chmod(0o755)
    with start(tmp_path / "runs"):
        pass
    return tmp_path / "runs"


def test_a_store_of_another_user_is_refused(others_store: Path, another_uid: None) -> None:
    before = sorted(path for path, *_ in os.walk(others_store))
    with pytest.raises(Corrupt, match=r"cannot write to the store .*: no permission") as caught:
        start(others_store)
    assert caught.value.exit_code == 5
    assert "expdb.store=" in caught.value.hints[0]
    assert sorted(path for path, *_ in os.walk(others_store)) == before


def test_a_read_only_file_system_is_refused(others_store: Path, tmp_path: Path) -> None:
    place = tmp_path / "ro"
    place.mkdir()
    words = ["mount", "--bind", "-o", "ro", str(others_store), str(place)]
    try:
        mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("cannot mount here")
    try:
        with pytest.raises(Corrupt, match="cannot write to the store"):
            start(place)
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_an_unfinished_rollback_stops_a_start(repo: Path, store: Path) -> None:
    from expdb.model import Op
    from expdb.store.layout import StoreLayout
    from expdb.store.ops import Marker, mark_unfinished, write_op

    with start(store) as run:
        pass
    git_dir = repo / ".git"
    what, kind = "rollback to k3f9", "rollback"
    op = Op(id="abcdefghj1", kind=kind, phase="begin", what=what, work_tree=str(git_dir))
    write_op(StoreLayout(store), op)
    mark_unfinished(
        git_dir, Marker(op=op.id, store=str(store), kind=kind, what=what, created_at_ms=1)
    )
    with pytest.raises(Refused, match=r"rollback to k3f9 stopped before its end"):
        start(store)
    assert [name for name, *_ in run_dirs(store)] == [run.id]
