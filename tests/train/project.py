"""A copy of this project in a git repository of its own, and its commands as a user runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import warm

ROOT = Path(__file__).resolve().parents[2]
TINY = (
    "loop=fast", "model.d=32", "model.hidden=64", "model.layers=1", "model.seq_len=96",
    "data.batch_size=4", "data.limit_bytes=20000",
)  # fmt: skip


@dataclass(frozen=True)
class Project:
    """One copy; commands run in it with its own code."""

    top: Path

    @property
    def store(self) -> Path:
        return self.top / "runs"

    def call(
        self, *words: str, cwd: Path | None = None, rc: int | None = 0, **env: str
    ) -> subprocess.CompletedProcess[str]:
        done = warm.run(list(words), cwd=cwd or self.top, env=self.environment(**env))
        if rc is not None:
            assert done.returncode == rc, f"{words}\n{done.stdout}\n{done.stderr}"
        return done

    def environment(self, **env: str) -> dict[str, str]:
        paths = (self.top, self.top / "tui", self.top / "expdb" / "_hydra")
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(path) for path in paths),
            "OMP_NUM_THREADS": "1",
            **env,
        }

    def train(self, *overrides: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.call("train.py", *overrides, *TINY, **options)

    def expdb(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.call("-m", "expdb.cli.main", *words, **options)

    def json(self, *words: str, **options: Any) -> Any:
        return json.loads(self.expdb(*words, "--json", **options).stdout)

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.top, capture_output=True, text=True, check=True
        )
        return done.stdout

    def run_of(self, experiment: str) -> Path:
        found = sorted(self.store.glob(f"exp={experiment}/run=*/run.json"))
        return max(found, key=lambda path: json.loads(path.read_text())["created_at_ms"]).parent


def copy_project(top: Path) -> Project:
    """Copy what git would hold of the project, and commit it on `main`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    else:
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    for name in names:
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/", ".venv/", "runs/")):
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, top / name)
    project = Project(top)
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "the project")
    return project
