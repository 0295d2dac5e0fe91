"""Checkpoint folders: what is there, whether it is whole, and how one is put in place.

Layout of `checkpoints/`:

    step=300/             committed; manifest.json was written last, before the rename
    .tmp-step=300/        being written, or left by a process that died
    .tmp-old-step=300/    the earlier step=300 while a new one takes its place
    .tmp-gone-step=100/   being removed

manifest.json: format, needs, step, attempt, created_at_ms, tokens, world_size, torch, value (the
objective at this step or null), parts {part: {"file", "names"}}, files {name: {"bytes", "sha256"}}.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, ExpdbError, NotFound, Unsupported
from expdb.model import FORMAT, NEEDS, Checkpoint
from expdb.store import fields
from expdb.store.fields import Wrong
from expdb.store.files import fsync_dir, open_regular, read_json, reason, write_json
from expdb.store.layout import RunLayout

MANIFEST = "manifest.json"
OLD = ".tmp-old-"
PREFIX = "step="
STEP = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one checkpoint says about itself."""

    step: int
    attempt: int = 1
    created_at_ms: int = 0
    tokens: int = 0
    world_size: int = 1
    torch: str = ""
    value: float | None = None
    """The objective at this step, where it was known when the checkpoint was written."""
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Part (`model`, `sched`) -> {"file", "names"}; no names where it is a single object."""
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def temp_dir(layout: RunLayout, step: int) -> Path:
    """Return the folder in which the checkpoint of `step` is being written."""
    return layout.checkpoints / f".tmp-{PREFIX}{step}"


def steps(layout: RunLayout, *, problems: list[str] | None = None) -> tuple[int, ...]:
    """Return the steps that have a folder, ascending; whole or not.

    What is no folder that can be read is named in `problems`.
    """
    try:
        with os.scandir(layout.checkpoints) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(PREFIX)]
    except FileNotFoundError:
        return ()
    except OSError as error:
        if problems is not None:
            problems.append(f"checkpoints cannot be read: {reason(error)}")
        return ()
    numbers = [name.removeprefix(PREFIX) for name in names]
    return tuple(sorted(int(one) for one in numbers if STEP.fullmatch(one)))


def being_written(layout: RunLayout) -> tuple[int, ...]:
    """Return the steps whose folder has no name yet, ascending: in progress while the run lives."""
    aside = f".tmp-{PREFIX}"
    found = [name.removeprefix(aside) for name in _names(layout) if name.startswith(aside)]
    return tuple(sorted(int(step) for step in found if STEP.fullmatch(step)))


def read_manifest(layout: RunLayout, step: int) -> Manifest:
    """Return the manifest of the checkpoint at `step`.

    Raises:
        NotFound: there is no such checkpoint; the message names those there are.
        Corrupt: the manifest is missing or cannot be read.
        Unsupported: it was written by a newer expdb.
    """
    folder = layout.checkpoint(step)
    if not folder.is_dir():
        there = ", ".join(str(one) for one in steps(layout))
        raise NotFound(f"{layout.id} has no checkpoint {step}; it has {there or 'none'}")
    try:
        data = read_json(folder / MANIFEST)
    except FileNotFoundError as error:
        raise Corrupt(f"checkpoint {step} of {layout.id} has no {MANIFEST}") from error
    found = data.get("format")
    if isinstance(found, int) and found > FORMAT:
        raise Unsupported(
            f"checkpoint {step} of {layout.id} has format {found}, newer than {FORMAT}",
            hint=f"it needs expdb {data.get('needs', 'of a later version')}",
        )
    try:
        return Manifest(
            step=step,
            attempt=fields.whole(data, "attempt"),
            created_at_ms=fields.whole(data, "created_at_ms", 0),
            tokens=fields.whole(data, "tokens", 0),
            world_size=fields.whole(data, "world_size", 1),
            torch=fields.text(data, "torch", ""),
            value=fields.maybe_real(data, "value"),
            parts={
                name: {
                    "file": _plain_name(fields.text(one, "file")),
                    "names": fields.items(one, "names"),
                }
                for name, one in fields.mappings(data, "parts").items()
            },
            files={
                _plain_name(name): {
                    "bytes": fields.whole(one, "bytes"),
                    "sha256": fields.text(one, "sha256"),
                }
                for name, one in fields.mappings(data, "files").items()
            },
        )
    except Wrong as error:
        raise Corrupt(
            f"{MANIFEST} of checkpoint {step} of {layout.id} is not what expdb writes ({error})",
            hint=f"the file: {folder / MANIFEST}",
        ) from error


def read_checkpoint(layout: RunLayout, step: int) -> Checkpoint:
    """Return one checkpoint by its manifest and the sizes on disk; damage is in `problem`.

    Raises:
        NotFound: there is no such checkpoint.
    """
    folder = layout.checkpoint(step)
    try:
        manifest = read_manifest(layout, step)
    except (Corrupt, Unsupported, OSError) as error:
        problem = error.message if isinstance(error, ExpdbError) else f"{MANIFEST}: {error}"
        return Checkpoint(step=step, bytes=_bytes_in(folder), complete=False, problem=problem)
    problem = ""
    for name, one in manifest.files.items():
        problem = problem or _size_problem(folder / name, int(one["bytes"]))
    return Checkpoint(
        step=step,
        bytes=sum(int(one["bytes"]) for one in manifest.files.values()),
        complete=not problem,
        attempt=manifest.attempt,
        created_at_ms=manifest.created_at_ms,
        files=manifest.files,
        problem=problem,
    )


def read_manifests(
    layout: RunLayout, *, problems: list[str] | None = None
) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a run by step; JSON and file sizes only, no hashing."""
    found = []
    for step in steps(layout, problems=problems):
        try:
            found.append(read_checkpoint(layout, step))
        except NotFound:  # it was removed between the listing and the look
            continue
    return tuple(found)


