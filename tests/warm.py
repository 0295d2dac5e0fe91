"""New Python processes for tests that start many: forked from one that has loaded the libraries.

A start of torch and Hydra costs seconds of CPU. The server here imports them once, and nothing of
ours; each job is a child of it with its own pid, environment, folder and streams, in which the
script is `__main__` from its first line and the interpreter ends as any other does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LIGHT = ("hydra.main", "pyarrow.parquet", "numpy", "psutil")
TORCH = (*LIGHT, "torch", "torch._dynamo")
TIMEOUT_S = 300
_servers: dict[tuple[int, tuple[str, ...]], subprocess.Popen[str]] = {}


class Job:
    """One process: `pid` while it runs; `wait` gives the exit status as subprocess does."""

    def __init__(
        self,
        words: list[str],
        cwd: Path,
        env: Mapping[str, str],
        libraries: tuple[str, ...] = TORCH,
    ) -> None:
        self.words, self._libraries = words, libraries
        self._folder = tempfile.TemporaryDirectory()
        self._out, self._err = (Path(self._folder.name, name) for name in ("out", "err"))
        self.pid: int = _ask(
            libraries,
            {
                "words": words, "cwd": str(cwd), "env": dict(env),
                "out": str(self._out), "err": str(self._err),
            }
        )  # fmt: skip
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        if self._status is None:
            self._status = _ask(self._libraries, {"poll": self.pid})
        return self._status

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> subprocess.CompletedProcess[str]:
        """Wait until it has ended; it is killed after five minutes."""
        until = time.monotonic() + TIMEOUT_S
        while self.poll() is None:
            if time.monotonic() > until:
                self.kill()
            time.sleep(0.01)
        out, err = (path.read_text() for path in (self._out, self._err))
        return subprocess.CompletedProcess(self.words, self._status, out, err)


def run(
    words: list[str], *, cwd: Path, env: Mapping[str, str], libraries: tuple[str, ...] = TORCH
) -> subprocess.CompletedProcess[str]:
    """Run `python WORDS` to its end: `script.py ...` or `-m module ...`."""
    return Job(words, cwd, env, libraries).wait()


def _ask(libraries: tuple[str, ...], question: dict[str, Any]) -> Any:
    key = (os.getpid(), libraries)
    server = _servers.get(key)
    if server is None:
        server = subprocess.Popen(
            [sys.executable, __file__, *libraries],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        _servers[key] = server
        atexit.register(server.kill)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(question) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def _serve() -> None:
    """Answer each line; returns only in a child, which has become its job."""
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()  # a collection in a child would copy every page
    for line in iter(sys.stdin.readline, ""):
        job = json.loads(line)
        if "words" in job:
            answer = os.fork()
            if not answer:
                _become(job)
                return
        else:
            done, status = os.waitpid(job["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if done else None
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    os._exit(0)


def _become(job: dict[str, Any]) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for fd, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND), fd)
    random.seed()
    sys.modules["numpy"].random.seed()
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    script, *words = job["words"]
    first = os.getcwd()
    if script == "-m":
        module, *words = words
        sys.argv = [module, *words]
    else:
        first, sys.argv = os.path.realpath(os.path.dirname(script)), [script, *words]
    added = job["env"].get("PYTHONPATH", "").split(os.pathsep)
    # Behind the script's folder and PYTHONPATH comes what every process has.
    sys.path[:] = [first, *filter(None, added), *sys.path[1:]]
    importlib.invalidate_caches()


if __name__ == "__main__":
    _serve()
    if sys.argv[0].endswith(".py"):
        _file = sys.argv[0]
        _code = compile(Path(_file).read_bytes(), _file, "exec", dont_inherit=True)
        for _name in [name for name in globals() if not name.startswith("_") and name != "sys"]:
            del globals()[_name]
        __file__ = _file
        exec(_code)
    else:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
