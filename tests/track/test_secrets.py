"""No byte of a store, and no line on a console, holds a secret."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from expdb.store.runs import read_run, run_dirs
from tests import warm

pytestmark = pytest.mark.slow

SECRETS = (
    "FAKE-KEY-0001", "FAKE-PW", "FAKE-ENV-TOKEN", "FAKE-REMOTE", "FAKE-LIST-7", "FAKE-NESTED-1",
    "FAKE-OPTION-1",
)  # fmt: skip
APP = """
import sys
import hydra, expdb

@hydra.main(version_base="1.3", config_path=None, config_name="app")
def main(cfg):
    before = str(cfg)
    try:
        with expdb.start(cfg) as run:
            assert str(cfg) == before and cfg.tracker.key.startswith("FAKE-KEY")
            run.log({f"loss of {cfg.tracker.key[-4:]}": 1.0}, step=1)
            run.log_eval("a", {"acc": 1.0}, scorer="x")
            run.note(f"logged in with {cfg.tracker.key}")
            run.event(1, "warn", "rule", f"cannot reach {cfg.db}")
            run.use_data("train", f"s3://u:{cfg.nested[0].password}@b/x", digest="sha256:1")
            if cfg.get("fail"):
                import torch
                run.checkpoint(1, expdb.State(model=torch.nn.Linear(1, 1)))
                raise RuntimeError(f"401 for {cfg.tracker.key}")
    except RuntimeError:
        sys.exit(3)

main()
"""
CONFIG = """
defaults: [_self_, {expdb: default}]
tracker: {key: '???', note: "see ${tracker.key}"}
db: proto://u:FAKE-PW@h/x
auth: Bearer ${oc.env:MY_TOKEN}
copied: FAKE-ENV-TOKEN
nested: [{password: FAKE-NESTED-1}, {token: [FAKE-LIST-7]}]
model: {use_cls_token: true, num_memory_tokens: 4, pad_token: "<pad>"}
sort_key: step
hydra:
  output_subdir: null
  run: {dir: "${expdb_run_dir:${hydra.overrides.task},null}"}
  sweep: {dir: "${expdb_sweep_dir:null}", subdir: "${hydra.run.dir}"}
"""


def git(top: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=top, check=True, capture_output=True)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("project")
    (top / "app.py").write_text(APP)
    (top / "app.yaml").write_text(CONFIG)
    (top / ".gitignore").write_text("runs/\n")
    (top / ".env").write_text("X=FAKE-KEY-0001")
    git(top, "init", "-q")
    git(top, "remote", "add", "origin", "https://user:FAKE-REMOTE@example.org/x.git")
    git(top, "add", "app.py", "app.yaml")
    git(top, "-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "one")
    return top


def start(top: Path, *words: str, key: str = "FAKE-KEY-0001") -> str:
    env = {**os.environ, "MY_TOKEN": "FAKE-ENV-TOKEN", "HYDRA_FULL_ERROR": "0"}
    words = ["app.py", "--config-dir", ".", *words, f"tracker.key={key}"]
    done = warm.run(words, cwd=top, env=env, libraries=warm.LIGHT)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout + done.stderr


def holders(root: Path) -> list[str]:
    """The files that hold a secret, in their bytes or in the columns of a table."""
    found = []
    for path in (path for path in root.rglob("*") if path.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            data += str(pq.read_table(path).to_pylist()).encode()
        found += [f"{path.name}: {word}" for word in SECRETS if word.encode() in data]
    return found


def test_nothing_is_kept_and_the_digest_does_not_change_with_it(project: Path) -> None:
    root = project / "runs"
    said = start(project, "+tracker.api_token=FAKE-OPTION-1")
    said += start(project, "+tracker.api_token='FAKE-OPTION-1 b'", "+fail=true")
    assert not [word for word in SECRETS if word in said]
    # Hydra itself prints the overrides of a sweep, which is outside our reach.
    start(project, "-m", "+tracker.api_token=OTHER-1", key="FAKE-KEY-0001-B,FAKE-KEY-0001-C")
    assert holders(root) == []
    found = [read_run(folder, store_root=root) for _, folder, _ in run_dirs(root)]
    runs = {run.created_at_ms: run for run in found}
    first, failed, second, third = (runs[at] for at in sorted(runs))
    assert first.digest == second.digest == third.digest != failed.digest
    assert first.variant == second.variant == "+tracker.api_token=<redacted>+tracker.key=<redacted>"
    assert failed.reason == "RuntimeError: 401 for <redacted>"
    assert first.notes == ("logged in with <redacted>",)
    assert first.pin.remote == "https://example.org/x.git"
    assert '"use_cls_token":true' in first.canonical
    assert '"num_memory_tokens":4' in first.canonical
    assert '"pad_token":"<pad>"' in first.canonical
    assert '"sort_key":"step"' in first.canonical
    assert first.command[2:] == (
        "+tracker.api_token=<redacted>",
        "tracker.key=<redacted>",
    )
    # Hydra's own file of a sweep goes, also when the sweep fails before its first job.
    subprocess.run(
        [sys.executable, "app.py", "--config-dir", ".", "-m", "tracker.key=FAKE-KEY-0001", "b=1,2"],
        cwd=project,
        env={**os.environ, "MY_TOKEN": "FAKE-ENV-TOKEN"},
        capture_output=True,
        check=False,
    )
    assert not (root / "multirun.yaml").exists()
    assert holders(root) == []
    assert sorted(os.listdir(project)) == [
        ".env",
        ".git",
        ".gitignore",
        "app.py",
        "app.yaml",
        "runs",
    ]
    assert len(list(run_dirs(root))) == 4
    # Where somebody lets Hydra write its own copy of the config there, that is said.
    assert "warning: Hydra keeps the config" in start(project, "hydra.output_subdir=.hydra")
    # Nor is a secret file of the work tree in its snapshot.
    tree = subprocess.run(
        ["git", "log", "--all", "-p"], cwd=project, capture_output=True, text=True, check=True
    ).stdout
    assert ".gitignore" in tree
    assert "X=FAKE" not in tree
