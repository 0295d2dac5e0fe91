"""An app that is left open all day beside a run that trains holds no more than in the morning."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tui.terminal import environment

pytestmark = pytest.mark.soak
TICKS, FROM = 5000, 500
MOST_MB = 5.0


def test_five_thousand_ticks_beside_a_run_that_trains(tui_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(tui_folder / "runs", tmp_path / "runs")
    words = [sys.executable, "-m", "tests.tui.ticking", str(tmp_path), str(TICKS)]
    done = subprocess.run(
        words,
        cwd=Path(__file__).parents[2],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    held = {int(at): one for at, one in json.loads(done.stdout).items()}
    first, last = held[FROM], held[TICKS]
    assert last["rss_mb"] <= first["rss_mb"] + MOST_MB, (first, last)
    assert last["threads"] <= first["threads"], (first, last)
    assert last["files"] <= first["files"], (first, last)
