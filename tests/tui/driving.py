"""Drives the app without a terminal: keys, waiting for answers, what stands on the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

from expdb_tui.app import ExpdbApp
from expdb_tui.session import Session

Story = Callable[[ExpdbApp, Pilot[None]], Awaitable[None]]


async def settle(app: ExpdbApp, pilot: Pilot[None]) -> None:
    """Wait until nothing is asked any more."""
    for _ in range(3):
        await pilot.pause()
        while any(not worker.is_finished for worker in app.workers):
            await pilot.pause(0.01)


def drive(session: Session, story: Story, *, size: tuple[int, int] = (80, 24), **look: Any) -> None:
    """Run the app, read the store, and play a story."""

    async def play() -> None:
        app = ExpdbApp(session, **look)
        async with app.run_test(size=size) as pilot:
            await settle(app, pilot)
            await story(app, pilot)

    asyncio.run(play())


async def press(app: ExpdbApp, pilot: Pilot[None], *keys: str) -> None:
    """Press keys, and wait for what they ask."""
    for key in keys:
        await pilot.press(key)
        await settle(app, pilot)


def screen_of(app: ExpdbApp) -> list[str]:
    """Return the rows of the screen as text, without spaces at their ends."""
    width, height = app.size
    out: list[str] = []
    for y in range(height):
        strip = app.screen._compositor.render_strips()[y]
        out.append(strip.crop(0, width).text.rstrip())
    return out


async def type_in(app: ExpdbApp, pilot: Pilot[None], text: str) -> None:
    """Type a text, and wait until it was followed."""
    await pilot.press(*text)
    await pilot.pause(0.25)
    await settle(app, pilot)
