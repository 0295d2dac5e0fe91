"""Frames that series.json counts: on disk as long as a journal or a part should have them."""

from __future__ import annotations

from collections.abc import Callable

from expdb.store import series
from expdb.store.layout import RunLayout
from expdb.store.parts import read_list
from expdb.store.points import is_short
from tests.store.fsck_made import log, seal_now

MakeRun = Callable[..., RunLayout]


def test_a_closed_recorder_counts_no_frame_that_went_with_its_journal(
    make_run_dir: MakeRun,
) -> None:
    """All points were sealed before the end: the journal that goes has none."""
    layout = make_run_dir()
    item = log(layout, range(8))
    seal_now(item)
    item.close()
    through = series.load(layout.series_json).through(1, 0)
    assert through == read_list(layout.parts_list(1, 0))[-1].last_seq
    assert not is_short(layout, 1, through)
