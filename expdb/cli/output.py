"""The only writer of stdout, and of talk on stderr.

Invariant: data goes to stdout; talk, known by its form (`error:`, `warning:`, `hint:`, `label:
command`, `word = id`), goes to stderr. Each stream has its own style. A character that a stream
cannot encode is written as an escape, never an error; talk that cannot be written is dropped.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

from expdb.report.style import next_line, style_of
from expdb.store.files import reason


class Watched:
    """A stream that remembers why it could not be written; all else is that of the stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.why = ""

    def write(self, text: str) -> int:
        """Write text."""
        with self._watching():
            return self._stream.write(text)

    def flush(self) -> None:
        """Write what waits."""
        with self._watching():
            self._stream.flush()

    @contextmanager
    def _watching(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.why = reason(error)
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Output:
    """Two streams with their styles."""

    def __init__(self, *, stdout: TextIO, stderr: TextIO, env: Mapping[str, str]) -> None:
        for stream in (stdout, stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace", newline="\n")
        self._watched = Watched(stdout)
        self._stdout = self.stdout = cast("TextIO", self._watched)
        self._stderr = stderr
        self._env = env
        now_ms = time.time_ns() // 1_000_000
        self.style = style_of(stdout, env, now_ms)
        self.talk_style = style_of(stderr, env, now_ms)
        self.hints = env.get("EXPDB_HINTS", "") != "0"

    @property
    def is_utf8(self) -> bool:
        """Whether stdout takes every character."""
        return (self._stdout.encoding or "").lower().replace("-", "").replace("_", "") == "utf8"

    def set_id_cells(self, id_cells: int) -> None:
        """Write ids with as many characters as the store needs."""
        self.style = self.style._replace(id_cells=id_cells)
        self.talk_style = self.talk_style._replace(id_cells=id_cells)

    def lines(self, lines: Sequence[str], *, page: bool = False) -> None:
        """Write lines of data; with `page` through a pager when they are taller than the screen."""
        if not lines:
            return
        text = "".join(f"{line}\n" for line in lines)
        if page and self._is_taller(lines) and self._page(text):
            return
        self._stdout.write(text)

    def text(self, text: str) -> None:
        """Write data that is text already: CSV, JSON lines."""
        self._stdout.write(text)

    def json(self, data: Mapping[str, Any]) -> None:
        """Write one JSON document."""
        from expdb.report.json import dumps

        self._stdout.write(dumps(dict(data)) + "\n")

    def talk(self, line: str = "") -> None:
        """Write one line of talk; what was written to stdout before it comes first."""
        self._stdout.flush()
        self._say(line + "\n")

    def passing(self, line: str) -> None:
        """Write a line that the next one replaces, on a terminal only; an empty one clears it."""
        if self.talk_style.terminal and self._env.get("TERM", "") != "dumb":
            self._say(f"\r\x1b[K{self.talk_style.say(line)}")

    def error(self, message: str, *, details: Sequence[str] = ()) -> None:
        """Write an error; its message may wrap, indented under its text."""
        style = self.talk_style
        head = style.paint("error:", "red", "bold")
        first, *rest = _wrapped(style.say(message), style.width - len("error: "))
        self.talk(f"{head} {first}")
        for line in rest:
            self.talk(" " * len("error: ") + line)
        for line in details:
            self.talk(" " * 9 + style.say(line))

    def warning(self, message: str) -> None:
        """Write a warning."""
        style = self.talk_style
        self.talk(f"{style.paint('warning:', 'yellow')} {style.say(message)}")

    def hint(self, text: str) -> None:
        """Write a hint, unless hints are off."""
        if self.hints:
            style = self.talk_style
            self.talk(f"{style.paint('hint:', 'dim')} {style.say(text)}")

    def resolution(self, said: str) -> None:
        """Write what a word became."""
        self.talk(self.talk_style.paint(self.talk_style.say(said), "dim"))

    def next(self, commands: Sequence[tuple[str, str]], *, gap: bool = True) -> None:
        """Write what to do next, each as `label:  command`; the label `hint` makes a hint of it."""
        if not (self.hints and commands):
            return
        if gap:
            self.talk()
        for label, command in commands:
            if label == "hint":
                self.hint(command)
            else:
                self.talk(next_line(label, command, self.talk_style))

    def ask(self, question: str) -> bool | None:
        """Ask a question that Enter answers with no; None where nobody can be asked."""
        import sys

        if not (sys.stdin.isatty() and self._stderr.isatty()):
            return None
        self._stdout.flush()
        self._say(f"{question} [y/N] ")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def flush(self) -> None:
        """Flush stdout.

        Raises:
            BrokenPipeError: its reader has gone.
            OSError: it cannot be written.
        """
        self._stdout.flush()

    def give_up(self) -> str:
        """Return why stdout could not be written, and swallow what is on its way there and what
        comes; empty where it could.
        """
        if self._watched.why:
            _swallow(self._stdout)
        return self._watched.why

    def _say(self, text: str) -> None:
        try:
            self._stderr.write(text)
            self._stderr.flush()
        except OSError:  # nobody can be told; the exit code says it all the same
            _swallow(self._stderr)

    def _is_taller(self, lines: Sequence[str]) -> bool:
        if not self.style.terminal:
            return False
        import shutil

        return len(lines) >= shutil.get_terminal_size().lines

    def _page(self, text: str) -> bool:
        import shutil
        import subprocess

        pager = self._env.get("PAGER", "less")
        if pager in ("", "cat") or shutil.which("less") is None:
            return False
        encoding = self._stdout.encoding or "utf-8"
        body = text.encode(encoding, "backslashreplace")
        environment = {**os.environ, "LESSCHARSET": "utf-8"}
        done = subprocess.run(["less", "-FRX"], input=body, env=environment, check=False)
        return done.returncode == 0


def _swallow(stream: TextIO) -> None:
    """Let a stream end in nothing: the interpreter flushes it once more at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, stream.fileno())
        stream.flush()
    finally:
        os.close(null)


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    made = textwrap.wrap(text, max(width, 30), break_long_words=False, break_on_hyphens=False)
    return made or [""]
