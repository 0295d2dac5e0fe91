"""The attempts of a run: what each is pinned to, who owned it, and whether the owner lives.

    attempts/<n>/owner.json   host, boot id, pid, process start, job of SLURM; written when the
                              attempt is claimed
    attempts/<n>/pin.json     git, environment, data, `resumed_from`; replaced when data are named
    attempts/<n>/live.json    touched every 10 s by the training process

Invariant: an attempt is claimed by `mkdir`, so two processes never share one.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from expdb.errors import Corrupt
from expdb.model import FORMAT, NEEDS, Attempt, Pin
from expdb.store import fields, owner, slurm
from expdb.store.fields import Wrong
from expdb.store.files import fsync_dir, make_dir, read_json, write_json
from expdb.store.layout import RunLayout

HEARTBEAT_S = 10.0
LOST_AFTER_S = 600.0
SILENT_AFTER_S = 60.0
CLAIM_S = 60.0
WITHIN = "slurm"
"""The job of SLURM that the process of an attempt ran in, in its owner.json."""
NUMBER = re.compile(r"[1-9][0-9]*")
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
    make_dir(layout.attempts)
    number = max(numbers(layout), default=0) + 1
    while True:
        try:
            layout.attempt(number).mkdir()
            break
        except FileExistsError:
            number += 1
    fsync_dir(layout.attempts)
    around = slurm.around()
    within = {} if around is None else {WITHIN: around}
    write_json(layout.attempt(number) / "owner.json", {**owner.describe(), **within})
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
    if attempt.intervention:
        body["intervention"] = dict(attempt.intervention)
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
        return attempt_of(number, data)
    except Wrong as error:
        raise Corrupt(
            f"pin.json of attempt {number} is damaged at `{error}`", hint=f"the file: {path}"
        ) from error


def resumed_steps(layout: RunLayout) -> dict[int, int | None]:
    """Return attempt -> the step it resumed from; None where it declares none.

    Raises:
        Corrupt: a pin.json is damaged.
    """
    return {number: read_pin(layout, number).resumed_from for number in numbers(layout)}


def attempt_of(number: int, data: Mapping[str, Any]) -> Attempt:
    """Return an attempt as its pin.json has it.

    Raises:
        Wrong: a field is of another type.
    """
    return Attempt(
        number=number,
        pin=_pin(fields.mapping(data, "git", {})),
        started_at_ms=fields.whole(data, "started_at_ms", 0),
        resumed_from=fields.maybe_whole(data, "resumed_from"),
        environment=_texts(data, "environment"),
        data=fields.mappings(data, "data", {}),
        work_tree=fields.text(data, "work_tree", ""),
        intervention=fields.mapping(data, "intervention", {}),
    )


def unpinned(number: int, why: str) -> Attempt:
    """Return an attempt of which nothing is known, with the reason."""
    return Attempt(number=number, pin=Pin(reproducible=False, reasons=(why,)))


def _pin(data: Mapping[str, Any]) -> Pin:
    return Pin(
        commit=fields.maybe_text(data, "commit"),
        branch=fields.maybe_text(data, "branch"),
        tree=fields.maybe_text(data, "tree"),
        dirty=fields.flag(data, "dirty", False),
        num_edits=fields.whole(data, "num_edits", 0),
        snapshot=fields.maybe_text(data, "snapshot"),
        remote=fields.maybe_text(data, "remote"),
        used=_texts(data, "used"),
        reproducible=fields.flag(data, "reproducible", True),
        reasons=fields.texts(data, "reasons", ()),
        skipped=fields.texts(data, "skipped", ()),
    )


def _texts(data: Mapping[str, Any], name: str) -> dict[str, str]:
    found = fields.mapping(data, name, {})
    return {key: fields.text(found, key) for key in found}


def host(layout: RunLayout, number: int) -> str:
    """Return the host that an attempt ran on; empty where its owner cannot be read."""
    try:
        found = read_json(layout.attempt(number) / "owner.json").get("host")
    except (FileNotFoundError, NotADirectoryError, Corrupt):
        return ""
    return found if isinstance(found, str) else ""


def life(layout: RunLayout, number: int, *, store_meta: Path) -> Life:
    """Tell whether the owner of an attempt lives.

    Where its process can be seen, that decides; elsewhere the heartbeat's file time against a file
    just touched in the store, so that the clocks of two hosts are never compared. One that ran in a
    job of SLURM and has been silent for a minute is dead if its job is gone.
    """
    folder = layout.attempt(number)
    beat = folder / "live.json"
    known: dict[str, Any] = {}
    try:
        known = read_json(folder / "owner.json")
        fate = owner.fate(known)
    except FileNotFoundError:
        # Killed between mkdir and the first write; a process that does this now is younger than a
        # minute.
        return "dead" if _age_s(folder, store_meta) > CLAIM_S else "alive"
    except (Corrupt, NotADirectoryError):
        fate = "unknown"
    if fate != "unknown":
        return fate
    age_s = _age_s(beat if os.path.exists(beat) else folder, store_meta)  # noqa: PTH110 - Path raises
    if age_s > SILENT_AFTER_S and WITHIN in known and slurm.is_gone(known[WITHIN]):
        return "dead"
    return "lost" if age_s > LOST_AFTER_S else "alive"


def _age_s(path: Path, store_meta: Path) -> float:
    try:
        then = path.stat().st_mtime
    except OSError:
        return 0.0
    return store_now(store_meta) - then


def store_now(meta: Path) -> float:
    """Return now in seconds by the clock that stamps the files of the store with the folder `meta`.

    Where nothing can be written it is the local clock, the best there is.
    """
    clock = meta / "clock"
    try:
        clock.touch()
        return clock.stat().st_mtime
    except OSError:
        return time.time()
