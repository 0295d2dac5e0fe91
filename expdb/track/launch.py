"""Which process of a launch this is, and which run all of them share.

A launch is named by, in order: EXPDB_LAUNCH; SLURM job and step; TORCHELASTIC_RUN_ID unless `none`;
MASTER_ADDR:PORT with the parent's pid; the parent's pid. An initialised process group says which
rank this is. Rank 0 writes `.expdb/launch/<sha256>.json`, the others wait for it. A restart count
in the environment tells that a scheduler started the same launch again.

Invariant: all ranks start the same runs in the same order, so the n-th start of one rank is the
n-th of the others.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, NotFound
from expdb.store.files import read_json, write_json
from expdb.store.layout import StoreLayout

WAIT_S = 60.0
POLL_S = 0.05


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


_starts = itertools.count()


def find_launch(digest: str, environment: Mapping[str, str] | None = None) -> Launch:
    """Return the launch that this process belongs to; `digest` is the config's, of one process
    alone.

    Each call is another start of the process.
    """
    env = os.environ if environment is None else environment
    rank, world = _rank(env)
    restart = _number(env, "TORCHELASTIC_RESTART_COUNT") + _number(env, "SLURM_RESTART_COUNT")
    name, start = _name(env, world), next(_starts)
    if name and world == 1 and "RANK" not in env:
        # A batch job may start many processes one after another; only the same config is the same
        # launch.
        name += f":{digest}"
    elif name and start:
        name += f":start {start}"
    return Launch(name, rank, world, restart)


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
    # The script of a batch job has a rank too, and is one process whatever the job's tasks are.
    in_step = "SLURM_STEP_ID" in env or "SLURM_JOB_ID" not in env
    if "RANK" in env:
        return _counted(env, "RANK", "WORLD_SIZE")
    if "SLURM_PROCID" in env and in_step:
        tasks = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in env else "SLURM_NTASKS"
        return _counted(env, "SLURM_PROCID", tasks)
    return 0, 1


def _counted(env: Mapping[str, str], rank_name: str, world_name: str) -> tuple[int, int]:
    """Return rank and world size; who has a rank and no count is one of several."""
    rank = _number(env, rank_name)
    return rank, max(_number(env, world_name, 2), rank + 1)


def _name(env: Mapping[str, str], world: int) -> str:
    if env.get("EXPDB_LAUNCH"):
        return f"launch:{env['EXPDB_LAUNCH']}"
    elastic = env.get("TORCHELASTIC_RUN_ID", "none")
    if env.get("SLURM_JOB_ID"):
        # torchrun in a batch job: its own restarts keep the job's id, and so does a requeue.
        return f"slurm:{env['SLURM_JOB_ID']}:{env.get('SLURM_STEP_ID', 'batch')}:{elastic}"
    if elastic != "none":
        return f"elastic:{elastic}"
    if env.get("MASTER_ADDR") and (world > 1 or "RANK" in env):
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


def wait_for_rank_0(
    layout: StoreLayout, launch: Launch, *, lives: Callable[[str], bool]
) -> dict[str, Any]:
    """Return what rank 0 announces for this start; `lives` tells by a run's path whether it is of
    now.

    Raises:
        NotFound: it has announced nothing within a minute.
    """
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        found = announced(layout, launch)
        # A name may have been used before: the run of then has ended, and rank 0 is about to
        # announce another.
        if found is not None and found.get("restart") == launch.restart and lives(found["path"]):
            return found
        time.sleep(POLL_S)
    raise NotFound(
        f"rank {launch.rank} found no run of its launch:"
        f" rank 0 has started none within {WAIT_S:.0f}s",
        hint="set EXPDB_LAUNCH to one text of your choice for all ranks of a launch",
    )
