"""The check of checkpoints: every byte against the sizes and hashes of their manifests."""

from __future__ import annotations

import os
from pathlib import Path

from expdb.errors import ExpdbError, NotFound, Unsupported
from expdb.store import checkpoints
from expdb.store.files import reason
from expdb.store.fsck.report import Counts, Kind, Notes
from expdb.store.layout import RunLayout


def check_checkpoints(layout: RunLayout, counts: Counts, notes: Notes, *, is_live: bool) -> None:
    """Read every byte of every checkpoint."""
    for step in checkpoints.steps(layout):
        counts.checkpoints += 1
        found = checkpoint_damage(layout, step)
        if is_live and found and not layout.checkpoint(step).is_dir():
            continue  # its retention has removed it
        for name, said in found:
            where = f"checkpoints/step={step}" + (f"/{name}" if name else "")
            kind: Kind = "newer" if said.startswith("needs ") else "damaged"
            can_mend = kind == "damaged" and not is_live and os.access(layout.root / where, os.R_OK)
            if said == "is missing":
                notes.say("missing", where, f"{where}: listed in its manifest, not there",
                          can_mend=not is_live)  # fmt: skip
            else:
                notes.say(kind, where, f"{where}: {said}", can_mend=can_mend)


def checkpoint_damage(layout: RunLayout, step: int) -> list[tuple[str, str]]:
    """Return (file, what is wrong) of a checkpoint after reading all of it; empty when whole."""
    folder = layout.checkpoint(step)
    try:
        manifest = checkpoints.read_manifest(layout, step)
    except NotFound:
        return []  # removed since it was listed, or no folder
    except Unsupported as error:
        return [("", f"needs a newer expdb: {error.message}")]
    except ExpdbError as error:
        return [(checkpoints.MANIFEST, error.message)]
    except OSError as error:
        return [(checkpoints.MANIFEST, reason(error))]
    out = []
    for name, one in sorted(manifest.files.items()):
        said = file_damage(folder / name, int(one["bytes"]), str(one["sha256"]))
        if said:
            out.append((name, said))
    return out


def file_damage(path: Path, size: int, digest: str) -> str:
    """Return what is wrong with a file of known size and SHA-256, or nothing."""
    try:
        now = path.stat().st_size
        if now != size:
            return f"has {now:,} of {size:,} bytes"
        return "" if checkpoints.sha256(path) == digest else "differs from its SHA-256"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {reason(error)}"
