"""What the rules of one attempt stood on: `attempts/<n>/monitor.json`.

    {"format", "needs", "section": the config's expdb.monitor, "state": where it went on, or null}

It is there where the config says something, or where the attempt went on from a checkpoint; with
the points of the attempt it is all that a replay needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from expdb.errors import Corrupt
from expdb.model import FORMAT, NEEDS
from expdb.store import fields
from expdb.store.fields import Wrong
from expdb.store.files import read_json, write_json
from expdb.store.layout import RunLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitored:
    """What the rules of one attempt stood on."""

    section: Mapping[str, Any] | bool | None = None
    """The config's `expdb.monitor`; None where it says nothing."""
    state: Mapping[str, Any] | None = None
    """Where the detectors went on from; None where they began."""


def write_monitored(layout: RunLayout, attempt: int, found: Monitored) -> None:
    """Write the file of an attempt.

    Raises:
        OSError: it cannot be written.
    """
    body = {"format": FORMAT, "needs": NEEDS, "section": found.section, "state": found.state}
    write_json(layout.monitor_json(attempt), body, durable=False)


def read_monitored(layout: RunLayout, attempt: int) -> Monitored | None:
    """Return what the rules of an attempt stood on; None where there is no such file.

    Raises:
        Corrupt: the file is damaged.
    """
    path = layout.monitor_json(attempt)
    try:
        data = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        section = data.get("section")
        if section is not None and not isinstance(section, bool):
            section = fields.mapping(data, "section")
        state = None if data.get("state") is None else fields.mapping(data, "state")
    except Wrong as error:
        where = f"monitor.json of attempt {attempt}"
        raise Corrupt(f"{where} is damaged at `{error}`", hint=f"the file: {path}") from error
    return Monitored(section=section, state=state)
