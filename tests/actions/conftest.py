"""A real repository with a real store in it, and runs with real pins and checkpoints."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expdb import digest
from expdb.git.snapshot import take_pin
from expdb.git.worktree import WorkTree, find_worktree
from expdb.index.reader import Reader, open_reader
from expdb.model import Attempt, Objective
from expdb.store import owner
from expdb.store.attempts import write_pin
from expdb.store.files import write_json
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.parts import Column
from expdb.store.seal import seal
from expdb.store.series import SeriesBook, _as_json
from expdb.store.store import Store, open_store

VAL_LOSS = Objective(metric="val/loss", mode="min", reading="last")
Disk = dict[str, tuple[str, bytes]]


class World:
    """One work tree with a store; everything that a test may do to it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.store: Store = open_store(top / "runs", create=True)
        self.minutes = 0

    @property
    def worktree(self) -> WorkTree:
        found = find_worktree(self.top)
        assert isinstance(found, WorkTree)
        return found

    @property
    def git_dir(self) -> Path:
        return self.worktree.git_dir

    def git(self, *args: str, check: bool = True) -> str:
        done = subprocess.run(["git", *args], cwd=self.top, capture_output=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"git {args}: {done.stderr.decode(errors='replace')}")
        return os.fsdecode(done.stdout).strip()

    def write(self, files: dict[str, str | bytes | None]) -> None:
        for name, data in files.items():
            path = self.top / name
            if data is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.encode() if isinstance(data, str) else data)

    def commit(self, message: str = "more") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        with open_reader(self.store) as reader:
            yield reader

    def disk(self) -> Disk:
        """Every file and link outside the store and .git: path -> (kind and mode, bytes)."""
        found = {}
        for folder, folders, files in os.walk(self.top):
            here = os.path.relpath(folder, self.top)
            folders[:] = [f for f in folders if f != ".git" and (here, f) != (".", "runs")]
            for name in [*files, *(f for f in folders if os.path.islink(os.path.join(folder, f)))]:
                path = Path(folder, name)
                mode = path.lstat().st_mode
                if stat.S_ISLNK(mode):
                    found[os.path.normpath(os.path.join(here, name))] = (
                        "link", os.fsencode(os.readlink(path)),
                    )  # fmt: skip
                else:
                    found[os.path.normpath(os.path.join(here, name))] = (
                        oct(stat.S_IMODE(mode)), path.read_bytes(),
                    )  # fmt: skip
        return found

    def status(self) -> str:
        """Staged and unstaged state of every path, without expdb's own files."""
        return self.git("status", "--porcelain=v2", "-z", "-uall", "--no-renames")

    def staged(self) -> str:
        return self.git("ls-files", "-s", "-z")

    def everything(self) -> dict[str, bytes]:
        """Every byte of the work tree, of git (objects apart) and of the store's ops and refs."""
        found = {f"disk:{name}": kind.encode() + data for name, (kind, data) in self.disk().items()}
        for root in (self.git_dir, self.store.layout.ops, self.store.layout.refs):
            for path in root.rglob("*") if root.is_dir() else ():
                if path.is_file() and "objects" not in path.relative_to(root).parts:
                    found[str(path)] = path.read_bytes()
        return found

    def run(
        self,
        experiment: str = "baseline",
        *,
        values: dict[int, float] | None = None,
        state: str = "finished",
        alive: bool = False,
        checkpoints: tuple[int, ...] = (300,),
        config: dict[str, Any] | None = None,
        noise: float | None = None,
        data: str = "sha256:1",
        objective: Objective | None = VAL_LOSS,
        pin: Any = None,
        **identity: Any,
    ) -> str:
        """Write a run of the code as it stands, and return its id."""
        run = identity.get("id") or new_id()
        self.minutes += 1
        created = time.time_ns() // 1_000_000 - 10_000_000 + self.minutes * 60_000
        values = {100: 3.0, 200: 2.0, 300: 1.848} if values is None else values
        worktree = self.worktree
        layout = RunLayout(StoreLayout(self.store.root).run_dir(experiment, run))
        layout.root.mkdir(parents=True)
        taken = pin or take_pin(worktree, store_root=self.store.root)
        canonical = digest.canonical(config if config is not None else {"optim": {"lr": 0.003}})
        settings: dict[str, Any] = {"seed_key": "seed", "digest": {"ignore": ["expdb"]}}
        if noise is not None:
            settings["noise"] = {"val/loss": noise}
        body = {
            "format": 1, "needs": "0.1.0", "id": run, "experiment": experiment, "variant": "",
            "seed": 0, "created_at_ms": created, "settings": settings, "canonical": canonical,
            "digest": digest.digest(canonical), "parent": None,
            "objective": None if objective is None else asdict(objective),
            "command": ["python", "train.py", f"+exp={experiment}"],
        }  # fmt: skip
        write_json(layout.run_json, body | identity, durable=False)
        layout.attempt(1).mkdir(parents=True)
        me = owner.describe()
        write_json(layout.attempt(1) / "owner.json", me if alive else {**me, "start": -1})
        attempt = Attempt(
            number=1, pin=taken, started_at_ms=created, work_tree=str(worktree.git_dir),
            data={"train": {"digest": data}},
        )  # fmt: skip
        write_pin(layout, attempt)
        self._points(layout, values)
        for step in checkpoints:
            self.checkpoint(layout, step)
        status = {
            "format": 1, "state": state, "reason": "", "attempt": 1, "max_steps": 300, "files": {},
            "last_step": max(values, default=None), "ended_at_ms": created + 35_000,
        }  # fmt: skip
        write_json(layout.status_json, status, durable=False)
        then = time.time() - 3600
        os.utime(layout.status_json, (then, then))
        return run

    def folder(self, run: str) -> Path:
        return next(self.store.root.glob(f"exp=*/run={run}"))

    def checkpoint(self, layout: RunLayout, step: int) -> None:
        folder = layout.checkpoint(step)
        folder.mkdir(parents=True)
        data = f"weights {step}".encode() * 50
        (folder / "model.pt").write_bytes(data)
        known = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        manifest = {
            "format": 1, "needs": "0.1.0", "step": step, "attempt": 1, "created_at_ms": 1,
            "tokens": 0, "world_size": 1, "torch": "", "value": None, "files": {"model.pt": known},
            "parts": {"model": {"file": "model.pt", "names": []}},
        }  # fmt: skip
        write_json(folder / "manifest.json", manifest, durable=False)

    def _points(self, layout: RunLayout, values: dict[int, float]) -> None:
        if not values:
            return
        steps = np.array(list(values), np.int64)
        numbers = np.array(list(values.values()), np.float64)
        seqs = np.arange(1, len(steps) + 1, dtype=np.int64)
        columns = {"val/loss": Column(steps, steps * 100, numbers, seqs)}
        seal(
            layout,
            attempt=1,
            rank=0,
            columns=columns,
            first_seq=1,
            last_seq=len(steps),
            journals=(),
        )
        book = SeriesBook()
        book.update("val/loss", steps, numbers)
        body = {"series": {"val/loss": _as_json(book["val/loss"])}}
        write_json(layout.series_json, body, durable=False)


@pytest.fixture(autouse=True)
def own_git(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No user or system configuration; an identity for the user's own commits."""
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")


@pytest.fixture
def make_world(tmp_path: Path) -> Callable[..., World]:
    """Make a world with one commit of a small project."""

    def make(name: str = "repo") -> World:
        top = tmp_path / name
        top.mkdir()
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], cwd=top, check=True)
        world = World(top)
        world.write(
            {
                "train.py": "lr = 1\n",
                "model.py": "width = 2\n",
                "conf/exp/a.yaml": "a: 1\n",
                "conf/exp/b.yaml": "b: 1\n",
                "tools/run.sh": "#!/bin/sh\n",
                ".gitignore": "/runs/\n*.bin\nvenv/\n",
            }
        )
        (top / "tools/run.sh").chmod(0o755)
        world.commit("first")
        return world

    return make


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """The folder of a remote; not made yet."""
    return tmp_path / "lab"


@pytest.fixture
def two(make_world: Callable[..., World], lab: Path) -> tuple[World, World]:
    """Two stores in two repositories with a remote in common."""
    from tests.actions.exchanged import linked  # which is about worlds itself

    worlds = make_world("one"), make_world("two")
    linked(lab, *worlds)
    return worlds
