"""Run folders for the tests of recorders and of reading runs."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from expdb.model import Attempt, Pin, Run
from expdb.store import attempts, recorder
from expdb.store.files import write_json
from expdb.store.layout import RunLayout
from expdb.store.recorder import Recorder
from expdb.store.runs import read_run
from expdb.store.status import Status, write_status
from tests.store.recorder_made import make

MakeRun = Callable[..., RunLayout]
Read = Callable[[RunLayout], Run]


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return make(tmp_path)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 20)
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip(f"mounting is not allowed here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def read(store_root: Path) -> Read:
    return lambda layout: read_run(layout.root, store_root=store_root)


@pytest.fixture
def whole(make_run_dir: MakeRun, dead: dict[str, Any]) -> RunLayout:
    """A finished run with one of everything."""
    layout = make_run_dir(
        "running",
        variant="+lr=1", seed=3, created_at_ms=17, digest="v1:ab", canonical='{"a":1}',
        parent={"run": "t1h6y3cz8r", "step": 300}, fork={"run": "t1h6y3cz8r", "step": None},
        objective={"metric": "a", "mode": "max", "reading": "best"}, command=["python", "t.py"],
        settings={"keep": {"last": 2}},
    )  # fmt: skip
    attempts.write_pin(layout, Attempt(number=1, pin=Pin(commit="c" * 40, tree="t" * 40)))
    item = Recorder(layout, run=layout.id, attempt=1)
    for step in range(5):
        item.write(("a", "b"), (float(step), math.nan), step, step)
    item.close()
    layout.marks.write_text(
        '{"kind":"label","text":"keep"}\n{"kind":"label","text":"x"}\n{"kind":"note","text":"é"}\n'
        '{"kind":"unlabel","text":"x"}\n{"kind":"new","text":"later"}\n'
    )
    layout.events.write_text('{"step":3,"severity":"warn","rule":"spike","message":"m"}\n')
    layout.evals.mkdir()
    body = {"id": "e1", "task": "arc", "step": 4, "metrics": {"acc": 0.5, "x": "NaN"}, "n": 7}
    write_json(layout.evals / "e1.json", body)
    folder = layout.checkpoint(4)
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"1234")
    manifest = {
        "format": 1, "attempt": 1, "parts": {}, "files": {"model.pt": {"bytes": 4, "sha256": "0"}},
    }  # fmt: skip
    write_json(folder / "manifest.json", manifest)
    write_status(layout, Status(state="finished", last_step=4, max_steps=5, ended_at_ms=99))
    return layout
