"""The lines that a starting run says: what it is, what it is measured against, which code, what to
beat.

Pure: values in, lines out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from expdb import text
from expdb.model import Objective, Pin, Run

SHOWN_KEYS = 5
NOISE_FACTOR = 1.959963984540054 * 2**0.5
"""95 % half-width of the difference of two single runs, in standard deviations over seeds."""


def head_line(
    name: str, run: str, seed: int | None, *, attempt: int, resumed_from: int | None, fork: str
) -> str:
    """Return the line that says which run starts, and from what weights."""
    line = f"{name}  {run}"
    if seed is not None:
        line += f"  seed {seed}"
    if attempt > 1:
        return f"{line}  resumes at step {resumed_from or 0}  attempt {attempt}"
    return f"{line}  forks {fork}" if fork else f"{line}  from scratch"


def parent_lines(
    parent: Run | None, keys: Mapping[str, tuple[object, object]], *, run: str, same_seed: bool
) -> list[str]:
    """Return what differs from the parent; `keys`: dotted key -> (the parent's value, the run's
    own).
    """
    if parent is None:
        return ["  parent     none"]
    head = f"  parent     {parent.id[:4]} {parent.name}"
    if not keys:
        repeat = f" (also the seed): a repeat of {parent.id[:4]}" if same_seed else " but the seed"
        return [f"{head}, nothing differs{repeat}"]
    groups = {key.partition(".")[0] for key in keys}
    count = f"{len(keys)} keys" if len(keys) > 1 else "1 key"
    inside = f" in {len(groups)} groups" if len(keys) > SHOWN_KEYS and len(groups) > 1 else ""
    line = f"{head}, {count}{inside} {'differ' if len(keys) > 1 else 'differs'}"
    if len(keys) > SHOWN_KEYS:
        line += f" ({SHOWN_KEYS} shown; all: expdb compare {parent.id[:4]} {run[:4]})"
    shown = list(keys.items())[:SHOWN_KEYS]
    width = max(text.cells(text.plain(key)) for key, _ in shown)
    lines = [line]
    for key, (old, new) in shown:
        name = text.plain(key)
        gap = " " * (width - text.cells(name) + 2)
        lines.append(f"{'':15}{name}{gap}{text.config_value(old)} → {text.config_value(new)}")
    return lines


def code_line(pin: Pin) -> str:
    """Return what code runs."""
    if pin.commit is None and pin.snapshot is None:
        why = pin.reasons[0] if pin.reasons else "not pinned"
        return f"  code       {why}: the run cannot be rolled back to its code"
    place = f"{pin.branch or 'detached'} {(pin.commit or 'no commit')[:7]}"
    if not pin.dirty:
        return f"  code       {place}, clean"
    noun = "edit" if pin.num_edits == 1 else "edits"
    kept = f"kept as snapshot {pin.snapshot[:7]}" if pin.snapshot else "not kept"
    return f"  code       {place} with {pin.num_edits} {noun}, {kept}"


def objective_line(
    objective: Objective | None, parent: Run | None, noise: Mapping[str, float]
) -> str:
    """Return what is measured and what is to be beaten."""
    if objective is None:
        return "  objective  none declared: this run is not ranked"
    words = "lower" if objective.mode == "min" else "higher"
    line = f"  objective  {objective.metric}, {words} is better"
    value = parent.value() if parent is not None and parent.objective == objective else None
    if parent is not None and value is not None:
        line += f"; to beat {text.metric(value[0])} ({parent.id[:4]})"
    sd = noise.get(objective.metric)
    if sd:
        line += f", noise ±{text.metric(NOISE_FACTOR * float(sd), 3)}"
    return line


def path_line(path: Path) -> str:
    """Return where the run's files are."""
    import os

    relative = os.path.relpath(path)
    return f"  path       {relative if len(relative) < len(str(path)) else path}"
