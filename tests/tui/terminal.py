"""A real terminal: an app in tmux, keys sent to it, and what stands on its screen."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT_S = 60.0
POLL_S = 0.1
HAS_TMUX = shutil.which("tmux") is not None
END = "ended with"
STATE = tempfile.TemporaryDirectory(prefix="expdb-tui-")
OWN = {"XDG_STATE_HOME": STATE.name, "XDG_CONFIG_HOME": STATE.name}
"""So that the app remembers nothing of a test, and has no keys of the developer's."""


class Terminal:
    """One window of tmux, with a shell command in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def ask(self, *words: str) -> str:
        """Run a command of tmux, and return what it said."""
        full = ["tmux", "-L", self._name, "-f", "/dev/null", *words]
        done = subprocess.run(full, capture_output=True, text=True, check=True, timeout=20)
        return done.stdout

    def press(self, *keys: str) -> None:
        """Send keys, by their names in tmux."""
        self.ask("send-keys", *keys)

    def type(self, text: str) -> None:
        """Send a text as it is."""
        self.ask("send-keys", "-l", text)

    @property
    def lines(self) -> list[str]:
        """What stands on the screen, without spaces at the ends of rows."""
        return [line.rstrip() for line in self.ask("capture-pane", "-p").split("\n")]

    def asked(self, what: str) -> str:
        """Return what tmux says of the window: a variable of its formats."""
        return self.ask("display-message", "-p", f"#{{{what}}}").strip()

    def wait(self, is_there: Callable[[list[str]], bool], said: str) -> list[str]:
        """Wait until the screen is as wanted; return it.

        Raises:
            AssertionError: it never was; with the screen as it is.
        """
        until = time.monotonic() + WAIT_S
        while not is_there(lines := self.lines):
            if time.monotonic() > until:
                raise AssertionError(f"never came: {said}\n" + "\n".join(lines))
            time.sleep(POLL_S)
        return lines

    def wait_for(self, text: str) -> list[str]:
        """Wait until a text stands on the screen; return the screen."""
        return self.wait(lambda lines: any(text in line for line in lines), text)

    def wait_without(self, text: str) -> list[str]:
        """Wait until a text stands no more on the screen; return the screen."""
        return self.wait(lambda lines: not any(text in line for line in lines), f"no {text}")

    def resize(self, width: int, height: int) -> None:
        """Give the window another size."""
        self.ask("resize-window", "-x", str(width), "-y", str(height))


@contextmanager
def terminal(
    words: list[str], folder: Path, *, width: int, height: int, term: str
) -> Iterator[Terminal]:
    """Yield a terminal in which a command runs; when it has ended, its exit code is said there."""
    shown = Terminal(f"expdb-{uuid.uuid4().hex[:12]}")
    env = {"TERM": term, "PYTHONPATH": str(Path(__file__).parents[2]), "LC_ALL": "C.UTF-8"}
    env |= OWN
    env |= {"COLUMNS": str(width), "LINES": str(height)}  # as a shell may export them
    said = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
    command = f"env -u COLORTERM -u NO_COLOR {said} {shlex.join(words)}"
    script = f"{command}; echo {END} $?; exec cat"
    size = ["-x", str(width), "-y", str(height)]
    shown.ask("new-session", "-d", *size, "-c", str(folder), "sh", "-c", script)
    try:
        yield shown
    finally:
        shown.ask("kill-server")


def app_words(*words: str) -> list[str]:
    """Return the command line of the app."""
    return [sys.executable, "-m", "expdb.cli.main", "tui", *words]


def is_alive(pid: int) -> bool:
    """Tell whether a process runs and is not only waiting to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and those that they have."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == pid:
            found += [int(entry.name), *children_of(int(entry.name))]
    return found


def environment() -> dict[str, str]:
    """Return what a program of ours runs with outside of a terminal."""
    return {**os.environ, **OWN, "PYTHONPATH": str(Path(__file__).parents[2])}
