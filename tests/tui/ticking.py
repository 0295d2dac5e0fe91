"""An app that is left open: ticks of a clock that is moved by hand, with a run that goes on.

`python -m tests.tui.ticking FOLDER TICKS` prints what the process held now and then, as JSON.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow
from textual.pilot import Pilot

from expdb.store.store import open_store
from expdb_tui.app import ExpdbApp
from expdb_tui.session import Session
from tests.tui.driving import press, settle
from tests.tui.terminal import environment

STEPS = 4
"""Steps that the run logs in each tick."""
PHASE = 25
"""Ticks on one screen before the next is shown; at ticks 500 and 5,000 it is the same one."""
SCREENS = ("1", "2", "3", "4", "5", "6")
WRITER = f"""\
import sys
import expdb

cfg = {{"seed": 9, "objective": {{"metric": "val/loss"}}, "expdb": {{"print": "quiet"}}}}
with expdb.start(cfg, name="exp09_live", store="runs") as run:
    step = 0
    for _ in sys.stdin:
        for step in range(step + 1, step + {STEPS} + 1):
            run.log({{"train/loss": 3 + 5 / step, "train/grad_norm": 1 + step % 7}}, step=step)
        if step % 100 == 0:
            run.log({{"val/loss": 3 + 5 / step}}, step=step)
        print(step, flush=True)
"""


class Clock:
    """The clock of the app: a tick is a second."""

    def __init__(self) -> None:
        self.now = time.monotonic()
        self.epoch_ns = time.time_ns()

    def take(self) -> None:
        """Let every module of the app ask this clock."""
        known = SimpleNamespace(monotonic=lambda: self.now, time_ns=lambda: self.epoch_ns)
        for name, module in list(sys.modules.items()):
            if name.startswith("expdb_tui") and getattr(module, "time", None) is time:
                module.time = known

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.epoch_ns += int(seconds * 1e9)


def held() -> dict[str, float]:
    """Return what this process holds: memory in MB, threads, open files."""
    gc.collect()
    pyarrow.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "rss_mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "objects": len(gc.get_objects()),
    }


async def tick(app: ExpdbApp, pilot: Pilot[None], clock: Clock, writer: subprocess.Popen) -> None:
    """Let the run log, a second pass, and the app look."""
    writer.stdin.write("go\n")
    writer.stdin.flush()
    writer.stdout.readline()
    clock.pass_s(1.0)
    app.tick()
    await settle(app, pilot)


async def main(folder: Path, ticks: int) -> dict[int, dict[str, float]]:
    """Tick; return what was held after the first, each tenth, and the last."""
    clock, found = Clock(), {}
    clock.take()
    words = [sys.executable, "live.py"]
    (folder / "live.py").write_text(WRITER)
    pipe = subprocess.PIPE
    writer = subprocess.Popen(
        words, cwd=folder, env=environment(), stdin=pipe, stdout=pipe, text=True
    )
    app = ExpdbApp(Session(store=open_store(folder / "runs"), directory=folder))
    async with app.run_test(size=(120, 36)) as pilot:
        await tick(app, pilot, clock, writer)
        await press(app, pilot, "ctrl+r", "home", "space")
        for at in range(1, ticks + 1):
            await tick(app, pilot, clock, writer)
            if at % PHASE == 0:
                await press(app, pilot, SCREENS[at // PHASE % len(SCREENS)])
                if app.screen.NUMBER == 2:
                    await press(app, pilot, "right_square_bracket")
            if at == 1 or at % max(1, ticks // 10) == 0:
                found[at] = held()
                said = ", ".join(f"{name} {value:,.1f}" for name, value in found[at].items())
                sys.stderr.write(f"tick {at:,}: {said}\n")
    writer.stdin.close()
    writer.wait(60)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))))
