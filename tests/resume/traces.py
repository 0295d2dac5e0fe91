"""What a training left behind, to the bit, and how a checkpoint on disk loses something."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from tests import warm

SCRIPT = Path(__file__).with_name("tiny_moe.py")
ROOT = Path(__file__).parents[2]
OF_TIME = {"train/tokens_per_s", "train/data_wait_pct", "train/step_time_s"}
SINCE_START = {"train/noise_scale", "layer/embed/emb_drift"}
"""Means and differences over samples of one process."""
OF_WATCH = ("layer/", "group/", "train/log_z", "train/ppl", "train/repeat_share", "init/")
"""What is there on watched updates only."""
END = 1 << 40
"""Stands for the final state among the steps at which two traces differ."""

Jobs = list[dict[str, Any]]


def work(folder: Path, jobs: Jobs) -> list[int]:
    """Do all jobs in one new process, each in a fork of it; return how each ended.

    The process works outside any repository, so that no commit is pinned.
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = warm.run([str(SCRIPT), json.dumps(jobs)], cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def layout_of(store: Path) -> RunLayout:
    """The only run of a store."""
    [folder] = store.glob("exp=*/run=*")
    return RunLayout(folder)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """All points as hex, by key and step, and the digests of the end."""

    points: Mapping[str, Mapping[int, str]]
    digest: str | None = None
    weights: str | None = None
    evaluated: Mapping[int, list[int]] = field(default_factory=dict)
    """Step -> the attempts that evaluated it."""
    said: Mapping[str, Any] = field(default_factory=dict)


def trace(store: Path, end: Path) -> Trace:
    """What one run shows of its points, the superseded ones left out, and how its process ended."""
    table = read_series(layout_of(store).root)
    points: dict[str, dict[int, str]] = {}
    columns = (table[name].to_pylist() for name in ("key", "step", "value"))
    for key, step, value in zip(*columns, strict=True):
        if key not in OF_TIME | SINCE_START and not key.startswith("sys/"):
            points.setdefault(key, {})[step] = float(value).hex()
    raw = read_series(layout_of(store).root, ["val/loss"], attempts=True)
    evaluated: dict[int, list[int]] = {}
    for step, attempt in zip(raw["step"].to_pylist(), raw["attempt"].to_pylist(), strict=True):
        evaluated.setdefault(step, []).append(attempt)
    said = json.loads(end.read_text())
    digests = {name: said.get(name) for name in ("digest", "weights")}
    return Trace(points=points, evaluated=evaluated, said=said, **digests)


def differences(left: Trace, right: Trace) -> dict[str, int]:
    """Return key -> the first step at which two traces differ; `state` is the final digest."""
    found = {}
    for key in sorted({*left.points, *right.points}):
        a, b = left.points.get(key, {}), right.points.get(key, {})
        steps = [step for step in {*a, *b} if a.get(step) != b.get(step)]
        if steps:
            found[key] = min(steps)
    if left.digest is None or left.digest != right.digest:
        found["state"] = END
    return found


def edit(layout: RunLayout, step: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a checkpoint on disk as if it had been saved so: its files, then its manifest.

    `change` gets {"model", "optim", "ema": trees, "state": {"sched", "ranks", ...}, "manifest"}.
    """
    folder = layout.checkpoint(step)
    manifest = json.loads((folder / "manifest.json").read_text())
    files = {
        Path(name).stem: torch.load(folder / name, weights_only=True) for name in manifest["files"]
    }
    change({**files, "manifest": manifest})
    for name in manifest["files"]:
        torch.save(files[Path(name).stem], folder / name)
        data = (folder / name).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        manifest["files"][name] = {"bytes": len(data), "sha256": digest}
    (folder / "manifest.json").write_text(json.dumps(manifest))
