"""The check of one run folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, ExpdbError, NotFound, Unsupported
from expdb.model import RunState
from expdb.store import attempts as attempt_files
from expdb.store.fsck import files as files
from expdb.store.fsck.checkpoints import check_checkpoints
from expdb.store.fsck.curves import check_curves
from expdb.store.fsck.media import check_artifacts, check_media
from expdb.store.fsck.points import check_points
from expdb.store.fsck.report import Checked, Notes, relative
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.run_files import is_being_updated
from expdb.store.runs import read_identity, read_run, state_now
from expdb.store.status import sizes

LIVE = frozenset([*(state for state in RunState if state.is_live), RunState.LOST])
"""States in which somebody writes to the run, or may."""


def check_run(root: Path, folder: Path) -> Checked:
    """Return all that is wrong with one run folder.

    A folder that is being made, or that was left before it was a run, is not counted as a run.
    """
    layout = RunLayout(folder)
    out = Checked()
    notes = Notes(folder=relative(folder, root), run=layout.id, found=out.findings)
    numbers = attempt_files.numbers(layout)
    is_live = is_open(layout, root)
    try:
        identity = read_identity(layout)
    except Unsupported as error:
        notes.say("newer", "run.json", error.message)
        return out
    except NotFound:
        if not _was_a_run(layout):
            if not is_live:
                notes.say("leftover", "", "no run.json: it ended before it was a run")
            return out
        identity = {}
        notes.say("missing", "run.json", "run.json: nothing else says what the run was")
    except Corrupt as error:
        identity = {}
        notes.say("damaged", "run.json", error.message)
    if isinstance(identity.get("experiment"), str):
        notes.experiment = identity["experiment"] + str(identity.get("variant") or "")
    if identity:
        _check_identity(root, folder, identity, notes)
    if is_being_updated(folder):
        notes.say("unfinished", "", "a pull of it is under way, or was cut off: expdb pull goes on")
    out.counts.runs = 1
    out.counts.files = len(sizes(folder)) + int(layout.status_json.exists())
    status = files.check_status(layout, notes, is_live=is_live)
    files.check_pins(layout, numbers, notes)
    files.check_owners(layout, numbers, notes, is_live=is_live)
    check_points(layout, numbers, status, notes, is_live=is_live)
    check_checkpoints(layout, out.counts, notes, is_live=is_live)
    files.check_records(layout, notes, is_live=is_live)
    check_media(layout, numbers, notes, is_live=is_live)
    check_artifacts(layout, notes, is_live=is_live)
    check_curves(layout, numbers, notes, is_live=is_live)
    if is_live:
        out.live.append(layout.id)
        return out
    files.check_series(layout, numbers, notes)
    if status is not None and status.state != "running":
        said = {item.path.removeprefix(f"{notes.folder}/") for item in notes.found}
        files.check_listed(layout, status, notes, said=said)
    files.check_leftovers(layout, notes)
    return out


def is_open(layout: RunLayout, root: Path) -> bool:
    """Tell whether a run is being written, or may be: by an owner on another host, or by a pull."""
    is_live = state_now(layout.root, store_root=root)[0] in LIVE
    return is_live or is_being_updated(layout.root)


def _check_identity(root: Path, folder: Path, identity: dict[str, Any], notes: Notes) -> None:
    layout = RunLayout(folder)
    try:
        read_run(folder, store_root=root)
    except Unsupported as error:
        notes.say("newer", "run.json", error.message)
        return
    except ExpdbError as error:
        notes.say("damaged", "run.json", error.message)
        return
    home = StoreLayout(root).run_dir(str(identity["experiment"]), layout.id).parent.name
    if folder.parent.name != home:
        notes.say("damaged", "run.json", f"run.json says that it belongs in {home}")
    canonical = identity.get("canonical", "{}")
    try:
        is_config = isinstance(json.loads(canonical), dict)
    except (ValueError, RecursionError):
        is_config = False
    if not is_config:
        notes.say("damaged", "run.json", "run.json is damaged at `canonical`")
    elif "canonical" in identity:
        files.check_config(layout, canonical, notes)


def _was_a_run(layout: RunLayout) -> bool:
    """Tell whether a folder without run.json has had one: what comes after it is there."""
    names = ("status.json", *files.EVIDENCE)
    return any((layout.root / name).exists() for name in names)
