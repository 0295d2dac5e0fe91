"""What is known of a run after a repair of what was damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from expdb.store import series
from expdb.store.attempts import read_pin
from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from expdb.store.runs import read_run
from expdb.store.status import read_status
from tests.store.fsck_made import (
    CANONICAL,
    finished,
    flip,
    line,
    part,
    repair,
)

pytestmark = pytest.mark.slow


MakeRun = Callable[..., RunLayout]


def test_a_lost_part_leaves_what_is_known_of_its_series(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = finished(make_run_dir)
    known = series.load(layout.series_json).series
    flip(part(layout), 60)
    repair(store_root)
    assert series.load(layout.series_json).series == known
    problems: list[str] = []
    read_series(layout.root, problems=problems)
    assert problems == ["part-a1-r0-1-21.parquet is missing"]


def test_a_lost_pin_says_so(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    (layout.attempt(1) / "pin.json").write_bytes(b"?")
    repair(store_root)
    pin = read_pin(layout, 1).pin
    assert (pin.commit, pin.reproducible) == (None, False)
    assert pin.reasons == ("its pin.json was damaged and set aside by fsck",)


def test_a_lost_status_is_written_from_the_points(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    layout.status_json.write_bytes(b"")
    repair(store_root)
    status = read_status(layout)
    assert (status.state, status.last_step, status.attempt) == ("crashed", 19, 1)
    assert status.reason == "its status.json was damaged: how it ended is not known"
    assert status.files["series.json"] == layout.series_json.stat().st_size


def test_the_sound_lines_beside_a_damaged_one_stay(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    line("marks.jsonl", 2, b"\xff{")(layout)
    line("events.jsonl", 1, b"[3]")(layout)
    repair(store_root)
    run = read_run(layout.root, store_root=store_root)
    assert run.notes == ("note 0", "note 2")
    assert [event.step for event in run.events] == [1, 2]
    assert run.problems == ()


def test_a_set_aside_checkpoint_leaves_the_sound_ones(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = finished(make_run_dir)
    flip(layout.checkpoint(20) / "model.pt", 1)
    [row], _ = repair(store_root)
    run = read_run(layout.root, store_root=store_root)
    assert [(item.step, item.complete) for item in run.checkpoints] == [(10, True)]
    assert not any("step=20" in name for name in read_status(layout).files)
    assert row.trash.startswith(".expdb/trash/fsck-")
    assert (store_root / row.trash).exists()
    assert (store_root / row.trash).with_name("optim.pt").exists()


def test_a_config_comes_back_from_run_json(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    layout.config_json.write_bytes(b"")
    repair(store_root)
    assert json.loads(layout.config_json.read_bytes()) == {"optim.lr": 0.003, "seed": 0}
    assert json.loads(layout.run_json.read_bytes())["canonical"] == CANONICAL
