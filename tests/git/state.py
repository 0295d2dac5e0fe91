"""States that a user's repository can be in: how to get there, and what a pin and a rollback do.

Each name is a row of docs/versioning.md. `states.py` has them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.git.conftest import Repo

Files = dict[str, tuple[str, bytes] | None]


@dataclass(kw_only=True)
class Made:
    """A repository in some state."""

    repo: Repo
    files: Files = field(default_factory=dict)
    """What the pin's tree has otherwise than HEAD's: path -> (mode, content), None for absent."""
    goal: str = "HEAD~1"
    """Where the rollback goes."""


@dataclass(frozen=True, kw_only=True)
class State:
    name: str
    make: Callable[[Repo, Path], Made]
    reasons: tuple[str, ...] = ()
    """What the pin says; `*` stands for anything."""
    complete: bool = True
    """Whether the pinned code can be had again, byte for byte."""
    dirty: bool = True
    refused: str = ""
    """What a rollback says; empty where it is carried out and undone."""
    stale: bool = False
    """Git takes a file for clean by its times only, until it is written again."""


STATES: dict[str, State] = {}


def state(
    name: str,
    *reasons: str,
    complete: bool | None = None,
    dirty: bool = True,
    refused: str = "",
    stale: bool = False,
) -> Callable[[Callable[[Repo, Path], Made]], Callable[[Repo, Path], Made]]:
    def add(make: Callable[[Repo, Path], Made]) -> Callable[[Repo, Path], Made]:
        assert name not in STATES
        STATES[name] = State(
            name=name,
            make=make,
            reasons=reasons,
            complete=not reasons if complete is None else complete,
            dirty=dirty,
            refused=refused,
            stale=stale,
        )
        return make

    return add


def text(data: str) -> tuple[str, bytes]:
    return ("100644", data.encode())


def edit_train(repo: Repo) -> Made:
    """Edit one file, where the state is about something else."""
    repo.write("train.py", "lr = 3\n")
    return Made(repo=repo, files={"train.py": text("lr = 3\n")})
