"""The terminal app over a store of many runs, without a terminal: run as the script of a process of
its own by `terminal_app`.

first   CPU of the process from its first line until the rows of the first page are drawn
keys    CPU of the thread that draws, for each key until the screen is drawn: down, page down, end,
        home, marks and orders
end     CPU of the process for one of them with all that it reads beside
tick    CPU of a look at the store that finds nothing new
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

SIZE: Final = (120, 36)
KEYS: Final = ("down", "up", "pagedown", "pageup", "end", "home", "space")
IDLE: Final = 10


def main() -> None:
    """Answer one job in a line of JSON."""
    job = json.loads(sys.argv[1])
    answer = asyncio.run(_play(Path(job["store"]), job["rounds"]))
    os.write(1, json.dumps(answer).encode() + b"\n")


async def _play(store: Path, rounds: int) -> dict[str, Any]:
    from expdb.store.store import open_store
    from expdb_tui.app import ExpdbApp
    from expdb_tui.runs.screen import RunsScreen
    from expdb_tui.session import Session

    app = ExpdbApp(Session(store=open_store(store), directory=store.parent))
    async with app.run_test(size=SIZE) as pilot:
        screen = app.screen
        while not isinstance(screen, RunsScreen) or screen.lines is None or not screen.lines.rows:
            await pilot.pause(0.005)
            screen = app.screen
        await pilot.pause()
        answer: dict[str, Any] = {"first_ms": time.process_time() * 1e3, "runs": len(screen.lines)}
        await _rest(app, pilot)
        for key in KEYS:
            answer[key] = [await _cpu_ms(app, pilot, key) for _ in range(rounds)]
        before = time.process_time()
        await _cpu_ms(app, pilot, "end")
        answer["end_ms"] = (time.process_time() - before) * 1e3
        answer["s"] = [await _cpu_ms(app, pilot, "s")]
        before = time.process_time()
        for _ in range(IDLE):
            screen.reload()
            await _rest(app, pilot)
        answer["tick_ms"] = (time.process_time() - before) * 1e3 / IDLE
    return answer


async def _cpu_ms(app: Any, pilot: Any, key: str) -> float:
    before = time.thread_time()
    await pilot.press(key)
    drawn = (time.thread_time() - before) * 1e3
    await _rest(app, pilot)
    return drawn


async def _rest(app: Any, pilot: Any) -> None:
    """Wait until nothing is read any more."""
    for _ in range(3):
        await pilot.pause()
        while any(not worker.is_finished for worker in app.workers):
            await pilot.pause(0.005)
