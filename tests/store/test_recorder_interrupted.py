"""A signal handler that raises anywhere in a write."""

from __future__ import annotations

import linecache
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from expdb.store import recorder, series
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from tests.store.recorder_made import RUN, journals, make


class Interrupted(Exception):
    """What a signal handler raises."""


OURS = tuple(
    str(Path(recorder.__file__).with_name(f"{name}.py"))
    for name in ("appending", "packed", "recorder", "templates")
)


class Interrupt:
    """Raises before the `number`-th line of our write path in this thread, once."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: FrameType, event: str, arg: object) -> Interrupt | None:
        if frame.f_code.co_filename not in OURS or frame.f_code.co_name == "_tell":
            return None
        if event == "line" and self.left > 0:
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            if line.startswith(("with ", "try:")):
                return self  # traced where no handler can run: on the way out, and as a no-op
            self.left -= 1
            if self.left == 0:
                raise Interrupted
        return self


def interrupted_writes(layout: RunLayout, number: int, *, full: bool) -> tuple[set[int], bool]:
    """Write, count and close with one interrupt; return the steps told, and whether it came."""
    item, told = Recorder(layout, run=RUN, attempt=1), set[int]()
    calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
    for step in range(9):
        keys = ("a", "b")[: 1 + (step > 5)] if step % 2 else ("a", f"k{step}")
        calls.append((item.write, (keys, [float(step)] * len(keys), step, 0)))
    calls.insert(6, (item.update_book, ()))
    calls.append((item.close, ()))
    before, interrupt, real = sys.gettrace(), Interrupt(number), os.write
    for at, (call, args) in enumerate(calls):
        if full:  # the disk takes half a frame of the third call, and nothing of the next ones
            size = {2: 9, 3: 0, 4: 0}.get(at, 1 << 30)
            os.write = lambda fd, data, size=size: size and real(fd, data[:size])
        sys.settrace(interrupt)
        try:
            call(*args)
            told |= {args[2]} if args else set()
        except Interrupted:
            pass
        finally:
            sys.settrace(before)
            os.write = real
    if not full or not item.num_waiting:
        check_live(layout, item, told)
    item.close()
    return told, interrupt.left == 0


def check_live(layout: RunLayout, item: Recorder, told: set[int]) -> None:
    problems: list[str] = []
    found = read_series(layout.root, ["a"], attempts=True, problems=problems)["step"].to_pylist()
    assert problems == []
    assert told <= set(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stride", [pytest.param(29, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("full", [False, True])
def test_a_handler_that_raises_at_any_line_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool, stride: int
) -> None:
    """KeyboardInterrupt may come anywhere; who catches it and goes on has all that was told."""
    monkeypatch.setattr(recorder, "SEAL_POINTS", 8)
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    number, came = random.randrange(stride) + 1 - stride, True
    while came:
        number += stride
        layout = make(tmp_path, new_id())
        told, came = interrupted_writes(layout, number, full=full)
        rows = read_series(layout.root, attempts=True).to_pylist()
        found = sorted(row["step"] for row in rows if row["key"] == "a")
        assert found == sorted(set(found))
        assert told <= set(found) <= set(range(9))
        assert len(told) >= 8
        for row in rows:
            assert row["value"] == row["step"]
            assert row["key"] in ("a", "b", f"k{row['step']}")
        assert journals(layout) == []
        book = series.load(layout.series_json)
        if "a" not in book.unordered:
            assert book["a"].count == len(found)
    assert number > 100
