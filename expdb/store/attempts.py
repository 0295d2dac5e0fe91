"""The attempts of a run: what each is pinned to, who owned it, and whether the owner lives.

    attempts/<n>/owner.json   host, boot id, pid, process start; written when the attempt is claimed
    attempts/<n>/pin.json     git, environment, data, `resumed_from`; replaced when data are named
    attempts/<n>/live.json    touched every 10 s by the training process

Invariant: an attempt is claimed by `mkdir`, so two processes never share one.
"""

from __future__ import annotations

import operator
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from expdb.errors import Corrupt
from expdb.model import FORMAT, NEEDS, Attempt, Pin
from expdb.store import owner
from expdb.store.files import read_json, write_json
from expdb.store.layout import RunLayout

HEARTBEAT_S = 10.0
LOST_AFTER_S = 600.0
CLAIM_S = 60.0
NUMBER = re.compile(r"[1-9][0-9]*")
PIN_KINDS: Mapping[str, Any] = {
    "dirty": bool,
    "reproducible": bool,
    "num_edits": int,
    "used": dict,
    "reasons": list,
    "skipped": list,
}
"""The types in JSON of a pin's fields that are not texts."""

Life = Literal["alive", "dead", "lost"]


def numbers(layout: RunLayout) -> list[int]:
    """Return the attempts of a run, oldest first."""
    try:
        names = os.listdir(layout.attempts)  # noqa: PTH208 - names only, for 10,000 runs
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name) for name in names if NUMBER.fullmatch(name))


def claim(layout: RunLayout) -> int:
    """Claim the next attempt by making its folder, and return its number."""
    layout.attempts.mkdir(exist_ok=True)
    number = max(numbers(layout), default=0) + 1
    while True:
        try:
            layout.attempt(number).mkdir()
            break
        except FileExistsError:
            number += 1
    write_json(layout.attempt(number) / "owner.json", owner.describe())
    return number


def write_pin(layout: RunLayout, attempt: Attempt) -> None:
    """Replace the pin of an attempt."""
    body = {
        "format": FORMAT,
        "needs": NEEDS,
        "attempt": attempt.number,
        "started_at_ms": attempt.started_at_ms,
        "resumed_from": attempt.resumed_from,
        "work_tree": attempt.work_tree,
        "git": asdict(attempt.pin),
        "environment": dict(attempt.environment),
        "data": {name: dict(item) for name, item in attempt.data.items()},
    }
    write_json(layout.attempt(attempt.number) / "pin.json", body)


def read_pin(layout: RunLayout, number: int) -> Attempt:
    """Return an attempt; one killed before its pin was written has an empty pin that says so.

    Raises:
        Corrupt: pin.json is damaged.
    """
    path = layout.attempt(number) / "pin.json"
    try:
        data = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return unpinned(number, "it ended before its code was pinned")
    try:
        resumed_from = data.get("resumed_from")
        return Attempt(
            number=number,
            pin=_pin({**data.get("git", {})}),
            started_at_ms=int(data.get("started_at_ms", 0)),
            resumed_from=None if resumed_from is None else operator.index(resumed_from),
            environment={**data.get("environment", {})},
            data={name: {**item} for name, item in data.get("data", {}).items()},
            work_tree=str(data.get("work_tree", "")),
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise Corrupt(
            f"pin.json of attempt {number} is damaged", hint=f"the file: {path}"
        ) from error


def unpinned(number: int, why: str) -> Attempt:
    """Return an attempt of which nothing is known, with the reason."""
    return Attempt(number=number, pin=Pin(reproducible=False, reasons=(why,)))


def _pin(data: Mapping[str, Any]) -> Pin:
    known = {name: data[name] for name in Pin.__dataclass_fields__ if name in data}
    for name, value in known.items():
        if not isinstance(value, PIN_KINDS.get(name, str | None)):
            raise TypeError(name)
    for name in ("reasons", "skipped"):
        known[name] = tuple(known.get(name, ()))
    return Pin(**known)


def life(layout: RunLayout, number: int, *, store_meta: Path) -> Life:
    """Tell whether the owner of an attempt lives.

    Where its process can be seen, that decides; elsewhere the heartbeat's file time against a file
    just touched in the store, so that the clocks of two hosts are never compared.
    """
    folder = layout.attempt(number)
    beat = folder / "live.json"
    try:
        fate = owner.fate(read_json(folder / "owner.json"))
    except FileNotFoundError:
        # Killed between mkdir and the first write; a process that does this now is younger than a
        # minute.
        return "dead" if _age_s(folder, store_meta) > CLAIM_S else "alive"
    except (Corrupt, NotADirectoryError):
        fate = "unknown"
    if fate != "unknown":
        return fate
    age_s = _age_s(beat if os.path.exists(beat) else folder, store_meta)  # noqa: PTH110 - Path raises
    return "lost" if age_s > LOST_AFTER_S else "alive"


def _age_s(path: Path, store_meta: Path) -> float:
    try:
        then = path.stat().st_mtime
    except OSError:
        return 0.0
    clock = store_meta / "clock"
    try:
        clock.touch()
        now = clock.stat().st_mtime
    except OSError:
        now = time.time()  # a read-only store: the local clock is the best there is
    return now - then
