"""`expdb import`: what was taken, what was there already, what was passed over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from expdb.report.json import document
from expdb.report.style import Style
from expdb.report.words import counted

if TYPE_CHECKING:
    from expdb.importers.results import ImportedFile, ImportedRun


def lines(found: ImportedFile, style: Style) -> list[str]:
    """Return what became of one file."""
    how = f"{found.format} {found.pattern}".strip()
    out = [_run(run, style.say(found.name), how, style) for run in found.runs]
    for item in found.skipped:
        where = f"first: line {item.first_line:,}"
        out.append(f"passed over: {item.count:,} x {style.say(item.reason)} ({where})")
    return out


def again(found: ImportedFile) -> str:
    """Return what to do for options that were not used; empty where all were."""
    runs = [run.id for run in found.runs if run.unused]
    return f"to read it in another way: expdb rm {' '.join(runs)}, then again" if runs else ""


def _run(run: ImportedRun, name: str, how: str, style: Style) -> str:
    if not run.is_new:
        unused = f"; not used: {' '.join(run.unused)}" if run.unused else ""
        return f"already imported as {run.id} {style.say(run.experiment)}: {name}{unused}"
    said = f"{counted(run.num_points, 'point')} of {counted(run.num_keys, 'metric')}"
    if run.first_step is not None:
        said += f", steps {run.first_step} to {run.last_step}"
    seed = "" if run.seed is None else f", seed {run.seed}"
    return f"imported {run.id} {style.say(run.experiment)}{seed}: {said}, from {name} ({how})"


def document_of(files: Sequence[ImportedFile]) -> dict[str, Any]:
    """Return `import --json`."""
    return document(
        files=[
            {
                "file": found.name,
                "sha256": found.sha256,
                "format": found.format,
                "pattern": found.pattern or None,
                "runs": [
                    {
                        "id": run.id,
                        "experiment": run.experiment,
                        "seed": run.seed,
                        "is_new": run.is_new,
                        "unused": list(run.unused),
                        "points": run.num_points,
                        "metrics": run.num_keys,
                        "first_step": run.first_step,
                        "last_step": run.last_step,
                    }
                    for run in found.runs
                ],
                "skipped": [
                    {"reason": item.reason, "count": item.count, "first_line": item.first_line}
                    for item in found.skipped
                ],
            }
            for found in files
        ]
    )
