"""What `expdb doctor` finds out about this machine: versions, terminal, GPU.

Invariant: nothing heavy is imported and nothing is written; versions are read from the metadata of
what is installed.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from expdb.model import FORMAT, NEEDS
from expdb.store.programs import ask

Mark = Literal["ok", "note", "problem", "none"]
DISTRIBUTION = "expdb-ml"
LIBRARIES = ("hydra-core", "omegaconf", "duckdb", "pyarrow", "textual")
GPU_COMMAND = "nvidia-smi"
GPU_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of `doctor`."""

    name: str
    mark: Mark
    """`note`: worth knowing; `none`: there is none, and that may be meant so."""
    what: str
    advice: tuple[str, ...] = ()
    """What to do, each a command or one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The stream that a person looks at."""

    is_terminal: bool
    is_utf8: bool
    columns: int
    env: Mapping[str, str]


Requires = Callable[[str], Iterable[str] | None]
"""Name of a distribution -> the lines of its requirements."""
Version = Callable[[str], str | None]


def installed(name: str) -> str | None:
    """Return the version of a distribution, None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def requirements(name: str) -> Iterable[str] | None:
    """Return what a distribution needs, None where it is not installed."""
    try:
        return metadata.requires(name)
    except metadata.PackageNotFoundError:
        return None


def python_check() -> Check:
    """Return the Python that runs this."""
    return Check(name="python", mark="ok", what=platform.python_version())


def expdb_check() -> Check:
    """Return expdb's version and the format of the stores that it writes."""
    return Check(
        name="expdb", mark="ok", what=f"{installed(DISTRIBUTION) or NEEDS}, format {FORMAT}"
    )


def torch_check(
    env: Mapping[str, str], *, version: Version = installed, requires: Requires = requirements
) -> Check:
    """Return torch as it is installed, without importing it."""
    found = version("torch")
    if found is None:
        return Check(
            name="torch",
            mark="none",
            what="none: training needs it, all else works",
            advice=("pip install 'expdb-ml[train]'",),
        )
    wanted = _unmet("torch", found, requires(DISTRIBUTION))
    if wanted:
        return Check(
            name="torch",
            mark="problem",
            what=f"{found}; expdb needs {wanted}",
            advice=(f"pip install 'torch{wanted}'",),
        )
    threads = env.get("OMP_NUM_THREADS", "")
    if not threads.isdigit():
        threads = str(len(os.sched_getaffinity(0)))
    plural = "" if threads == "1" else "s"
    return Check(name="torch", mark="ok", what=f"{found}, {threads} thread{plural}")


def library_checks(
    *, version: Version = installed, requires: Requires = requirements
) -> list[Check]:
    """Return the libraries that expdb stands on, against the bounds of the installed metadata."""
    good, wrong = [], []
    for name in LIBRARIES:
        found = version(name)
        needed = requires("hydra-core" if name == "omegaconf" else DISTRIBUTION)
        if found is None:
            what = f"{name} is not installed"
            wrong.append(Check(name="libraries", mark="problem", what=what,
                               advice=(f"pip install {name}",)))  # fmt: skip
            continue
        wanted = _unmet(name, found, needed)
        if wanted:
            by = "hydra-core" if name == "omegaconf" else "expdb"
            what, advice = f"{name} {found}; {by} needs {wanted}", f"pip install '{name}{wanted}'"
            wrong.append(Check(name="libraries", mark="problem", what=what, advice=(advice,)))
        else:
            good.append(f"{name} {found}")
    all_good = [Check(name="libraries", mark="ok", what=", ".join(good))] if good else []
    return [*all_good, *wrong]


def _unmet(name: str, version: str, lines: Iterable[str] | None) -> str:
    """Return the bounds that a version does not keep, or nothing."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
        from packaging.utils import canonicalize_name
    except ModuleNotFoundError:
        return ""
    for line in lines or ():
        try:
            found = Requirement(line)
        except InvalidRequirement:
            continue
        is_it = canonicalize_name(found.name) == canonicalize_name(name)
        if is_it and not found.specifier.contains(version, prereleases=True):
            return str(found.specifier)
    return ""


def terminal_checks(terminal: Terminal) -> list[Check]:
    """Return what the terminal can show, and whether long output is paged."""
    if not terminal.is_terminal:
        what = f"none: output is ASCII, {terminal.columns} columns wide"
        return [Check(name="terminal", mark="none", what=what)]
    checks = [_terminal(terminal)]
    pager = terminal.env.get("PAGER", "less")
    if pager in ("", "cat"):
        checks.append(Check(name="pager", mark="none", what="off: PAGER says so"))
    elif shutil.which("less", path=terminal.env.get("PATH")) is None:
        what = "none: long lists scroll by, since less is not installed"
        checks.append(Check(name="pager", mark="none", what=what))
    else:
        checks.append(Check(name="pager", mark="ok", what="less"))
    return checks


def _terminal(terminal: Terminal) -> Check:
    columns = f"{terminal.columns} columns"
    term = terminal.env.get("TERM", "")
    if terminal.env.get("EXPDB_ASCII", "") not in ("", "0"):
        return Check(name="terminal", mark="ok", what=f"ASCII as EXPDB_ASCII asks, {columns}")
    if term in ("dumb", "linux"):
        return Check(name="terminal", mark="ok", what=f"ASCII since TERM is {term}, {columns}")
    if not terminal.is_utf8:
        return Check(
            name="terminal",
            mark="note",
            what=f"ASCII since the locale is not UTF-8, {columns}",
            advice=("export LC_ALL=C.UTF-8",),
        )
    return Check(name="terminal", mark="ok", what=f"UTF-8, {_colours(terminal.env)}, {columns}")


def _colours(env: Mapping[str, str]) -> str:
    if env.get("NO_COLOR", ""):
        return "no colours as NO_COLOR asks"
    if env.get("COLORTERM", "") in ("truecolor", "24bit"):
        return "16 million colours"
    return "256 colours" if "256color" in env.get("TERM", "") else "16 colours"


def gpu_check(*, command: str = GPU_COMMAND, path: str | None = None) -> Check:
    """Return the GPUs that the driver lists."""
    program = shutil.which(command, path=path)
    if program is None:
        return Check(name="gpu", mark="none", what="none found")
    answer = ask(program, "--query-gpu=name", "--format=csv,noheader", timeout_s=GPU_TIMEOUT_S)
    if answer is None:
        what = f"{command} gives no answer"
        return Check(name="gpu", mark="note", what=what, advice=(f"look at the driver: {command}",))
    names = [line.strip() for line in answer.out.splitlines() if line.strip()]
    if answer.code or not names:
        said = (names or answer.err.split("\n"))[0].strip()
        what = f"{command} fails" + (f": {said}" if said else "")
        return Check(name="gpu", mark="note", what=what, advice=(f"look at the driver: {command}",))
    kinds = {name: names.count(name) for name in names}
    what = ", ".join(f"{number} x {name}" for name, number in kinds.items())
    return Check(name="gpu", mark="ok", what=what)
