"""Keys at odd moments: random ones of a seed, several at once, and never a confirmed deed."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from textual import events
from textual.pilot import Pilot
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from expdb_tui.app import ExpdbApp
from expdb_tui.screens.page import Page
from expdb_tui.widgets.dialog import Buttons, Dialog
from expdb_tui.widgets.pager import Pager
from expdb_tui.widgets.prompt import Prompt
from expdb_tui.widgets.rowtable import RowTable
from tests.tui.driving import settle

SIZES = ((20, 5), (40, 10), (80, 24), (120, 36), (200, 50))
TYPED = ("x", "<", "'", "(", "2", "負", "space", "backspace")
TURNS = {"tab", "shift+tab", "left", "right"}


def keys_of_app() -> list[str]:
    """Return every key that a screen, a dialog or a table answers, but for those that end it."""
    parts = [ExpdbApp, *ExpdbApp.MODES.values(), Dialog, Prompt, Buttons, RowTable, Pager]
    bindings = [part._merged_bindings or part._merge_bindings() for part in parts]
    found = {key for one in bindings for key in one.key_to_bindings}
    return sorted(found - {"q", "ctrl+q", "ctrl+c"})


def digest_of(folder: Path) -> dict[str, str]:
    """Return what all files hold that a reader does not write."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "index" not in path.parts and path.name != "clock"
    }


class Troubles:
    """What failed in a worker without being told as an error of ours; see `watch`."""

    def __init__(self) -> None:
        self.found: list[BaseException] = []

    def watch(self, monkeypatch: object) -> None:
        """Take notice of each worker that fails; screens say it as before."""
        said = Page.on_worker_state_changed

        def changed(page: Page, event: Worker.StateChanged) -> None:
            if event.state is WorkerState.ERROR:
                self.found.append(event.worker.error)
            said(page, event)

        monkeypatch.setattr(Page, "on_worker_state_changed", changed)


class Monkey:
    """Presses keys of a seed."""

    def __init__(self, seed: int, app: ExpdbApp, pilot: Pilot[None]) -> None:
        self._draw = random.Random(seed)
        self._app, self._pilot = app, pilot
        self._keys = [*keys_of_app(), *TYPED]
        self.pressed: list[str] = []

    async def press(self, count: int) -> None:
        """Press keys: most wait for nothing, some come at once, now and then all is read."""
        until = len(self.pressed) + count
        while len(self.pressed) < until:
            what = self._draw.random()
            if what < 0.12:
                await self._burst()
            elif what < 0.15:
                await self._pilot.resize_terminal(*self._draw.choice(SIZES))
            elif what < 0.25:
                await settle(self._app, self._pilot)
            else:
                self._send(self._allowed(self._draw.choice(self._keys)))
                await self._pilot.pause()

    async def _burst(self) -> None:
        keys = self._draw.choices(self._keys, k=self._draw.choice((2, 2, 3, 5)))
        if self._draw.random() < 0.5:
            keys = [keys[0]] * len(keys)
        if "enter" in keys and (TURNS & set(keys) or isinstance(self._app.screen, Dialog | Prompt)):
            keys = [key for key in keys if key != "enter"]
        for key in keys:
            self._send(key)
        await self._pilot.pause()

    def _allowed(self, key: str) -> str:
        """Return the key, or escape where it would carry something out."""
        screen = self._app.screen
        if key != "enter":
            return key
        if isinstance(screen, Dialog) and screen.query_one(Buttons).chosen:
            return "escape"
        if isinstance(screen, Prompt) and screen.query_one(Input).value.strip():
            return "escape"
        return key

    def _send(self, key: str) -> None:
        self.pressed.append(key)
        character = " " if key == "space" else key if len(key) == 1 else None
        self._app.post_message(events.Key(key, character))
