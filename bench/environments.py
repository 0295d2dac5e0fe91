"""Which Python runs a tracker, and in what surroundings.

`make bench-peers` makes `.bench/<name>`; a tracker without its environment is left out. expdb and
the references run in the current one where they have none of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.measure import Command, Running, Spent
from bench.peers import FILES, REFERENCES

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / ".bench"
KEPT: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")


class Failed(Exception):
    """A process of a tracker ended badly; the message has the last lines it said."""


def folder_of(peer: str) -> Path:
    """Return the environment of a tracker, which may not be there."""
    name = "raw" if peer in REFERENCES else peer.split("-")[0]
    return FOLDER / name


def python_of(peer: str) -> Path | None:
    """Return the Python that has a tracker, or None."""
    own = folder_of(peer) / "bin" / "python"
    if own.exists():
        return own
    return Path(sys.executable) if peer == "expdb" or peer in REFERENCES else None


def present() -> list[str]:
    """Return the trackers that can be run, in the order of `FILES`."""
    return [peer for peer in FILES if python_of(peer) is not None]


class Place:
    """A folder with a home of its own and a repository that holds one script; removed at the end.

    Trackers see no configuration of the user's, and what they leave behind goes with the folder.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="expdb-bench-")
        self.root = Path(self._folder.name)
        self.code = self.root / "code"
        for path in (self.code, self.root / "home", self.root / "stores"):
            path.mkdir()
        script = "import importlib, sys\n\nimportlib.import_module(sys.argv.pop(1)).main()\n"
        (self.code / "train.py").write_text(script)
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"]
        for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "script"]):
            subprocess.run(["git", *words], cwd=self.code, env=self.env(), check=True)

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def env(self) -> dict[str, str]:
        """Return the environment of every process."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {
            **kept,
            "HOME": str(self.root / "home"),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "DO_NOT_TRACK": "1",
        }

    def store(self, name: str) -> Path:
        """Return the path of a store that is not there yet."""
        number = sum(1 for _ in (self.root / "stores").iterdir())
        path = self.root / "stores" / f"{number:03d}-{name}"
        path.mkdir()
        return path / "store"

    def start(self, peer: str, verb: str, job: Mapping[str, Any]) -> Running:
        """Start a process of a tracker; see `bench.adapter`."""
        text = json.dumps(job, default=str)
        return Running(self.script(peer, "bench.adapter", peer, verb, text))

    def script(self, peer: str, module: str, *words: str) -> Command:
        """Return the command that runs `main()` of a module, as the script of the repository.

        Raises:
            Failed: the tracker is not installed.
        """
        python = python_of(peer)
        if python is None:
            raise Failed(f"{peer} is not installed")
        whole = [str(python), "train.py", module, *words]
        return Command(words=whole, cwd=self.code, env=self.env())

    def tell(
        self, module: str, job: Mapping[str, Any], timeout_s: float = 1200.0
    ) -> tuple[dict[str, Any], Spent]:
        """Run a module of `bench.bars` in a process of expdb; return its answer and what it took.

        Raises:
            Failed: it ended badly.
        """
        command = self.script("expdb", module, json.dumps(job, default=str))
        spent = Running(command).wait(timeout_s)
        return answer_of("expdb", module, spent), spent

    def bare(self) -> Spent:
        """Run the Python of expdb without any work."""
        words = [str(python_of("expdb")), "-c", "pass"]
        return Running(Command(words=words, cwd=self.code, env=self.env())).wait()

    def expdb_starts(self, *words: str, **more: str) -> Running:
        """Start the `expdb` command with these words, and `more` in its environment."""
        python = python_of("expdb")
        tool = Path(str(python)).with_name("expdb")
        head = [str(tool)] if tool.exists() else [str(python), "-m", "expdb.cli.main"]
        env = {**self.env(), **more}
        return Running(Command(words=[*head, *words], cwd=self.code, env=env))

    def expdb(self, *words: str, **more: str) -> Spent:
        """Run the `expdb` command to its end.

        Raises:
            Failed: it ended badly.
        """
        spent = self.expdb_starts(*words, **more).wait()
        if spent.rc:
            raise Failed(f"expdb {' '.join(words)}: exit {spent.rc}: {spent.err[-300:]}")
        return spent

    def ask(
        self, peer: str, verb: str, job: Mapping[str, Any], timeout_s: float = 1200.0
    ) -> tuple[dict[str, Any], Spent]:
        """Run a process of a tracker to its end; return its answer and what it took.

        Raises:
            Failed: it ended badly.
        """
        spent = self.start(peer, verb, job).wait(timeout_s)
        return answer_of(peer, verb, spent), spent


def answer_of(peer: str, verb: str, spent: Spent) -> dict[str, Any]:
    """Return what a process answered.

    Raises:
        Failed: it ended badly.
    """
    if spent.rc or not spent.out.strip():
        said = " | ".join(spent.err.strip().splitlines()[-3:])
        raise Failed(f"{peer} {verb}: exit {spent.rc}: {said[-600:]}")
    found: dict[str, Any] = json.loads(spent.out.strip().splitlines()[-1])
    return found
