"""The one way expdb runs git: an argument list, bytes in, bytes out, nothing of the caller's shell
in it.

Invariant: variables that point git at another repository, index or identity never reach it; no
hook, signature, pager, prompt, monitor, fetch or background gc is started; pathspecs are literal.
The user's configuration files are read as git reads them (line endings, ignore rules and filters
are part of what the work tree means).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from expdb.errors import ExpdbError

TIMEOUT_S: Final = 120.0
"""How long one git command may take unless the caller says otherwise."""

_KEPT = re.compile(
    r"GIT_(CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM|EXEC_PATH"
    r"|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+))"
)

_SET: Final[dict[str, str]] = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # git before 2.45 knows no other way to keep off the network
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
    # Git asks for a fresh compressor for each file; giving its memory back in between costs most
    # of the time that thousands of files take. Other C libraries do not know these names.
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MALLOC_TOP_PAD_": "16777216",
}

_CONFIG: Final[tuple[str, ...]] = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "core.ignoreStat=false",
    "core.safecrlf=false",
    "core.logAllRefUpdates=false",
    "core.filesRefLockTimeout=5000",
    "commit.gpgSign=false",
    "core.fsync=objects,reference",
    "core.fsyncMethod=batch",
    # Several writers first remove every file that they replace: a kill would leave hundreds gone.
    "checkout.workers=1",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "i18n.commitEncoding=utf-8",
)


class GitError(ExpdbError):
    """A git command failed; `rc` is its exit status, `err` what it said."""

    def __init__(self, message: str, *, rc: int = -1, err: str = "") -> None:
        super().__init__(message)
        self.rc = rc
        self.err = err


class GitMissing(GitError):
    """There is no git on the search path."""


class GitTimeout(GitError):
    """A git command was stopped because it took too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What a git command left behind."""

    rc: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """The output as text without its last line end; names of any bytes survive."""
        return os.fsdecode(self.out.removesuffix(b"\n"))

    @property
    def names(self) -> list[str]:
        """The fields of NUL-terminated output."""
        return os.fsdecode(self.out).split("\0")[:-1]


def git(
    args: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes | BinaryIO | None = None,
    check: bool = True,
    timeout_s: float = TIMEOUT_S,
) -> Completed:
    """Run git in `cwd` and return what it wrote.

    `env` is set on top of the cleaned environment, so a caller can point git at an index of its
    own. `stdin` is what it reads: bytes, or an open file.

    Raises:
        GitMissing: there is no git.
        GitTimeout: it took longer than `timeout_s`.
        GitError: `check` is set and git failed, or `cwd` is no folder.
    """
    options = [word for setting in _CONFIG for word in ("-c", setting)]
    is_data = stdin is None or isinstance(stdin, bytes)
    source: dict[str, Any] = {"input": stdin or b""} if is_data else {"stdin": stdin}
    try:
        done = subprocess.run(
            ["git", *options, *args],
            cwd=cwd,
            env=_environment(env or {}),
            **source,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise GitTimeout(f"git {verb(args)} took longer than {timeout_s:g} s") from error
    except OSError as error:
        if not os.path.isdir(cwd):  # noqa: PTH112 - Path raises where the way to it is barred
            raise GitError(f"there is no folder {cwd}, or none that may be entered") from error
        raise GitMissing("git is not installed") from error
    err = os.fsdecode(done.stderr)
    if check and done.returncode != 0:
        said = first_line(err)
        raise GitError(
            f"git {verb(args)} failed"
            + (f": {said}" if said else f" with status {done.returncode}"),
            rc=done.returncode,
            err=err,
        )
    return Completed(rc=done.returncode, out=done.stdout, err=err)


def verb(args: Sequence[str]) -> str:
    """Return the git verb in `args`, behind options of git itself."""
    words = iter(args)
    for word in words:
        if word == "-c":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return "command"


def first_line(err: str) -> str:
    """Return the line of git's talk that says what went wrong, without its prefix or full stop."""
    lines = [line for line in err.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    line = (fatal or lines or [""])[0]
    return line.removeprefix("fatal: ").removeprefix("error: ").rstrip(".")


def nul_joined(names: Sequence[str]) -> bytes:
    """Return names as the NUL-terminated input that `-z --stdin` reads."""
    return os.fsencode("".join(f"{name}\0" for name in names))


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or _KEPT.fullmatch(name)
    }
    kept.pop("LANGUAGE", None)
    return {**kept, **_SET, **extra}
