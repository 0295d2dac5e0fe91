"""The app in a browser: behind its token, drawn and driven, and gone with its page."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tui.terminal import children_of, environment, is_alive

pytest.importorskip("textual_serve", reason="the extra serve is not installed")
aiohttp = pytest.importorskip("aiohttp")

pytestmark = pytest.mark.slow
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
WAIT_S = 60.0


class Served:
    """A server of ours: its process, its address and its token."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.root, _, token = address.partition("/?token=")
        self.address, self.token = address, token

    def status(self, path: str) -> int:
        """Return the status of a request without a cookie."""
        try:
            with urllib.request.urlopen(self.root + path, timeout=20) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def apps(self) -> list[int]:
        """Return the processes of its pages."""
        return children_of(self.process.pid)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture(scope="module")
def served(tui_folder: Path) -> Iterator[Served]:
    words = [sys.executable, "-m", "expdb.cli.main", "tui", "--serve", "--fresh"]
    words += ["--port", str(free_port())]
    process = subprocess.Popen(
        words, cwd=tui_folder, env=environment(), stderr=subprocess.PIPE, text=True
    )
    said = re.search(r"http://\S+", process.stderr.readline())
    yield Served(process, said[0])
    process.send_signal(signal.SIGINT)
    process.wait(30)


async def until(is_so: Callable[[], Any], said: str) -> Any:
    """Wait until something holds, and return it."""
    end = time.monotonic() + WAIT_S
    while not (found := is_so()):
        assert time.monotonic() < end, f"never: {said}"
        await asyncio.sleep(0.05)
    return found


class Page:
    """A page without a browser: what it is sent, and what it types."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._sent = socket, b""

    @property
    def text(self) -> str:
        """What was drawn so far, without the commands of the terminal."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._sent.decode(errors="replace"))

    async def take(self) -> None:
        """Take all that is sent, until the socket is closed."""
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.BINARY:
                self._sent += message.data

    async def type(self, keys: str) -> None:
        """Type keys."""
        self._sent = b""
        await self._socket.send_str(json.dumps(["stdin", keys]))


def on_a_page(served: Served, story: Callable[[Page], Awaitable[None]], token: str) -> None:
    """Open the socket of a page with a token, play a story, and close it."""

    async def play() -> None:
        cookies = {"expdb-tui": token}
        async with aiohttp.ClientSession(cookies=cookies) as session:
            url = f"{served.root}/ws?width=100&height=30"
            async with session.ws_connect(url) as socket:
                page = Page(socket)
                taking = asyncio.create_task(page.take())
                await story(page)
            await taking

    asyncio.run(play())


def test_without_the_token_nothing_is_served(served: Served) -> None:
    for path in ("/", "/ws", "/static/js/textual.js", "/?token=", "/?token=x", "/download/x"):
        assert served.status(path) == 403, path
    with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
        on_a_page(served, None, "another")
    assert served.status(f"/?token={served.token}") == 200
    assert not served.apps(), "no request but that of a page starts an app"


def test_the_page_asks_no_other_machine_for_anything(served: Served) -> None:
    with urllib.request.urlopen(served.address, timeout=20) as answer:
        policy, referrer = (
            answer.headers[name] for name in ("Content-Security-Policy", "Referrer-Policy")
        )
    assert "default-src 'self'" in policy
    assert "googleapis" not in policy
    assert referrer == "no-referrer"


def test_keys_reach_the_app_which_ends_with_its_page(served: Served) -> None:
    pids: list[int] = []

    async def story(page: Page) -> None:
        await until(lambda: "exp01" in page.text, "the list of runs")
        pids.extend(served.apps())
        await page.type("\r")
        await until(lambda: "Curves" in page.text, "the run that enter opens")
        await page.type(":")
        await until(lambda: "compare baseline" in page.text, "the line for a command")
        await page.type("ls\r")
        await until(lambda: "cannot be lent" in page.text, "no shell is to be had")

    on_a_page(served, story, served.token)
    assert len(pids) == 1, "the shell that starts the app becomes it"
    end = time.monotonic() + WAIT_S
    while any(map(is_alive, pids)):
        assert time.monotonic() < end, "the app outlives its page"
        time.sleep(0.05)


