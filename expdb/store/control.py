"""Requests to a live run, one file each, and what became of them.

    attempts/<n>/control/<utc us>-<verb>.json     asked: {"format", "verb", "asked_at_ms", "who"}
    attempts/<n>/control/<utc us>-<verb>.done     the same with "done_at_ms", "step", "outcome"

Invariant: the run goes by a file's name alone, which is one of five verbs or nothing; no text of a
request is run. Requests are taken in the order of their times. One that is done has another name,
so it is done once.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from expdb.errors import BadInput, Corrupt
from expdb.model import FORMAT
from expdb.store import files
from expdb.store.layout import RunLayout

VERBS: Final = ("save", "eval", "pause", "stop", "go")
NAME: Final = re.compile(rf"(?P<us>0|[1-9][0-9]{{0,19}})-(?P<verb>{'|'.join(VERBS)})")
TRIES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request that was asked and is not done yet."""

    attempt: int
    asked_us: int
    verb: str

    @property
    def name(self) -> str:
        """The name of its file without the ending."""
        return f"{self.asked_us}-{self.verb}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the run did about a request."""

    done_at_ms: int
    step: int | None
    ok: bool
    """Whether it was done as asked."""
    outcome: str


def request(layout: RunLayout, attempt: int, verb: str, *, who: str = "") -> Request:
    """Ask an attempt for something.

    Raises:
        BadInput: the verb is none.
        OSError: it cannot be written.
    """
    if verb not in VERBS:
        raise BadInput(f"a run cannot be asked to {verb}", hint=f"one of: {' '.join(VERBS)}")
    folder = layout.control(attempt)
    files.make_dir(folder)
    now_us = time.time_ns() // 1000
    for asked_us in range(now_us, now_us + TRIES):
        asked = Request(attempt=attempt, asked_us=asked_us, verb=verb)
        body = {"format": FORMAT, "verb": verb, "asked_at_ms": asked_us // 1000, "who": who}
        try:
            files.create_bytes(folder / f"{asked.name}.json", files.encode_json(body))
        except FileExistsError:
            continue  # asked twice in one microsecond
        return asked
    raise FileExistsError(f"{folder} has {TRIES} requests of one moment")


def pending(
    layout: RunLayout, attempt: int, *, strange: set[str] | None = None
) -> tuple[Request, ...]:
    """Return what is asked and not done, the oldest first; one look at one folder.

    Names that are no request are left alone, and added to `strange`.

    Raises:
        OSError: the folder cannot be read.
    """
    try:
        with os.scandir(layout.control(attempt)) as entries:
            names = [entry.name for entry in entries]
    except FileNotFoundError:
        return ()
    found = []
    for name in names:
        stem, dot, ending = name.rpartition(".")
        match = NAME.fullmatch(stem) if dot and ending == "json" else None
        if match:
            found.append(Request(attempt=attempt, asked_us=int(match["us"]), verb=match["verb"]))
        elif strange is not None and ending != "done" and not name.startswith(".tmp-"):
            strange.add(name)
    return tuple(sorted(found, key=lambda one: (one.asked_us, one.verb)))


def done(layout: RunLayout, asked: Request, *, step: int, ok: bool, outcome: str) -> None:
    """Answer a request: its file tells when, at which step, whether as asked, and what was done.

    Raises:
        OSError: it cannot be written; the request stands.
    """
    folder = layout.control(asked.attempt)
    path = folder / f"{asked.name}.json"
    now_ms = time.time_ns() // 1_000_000
    body = {**_read(path), "done_at_ms": now_ms, "step": step, "ok": ok}
    body["outcome"] = outcome
    if not path.exists():
        return  # taken back by hand meanwhile
    files.write_json(path, body, durable=False)
    path.replace(folder / f"{asked.name}.done")


def answer(layout: RunLayout, asked: Request) -> Answer | None:
    """Return what the run did about a request; None while it has not answered."""
    path = layout.control(asked.attempt) / f"{asked.name}.done"
    if not path.exists():
        return None
    data = _read(path)
    at, step, outcome = data.get("done_at_ms"), data.get("step"), data.get("outcome")
    return Answer(
        done_at_ms=at if isinstance(at, int) else int(path.stat().st_mtime * 1000),
        step=step if isinstance(step, int) else None,
        ok=data.get("ok") is True,
        outcome=outcome if isinstance(outcome, str) else "",
    )


def is_held(layout: RunLayout, attempt: int) -> bool:
    """Tell whether the attempt waits: it did what a `pause` asked, and no `go` since.

    The times of answers decide, which one process writes; those of requests are of several hosts.
    """
    try:
        with os.scandir(layout.control(attempt)) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(".done")]
    except OSError:
        return False
    newest: tuple[int, int] | None = None
    held = False
    for match in filter(None, (NAME.fullmatch(name.removesuffix(".done")) for name in names)):
        if match["verb"] not in ("pause", "go"):
            continue
        asked_us = int(match["us"])
        asked = Request(attempt=attempt, asked_us=asked_us, verb=match["verb"])
        said = answer(layout, asked)
        at = None if said is None or not said.ok else (said.done_at_ms, asked_us)
        if at is not None and (newest is None or at > newest):
            newest, held = at, asked.verb == "pause"
    return held


def _read(path: Path) -> dict[str, Any]:
    try:
        return files.read_json(path)
    except (FileNotFoundError, NotADirectoryError, Corrupt):
        return {}
