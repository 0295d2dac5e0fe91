"""Which process of a launch this is, and which run all of them share.

A launch is named by, in order: an initialised process group; EXPDB_LAUNCH; SLURM job and step; TORCHELASTIC_RUN_ID unless
`none`; MASTER_ADDR:PORT with the parent's pid. Rank 0 writes `.expdb/launch/<sha256>.json`, the others wait for it.
A restart count in the environment tells that a scheduler started the same launch again.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, NotFound
from expdb.store.files import read_json, write_json
from expdb.store.layout import StoreLayout

WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Launch:
    """The place of this process in its launch; `name` is empty for a process of its own."""

    name: str
    rank: int
    world_size: int
    restart: int

    def path(self, layout: StoreLayout) -> Path:
        """Return the file by which the ranks agree."""
        return layout.launch / f"{hashlib.sha256(self.name.encode()).hexdigest()}.json"


def find_launch(environment: Mapping[str, str] | None = None) -> Launch:
    """Return the launch that this process belongs to."""
    env = os.environ if environment is None else environment
    rank, world = _rank(env)
    restart = _number(env, "TORCHELASTIC_RESTART_COUNT") + _number(env, "SLURM_RESTART_COUNT")
    return Launch(_name(env, world), rank, world, restart)


def _group() -> tuple[int, int] | None:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _rank(env: Mapping[str, str]) -> tuple[int, int]:
    group = _group()
    if group is not None:
        return group
    if "RANK" in env and "WORLD_SIZE" in env:
        return _number(env, "RANK"), _number(env, "WORLD_SIZE", 1)
    if _number(env, "SLURM_NTASKS", 1) > 1 and "SLURM_PROCID" in env:
        return _number(env, "SLURM_PROCID"), _number(env, "SLURM_NTASKS", 1)
    if "RANK" in env:
        return _number(env, "RANK"), max(2, _number(env, "RANK") + 1)
    return 0, 1


def _name(env: Mapping[str, str], world: int) -> str:
    if env.get("EXPDB_LAUNCH"):
        return f"launch:{env['EXPDB_LAUNCH']}"
    if env.get("SLURM_JOB_ID") and (world > 1 or "SLURM_RESTART_COUNT" in env):
        step = env.get("SLURM_STEP_ID", "batch")
        return f"slurm:{env['SLURM_JOB_ID']}:{step if world > 1 else 'batch'}"
    elastic = env.get("TORCHELASTIC_RUN_ID", "none")
    if elastic != "none":
        return f"elastic:{elastic}"
    if world > 1 and env.get("MASTER_ADDR"):
        return f"master:{env['MASTER_ADDR']}:{env.get('MASTER_PORT', '')}:{os.getppid()}"
    return f"ranks:{os.getppid()}" if world > 1 else ""


def _number(env: Mapping[str, str], name: str, default: int = 0) -> int:
    try:
        return int(env.get(name, default))
    except ValueError:
        return default


def announce(layout: StoreLayout, launch: Launch, *, run: str, path: str) -> None:
    """Tell the other ranks, and a later restart, which run this launch has."""
    if not launch.name:
        return
    layout.launch.mkdir(parents=True, exist_ok=True)
    body = {"run": run, "path": path, "restart": launch.restart}
    write_json(launch.path(layout), body, durable=False)


def announced(layout: StoreLayout, launch: Launch) -> dict[str, Any] | None:
    """Return what rank 0 of this launch announced, also before a restart; None when nothing."""
    if not launch.name:
        return None
    try:
        return read_json(launch.path(layout))
    except (FileNotFoundError, Corrupt):
        return None


def wait_for_rank_0(layout: StoreLayout, launch: Launch) -> dict[str, Any]:
    """Return what rank 0 announces for this start.

    Raises:
        NotFound: it has announced nothing within a minute.
    """
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        found = announced(layout, launch)
        if found is not None and found.get("restart") == launch.restart:
            return found
        time.sleep(0.05)
    raise NotFound(
        f"rank {launch.rank} found no run of its launch: rank 0 has started none within {WAIT_S:.0f}s",
        hint="set EXPDB_LAUNCH to one text of your choice for all ranks of a launch",
    )