def test_the_server_takes_its_apps_with_it(served: Served, tui_folder: Path) -> None:
    words = [sys.executable, "-m", "expdb.cli.main", "tui", "--serve", "--fresh"]
    words += ["--port", str(free_port())]
    process = subprocess.Popen(
        words, cwd=tui_folder, env=environment(), stderr=subprocess.PIPE, text=True
    )
    other = Served(process, re.search(r"http://\S+", process.stderr.readline())[0])
    pids: list[int] = []

    async def story(page: Page) -> None:
        await until(lambda: "exp01" in page.text, "the list of runs")
        pids.extend(other.apps())
        process.send_signal(signal.SIGTERM)
        await until(lambda: process.poll() is not None, "the end of the server")

    on_a_page(other, story, other.token)
    end = time.monotonic() + WAIT_S
    while any(map(is_alive, pids)):
        assert time.monotonic() < end, "the app outlives the server"
        time.sleep(0.05)
    assert len(pids) == 1
    assert process.wait() == 0


# -------------------------------------------------------------------------------- in a browser


class Browser:
    """A headless Chromium, told what to do over its DevTools socket."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._next = socket, 0
        self._answers: dict[int, dict[str, Any]] = {}
        self.drawn = b""
        self.asked: list[str] = []

    async def take(self) -> None:
        """Take answers, what the page is sent, and the addresses that it asks for."""
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                self._answers[said["id"]] = said
            elif said["method"] == "Network.webSocketFrameReceived":
                payload = said["params"]["response"]
                if payload["opcode"] == 2:
                    self.drawn += base64.b64decode(payload["payloadData"])
            elif said["method"] == "Network.responseReceived":
                self.asked.append(said["params"]["response"]["url"])

    async def tell(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        self._next += 1
        at = self._next
        await self._socket.send_json({"id": at, "method": method, "params": params})
        await until(lambda: at in self._answers, method)
        return self._answers.pop(at).get("result", {})

    async def ask(self, script: str) -> Any:
        """Return what a script gives on the page."""
        found = await self.tell("Runtime.evaluate", expression=script, returnByValue=True)
        return found["result"].get("value")

    async def press(self, key: str, code: str, number: int, text: str = "") -> None:
        """Press a key on the page."""
        self.drawn = b""
        one = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        kind = "keyDown" if text else "rawKeyDown"
        await self.tell("Input.dispatchKeyEvent", type=kind, text=text, **one)
        await self.tell("Input.dispatchKeyEvent", type="keyUp", **one)

    async def click(self, x: int, y: int) -> None:
        """Click on the page."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.tell(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    def has_drawn(self, text: str) -> bool:
        """Tell whether a text was drawn since the last key."""
        plain = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", self.drawn)
        return text in plain.decode(errors="replace")


@pytest.mark.soak
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_in_a_browser_a_run_is_opened_and_nothing_stays(served: Served, tmp_path: Path) -> None:
    words = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
        f"--user-data-dir={tmp_path}", "--window-size=1200,700", "about:blank",
    ]  # fmt: skip
    chromium = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        asyncio.run(click_through(served, tmp_path))
    finally:
        chromium.terminate()
        chromium.wait(30)


async def click_through(served: Served, profile: Path) -> None:
    """Open the address in the browser, look, press keys, close the page."""
    known = profile / "DevToolsActivePort"
    await until(lambda: known.exists() and known.read_text().count("\n") == 1, "the browser")
    port = known.read_text().split("\n")[0]
    async with aiohttp.ClientSession() as session:
        where = f"http://127.0.0.1:{port}/json/new?{urllib.parse.quote('about:blank')}"
        async with session.put(where) as answer:
            target = await answer.json()
        async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            browser = Browser(socket)
            taking = asyncio.create_task(browser.take())
            await browser.tell("Network.enable")
            await browser.tell("Page.enable")
            await browser.tell("Page.navigate", url=served.address)
            await until(lambda: browser.has_drawn("exp01"), "the list of runs")
            while not await browser.ask("document.body.classList.contains('-first-byte')"):
                await asyncio.sleep(0.05)
            (pid,) = served.apps()
            shot = await browser.tell("Page.captureScreenshot", format="png")
            (profile / "served.png").write_bytes(base64.b64decode(shot["data"]))
            assert len(shot["data"]) > 20_000, "a page that was drawn, not an empty one"
            await browser.click(600, 300)  # the page has the keys then
            await browser.press("Enter", "Enter", 13, "\r")
            await until(lambda: browser.has_drawn("Curves"), "the run that enter opens")
            await browser.press("3", "Digit3", 51, "3")
            await until(lambda: browser.has_drawn("val/loss"), "the comparison")
            own = [url for url in browser.asked if not url.startswith((served.root, "data:"))]
            assert not own, "the page asks no other machine"
            await browser.tell("Page.close")
            await until(lambda: not is_alive(pid), "the end of the app with its page")
            await socket.close()
            await taking
    assert not served.apps()
