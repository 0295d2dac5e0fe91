"""What a recorder keeps in memory until it is sealed."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from expdb.store import recorder
from expdb.store.layout import RunLayout
from expdb.store.parts import read_list
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from tests.store.recorder_made import RUN, journals, steps_of


def test_memory_is_let_go_when_a_part_is_sealed(layout: RunLayout, small_parts: None) -> None:
    item = Recorder(layout, run=RUN, attempt=1)
    for step in range(400):
        item.write((f"k{step % 7}", "a"), (1.0, 2.0), step, 0)
        if item._sealing is not None:
            item._sealing.join()
        assert item._memory.num_points <= 20
        assert len(journals(layout)) <= 2
    item.close()
    assert steps_of(layout, attempts=True) == list(range(400))


def test_a_wide_step_seals_though_only_narrow_ones_came_before(
    layout: RunLayout, small_parts: None
) -> None:
    """How many more frames fit is reckoned from the widest keys so far."""
    item = Recorder(layout, run=RUN, attempt=1)
    for step in range(5):
        item.write(("a",), (1.0,), step, 0)
    item.write(tuple(f"k{number}" for number in range(20)), [1.0] * 20, 5, 0)
    assert item._sealing is not None
    item.close()
    assert read_series(layout.root).num_rows == 25


def hold_sealing(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let no part be sealed before the event is set."""
    go, real = threading.Event(), Recorder._seal

    def held(self: Recorder, *args: Any) -> None:
        go.wait(60)
        real(self, *args)

    monkeypatch.setattr(Recorder, "_seal", held)
    return go


def kept_bytes(item: Recorder) -> int:
    return item._memory.num_bytes + sum(chunk.kept_bytes for chunk in item._older)


@pytest.mark.parametrize("heartbeats", [False, True])
def test_memory_is_bounded_where_sealing_falls_behind(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch, heartbeats: bool
) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 400)
    monkeypatch.setattr(recorder, "KEPT_BYTES", 8_000)
    go = hold_sealing(monkeypatch)
    item = Recorder(layout, run=RUN, attempt=1)
    keys = tuple(f"k{number}" for number in range(20))
    most = 0
    for step in range(300):
        item.write(keys, [step + number / 32 for number in range(20)], step, step)
        if step % 3 == 0:
            item.write(("k0", "other"), [math.nan, -0.0], step, step)
        most = max(most, kept_bytes(item))
        if heartbeats and step % 70 == 69:
            item.save_book()
            assert item.book["k7"].count == step + 1
    assert len(item._older) > 12
    one = 400 // 20 * 220  # what 400 points take
    assert most < 8_000 + 3 * one
    before = read_series(layout.root, attempts=True).sort_by("seq")
    go.set()
    item.close()
    after = read_series(layout.root, attempts=True).sort_by("seq")
    names = ["key", "step", "seq"]
    order = [(name, "ascending") for name in names]
    assert repr(before.sort_by(order).to_pylist()) == repr(after.sort_by(order).to_pylist())
    assert after.num_rows == 20 * 300 + 2 * 100
    assert (item.book["k7"].count, item.book["k7"].max) == (300, 299 + 7 / 32)
    assert item.book["other"].count == 100
    assert journals(layout) == []
    assert len(read_list(layout.parts_list(1, 0))) == len(list(layout.points.iterdir()))


def test_a_chunk_whose_journal_lost_points_is_not_sealed_without_them(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 10)
    monkeypatch.setattr(recorder, "KEPT_BYTES", 0)
    go, said = hold_sealing(monkeypatch), list[str]()
    item = Recorder(layout, run=RUN, attempt=1, on_trouble=said.append)
    for step in range(35):
        item.write(("a",), (float(step),), step, 0)
    path = layout.journal(1, 0, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    go.set()
    with pytest.raises(OSError, match=r"damaged|does not have all"):
        item.close()
    assert path.exists()
    path.write_bytes(whole)
    item.close()
    assert steps_of(layout, attempts=True) == list(range(35))
    assert journals(layout) == []