def damage(layout: RunLayout, step: int) -> str:
    """Return why the checkpoint at `step` is damaged, by sizes and SHA-256; empty when it is whole.

    Raises:
        NotFound: there is no such checkpoint.
    """
    checkpoint = read_checkpoint(layout, step)
    if not checkpoint.complete:
        return checkpoint.problem
    folder = layout.checkpoint(step)
    for name, one in checkpoint.files.items():
        try:
            differs = sha256(folder / name) != one.get("sha256")
        except OSError as error:
            return f"{name}: {error.strerror}"
        if differs:
            return f"{name} is damaged: its SHA-256 is not the one in {MANIFEST}"
    return ""


def verify(layout: RunLayout, step: int) -> Checkpoint:
    """Return the checkpoint at `step` after reading every byte of it.

    Raises:
        NotFound: there is no such checkpoint.
        Corrupt: a file differs from its manifest; the hint names the next good step.
        Unsupported: it was written by a newer expdb.
    """
    problem = damage(layout, step)
    if problem:
        with suppress(Corrupt):
            read_manifest(layout, step)  # what is only too new is Unsupported, not damaged
        good = next_good(layout, step)
        hint = "no other checkpoint of this run is good"
        if good is not None:
            hint = f"the next good one: step {good}"
        raise Corrupt(f"checkpoint {step} of {layout.id}: {problem}", hint=hint)
    return read_checkpoint(layout, step)


def next_good(layout: RunLayout, step: int) -> int | None:
    """Return the newest whole checkpoint before `step`, else the first after it, else None."""
    there = steps(layout)
    before = [one for one in reversed(there) if one < step]
    after = [one for one in there if one > step]
    return next((one for one in [*before, *after] if not damage(layout, one)), None)


def seal(folder: Path, manifest: Manifest) -> None:
    """Make every file of a finished temporary folder durable, hash it, write the manifest last."""
    files = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            digest = _sha256(file)
            files[path.name] = {"bytes": os.fstat(file.fileno()).st_size, "sha256": digest}
    written = {
        "format": FORMAT,
        "needs": NEEDS,
        "step": manifest.step,
        "attempt": manifest.attempt,
        "created_at_ms": manifest.created_at_ms,
        "tokens": manifest.tokens,
        "world_size": manifest.world_size,
        "torch": manifest.torch,
        "value": manifest.value,
        "parts": {name: dict(part) for name, part in manifest.parts.items()},
        "files": files,
    }
    write_json(folder / MANIFEST, written)


def put_in_place(layout: RunLayout, step: int) -> None:
    """Rename the sealed temporary folder to `step=<step>`; an earlier one goes only after that."""
    target = layout.checkpoint(step)
    old = layout.checkpoints / f"{OLD}{PREFIX}{step}"
    if target.exists():
        _remove(old)
        target.rename(old)
    temp_dir(layout, step).rename(target)
    fsync_dir(layout.checkpoints)
    _remove(old)


def remove(layout: RunLayout, step: int) -> bool:
    """Remove one checkpoint of this run, out of sight first; False if it is no plain folder."""
    folder = layout.checkpoint(step)
    if folder.is_symlink() or not folder.is_dir():
        return False
    gone = layout.checkpoints / f".tmp-gone-{PREFIX}{step}"
    _remove(gone)
    folder.rename(gone)
    _remove(gone)
    return True


def recover(layout: RunLayout) -> None:
    """Undo what a writer that died left half done; only the process that owns the run may call it.

    A checkpoint that was moved aside for its successor comes back if the successor never arrived.
    """
    bring_back(layout)
    for name in _names(layout):
        if name.startswith((OLD, ".tmp-gone-", f".tmp-{PREFIX}")):
            _remove(layout.checkpoints / name)


def bring_back(layout: RunLayout) -> None:
    """Give the checkpoints their names again that were moved aside and whose successor never came.

    Nothing is removed, so whoever holds the lock of a dead run may call it.
    """
    moved = cut_off(layout)
    for step in moved:
        (layout.checkpoints / f"{OLD}{PREFIX}{step}").rename(layout.checkpoint(step))
    if moved:
        fsync_dir(layout.checkpoints)


def cut_off(layout: RunLayout) -> tuple[int, ...]:
    """Return the steps that a death between the two renames of `put_in_place` left without name."""
    aside = f"{OLD}{PREFIX}"
    found = [name.removeprefix(aside) for name in _names(layout) if name.startswith(aside)]
    return tuple(
        int(step)
        for step in found
        if STEP.fullmatch(step) and not os.path.lexists(layout.checkpoint(int(step)))
    )


def _names(layout: RunLayout) -> list[str]:
    try:
        return os.listdir(layout.checkpoints)  # noqa: PTH208 - the names are taken apart
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove(folder: Path) -> None:
    import shutil  # like hashlib: not for who only reads manifests

    shutil.rmtree(folder, ignore_errors=True)


def _sha256(file: BufferedReader) -> str:
    import hashlib

    return hashlib.file_digest(file, "sha256").hexdigest()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    with open_regular(path) as file:
        return _sha256(file)


def _size_problem(path: Path, expected: int) -> str:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return f"{path.name} is missing"
    except OSError as error:
        return f"{path.name}: {error.strerror}"
    return "" if size == expected else f"{path.name} has {size:,} of {expected:,} bytes"


def _bytes_in(folder: Path) -> int:
    try:
        return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    except OSError:
        return 0


def _plain_name(name: str) -> str:
    """Return a file name of a manifest; one that would leave the folder is refused."""
    if name != Path(name).name or name.startswith(".") or "\0" in name:
        raise Wrong(f"{name!r} is no file name")
    return name
