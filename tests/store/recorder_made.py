"""Run folders for the tests of the recorder, and what was recorded in one."""

from __future__ import annotations

from pathlib import Path

from expdb.store.layout import RunLayout
from expdb.store.points import read_series

RUN = "k3f9x2m7qd"


def make(folder: Path, run: str = RUN) -> RunLayout:
    layout = RunLayout(folder / f"run={run}")
    layout.attempt(1).mkdir(parents=True)
    return layout


def steps_of(layout: RunLayout, key: str = "a", *, attempts: bool = False) -> list[int]:
    return sorted(read_series(layout.root, [key], attempts=attempts)["step"].to_pylist())


def journals(layout: RunLayout) -> list[str]:
    return sorted(path.name for path in layout.attempt(1).glob("rank-*.wal*"))


def fill(folder: Path) -> Path:
    """Take all space that is left."""
    path = folder / "filler"
    with path.open("ab", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return path
