"""curves.parquet of runs that are over: recovery makes it, fsck names a wrong one and mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expdb.actions.reindex import reindex
from expdb.query.curve import curve
from expdb.store import curve_build, curves
from expdb.store.curve_keeper import keep_curves
from expdb.store.curves import Curves, read_curves, write_curves
from expdb.store.layout import RunLayout
from expdb.store.recover import recover
from expdb.store.runs import read_run
from expdb.store.series import load
from expdb.store.status import read_status, write_status
from expdb.store.store import open_store
from tests.store.fsck_made import KEYS, check, finished, killed, log, repair, said

MakeRun = Callable[..., RunLayout]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curve_build, "MIN_POINTS", 4)


@pytest.fixture
def layout(make_run_dir: MakeRun) -> RunLayout:
    layout = finished(make_run_dir)
    keep_curves(layout, load(layout.series_json))
    write_status(layout, read_status(layout))
    return layout


def drawn(layout: RunLayout, key: str = KEYS[0]) -> Any:
    found = curve(layout.root, key, width=4)
    return found.lo.tolist(), found.hi.tolist(), found.counts.tolist()


RIGHT = [0.0, 5.0, 10.0, 15.0], [4.0, 9.0, 14.0, 19.0], [5, 5, 5, 5]


def test_a_sound_curve_is_no_finding(layout: RunLayout, store_root: Path) -> None:
    assert check(store_root).findings == []
    assert read_status(layout).files["curves.parquet"] == layout.curves.stat().st_size
    assert drawn(layout) == RIGHT


@pytest.mark.parametrize("content", [b"", b"PAR1" * 9, None])
def test_a_damaged_curve_is_made_again(
    layout: RunLayout, store_root: Path, content: bytes | None
) -> None:
    if content is None:
        layout.curves.unlink()
        layout.curves.mkdir()
    else:
        layout.curves.write_bytes(content)
    assert said(check(store_root).findings) == ["damaged curves.parquet"]
    assert read_run(layout.root, store_root=store_root).problems == ()
    assert drawn(layout) == RIGHT
    rows, left = repair(store_root)
    assert [row.result for row in rows] == ["set aside in trash" if content is None else "mended"]
    assert left.findings == []
    assert read_curves(layout.curves).buckets.names == KEYS
    assert read_status(layout).files["curves.parquet"] == layout.curves.stat().st_size


def test_a_curve_of_other_values_is_named_and_made_again(
    layout: RunLayout, store_root: Path
) -> None:
    old = read_curves(layout.curves)
    rows = replace(old.buckets.rows, max=old.buckets.rows.max + np.float64(1))
    buckets = replace(old.buckets, rows=rows)
    write_curves(layout.curves, Curves(source=old.source, buckets=buckets))
    [found] = check(store_root).findings
    assert found.what == (
        "curves.parquet: train/loss has other values than series.json and 1 more series"
    )
    repair(store_root)
    assert check(store_root).findings == []
    assert float(read_curves(layout.curves).buckets.of(KEYS[0]).max[-1]) == 19.0


def test_a_stale_or_missing_curve_is_no_problem(layout: RunLayout, store_root: Path) -> None:
    layout.curves.unlink()
    write_status(layout, read_status(layout))
    assert check(store_root).findings == []
    assert drawn(layout) == RIGHT


def test_a_recovery_makes_the_curve(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = killed(make_run_dir)
    recover(store_root, layout)
    found = read_curves(layout.curves)
    assert int(found.buckets.of(KEYS[0]).count.sum()) == 16
    assert read_status(layout).files["curves.parquet"] == layout.curves.stat().st_size
    assert drawn(layout)[0] == [0.0, 4.0, 8.0, 12.0]


def test_reindex_makes_a_curve_that_is_missing_or_damaged(
    layout: RunLayout, store_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expdb.actions.reindex.MIN_POINTS", 4)
    for content in (b"", None):
        layout.curves.unlink()
        if content is not None:
            layout.curves.write_bytes(content)
        reindex(open_store(store_root))
        assert read_curves(layout.curves).buckets.names == KEYS
        assert read_status(layout).files["curves.parquet"] == layout.curves.stat().st_size


def test_a_run_that_lives_keeps_its_curve_at_a_reindex(
    make_run_dir: MakeRun, store_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expdb.actions.reindex.MIN_POINTS", 4)
    layout = make_run_dir()
    item = log(layout, range(20))
    item.save_book()
    reindex(open_store(store_root))
    assert not layout.curves.exists()
    item.close()


def test_a_run_of_few_points_has_none(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch, store_root: Path
) -> None:
    monkeypatch.setattr(curve_build, "MIN_POINTS", curves.MIN_POINTS)
    keep_curves(layout, load(layout.series_json))
    assert not layout.curves.exists()
