from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.errors import Corrupt, Unsupported
from expdb.model import Attempt, Pin
from expdb.store import attempts, points, recorder
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from expdb.store.recorder import Recorder

Row = tuple[str, int, int, int, int, float]
"""key, step, rank, attempt, seq, value"""

LOGGED = st.tuples(
    st.integers(0, 1),  # rank
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True).map(tuple),
    st.integers(-1, 5),  # step
)
ATTEMPT = st.tuples(st.none() | st.integers(0, 4), st.booleans(), st.lists(LOGGED, max_size=8))


def model(rows: list[Row], resumed: dict[int, int | None]) -> list[Row]:
    """The rule of the format in plain words."""
    seen: dict[tuple[str, int, int], Row] = {}
    for row in rows:
        key, step, rank, attempt, seq, _ = row
        if any(
            start is not None and number > attempt and step > start
            for number, start in resumed.items()
        ):
            continue
        at = (key, step, rank)
        if at not in seen or (attempt, seq) > seen[at][3:5]:
            seen[at] = row
    return [seen[at] for at in sorted(seen)]


def rows_of(table: Any) -> list[Row]:
    names = ("key", "step", "rank", "attempt", "seq", "value")
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def write_attempt(
    layout: RunLayout, number: int, resumed: int | None, sealed: bool, logged: list
) -> list[Row]:
    layout.attempt(number).mkdir(parents=True)
    attempts.write_pin(layout, Attempt(number=number, pin=Pin(), resumed_from=resumed))
    rows: list[Row] = []
    recorders: dict[int, Recorder] = {}
    seqs: dict[int, int] = {}
    known: dict[int, set[tuple[str, ...]]] = {}
    for at, (rank, keys, step) in enumerate(logged):
        if rank not in recorders:
            recorders[rank] = Recorder(layout, run="k3f9x2m7qd", attempt=number, rank=rank)
        if keys not in known.setdefault(rank, set()):
            known[rank].add(keys)
            seqs[rank] = seqs.get(rank, 0) + 1
        seqs[rank] += 1
        values = [number * 1000 + at + place / 4 for place in range(len(keys))]
        recorders[rank].write(keys, values, step, 0)
        rows += [
            (key, step, rank, number, seqs[rank], value)
            for key, value in zip(keys, values, strict=True)
        ]
    for item in recorders.values():
        item.close() if sealed else item._journal.close()
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("points")


@settings(max_examples=40)
@given(st.lists(ATTEMPT, max_size=4), st.lists(st.sampled_from("abcd"), unique=True))
def test_what_is_seen_follows_the_rule(folder: Path, script: list, keys: list[str]) -> None:
    layout = RunLayout(folder / f"run={new_id()}")
    rows: list[Row] = []
    resumed: dict[int, int | None] = {}
    for number, (start, sealed, logged) in enumerate(script, start=1):
        resumed[number] = start
        rows += write_attempt(layout, number, start, sealed, logged)
    seen = model(rows, resumed)
    assert rows_of(read_series(layout.root)) == seen
    assert rows_of(read_series(layout.root, keys)) == [row for row in seen if row[0] in keys]
    assert sorted(rows_of(read_series(layout.root, attempts=True))) == sorted(rows)
    shutil.rmtree(layout.root, ignore_errors=True)


def test_a_run_without_points_has_the_columns(tmp_path: Path) -> None:
    table = read_series(tmp_path / "run=k3f9x2m7qd")
    assert table.num_rows == 0
    assert [str(field.type) for field in table.schema] == [
        "string", "int64", "int64", "double", "int32", "int32", "int64",
    ]  # fmt: skip
    assert table.column_names == ["key", "step", "time", "value", "attempt", "rank", "seq"]


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    """A run whose points stand in one part and two journals."""
    layout = RunLayout(tmp_path / "run=k3f9x2m7qd")
    layout.attempt(1).mkdir(parents=True)
    first = Recorder(layout, run="k3f9x2m7qd", attempt=1)
    first.write(("a",), [1.0], 1, 0)
    first.close()
    layout.attempt(2).mkdir()
    second = Recorder(layout, run="k3f9x2m7qd", attempt=2)
    second.write(("a",), [2.0], 2, 0)
    second._switch_journal(seq=3)
    second._seq = 3
    second.write(("a",), [3.0], 3, 0)
    second._journal.close()
    return layout


def values(layout: RunLayout, problems: list[str] | None = None) -> list[float]:
    return read_series(layout.root, problems=problems)["value"].to_pylist()


def spoil_part(layout: RunLayout) -> str:
    (path,) = layout.points.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    return path.name


def remove_part(layout: RunLayout) -> str:
    (path,) = layout.points.iterdir()
    path.unlink()
    return path.name


def spoil_list(layout: RunLayout) -> str:
    layout.parts_list(1, 0).write_bytes(b"{")
    return "rank-0.json"


def spoil_pin(layout: RunLayout) -> str:
    (layout.attempt(1) / "pin.json").write_bytes(b"")
    return "pin.json"


def spoil_header(layout: RunLayout) -> str:
    path = layout.journal(2, 0, 1)
    path.write_bytes(b"\0" * 100)
    return path.name


def spoil_middle(layout: RunLayout) -> str:
    path = layout.journal(2, 0, 1)
    data = bytearray(path.read_bytes())
    data[data.index(b"K") + 1] ^= 1  # in the first of two frames
    path.write_bytes(data)
    return path.name


@pytest.mark.parametrize(
    ("spoil", "left"),
    [
        (spoil_part, [2.0, 3.0]),
        (remove_part, [2.0, 3.0]),
        (spoil_list, [2.0, 3.0]),
        (spoil_pin, [1.0, 2.0, 3.0]),
        (spoil_header, [1.0, 3.0]),
        (spoil_middle, [1.0, 3.0]),
    ],
)
def test_a_damaged_file_is_named_and_the_rest_is_read(
    layout: RunLayout, spoil: Callable[[RunLayout], str], left: list[float]
) -> None:
    assert values(layout) == [1.0, 2.0, 3.0]
    name = spoil(layout)
    problems: list[str] = []
    assert values(layout, problems) == left
    assert len(problems) == 1
    assert name in problems[0]
    with pytest.raises(Corrupt, match=name):
        values(layout)


def test_a_torn_end_is_told_but_is_no_error(layout: RunLayout) -> None:
    path = layout.journal(2, 0, 2)
    path.write_bytes(path.read_bytes()[:-3])
    problems: list[str] = []
    assert values(layout, problems) == [1.0, 2.0]
    assert problems == ["rank-0.2.wal: torn at its end; all 1 whole frames kept"]
    assert values(layout) == [1.0, 2.0]


def test_a_newer_journal_is_told(layout: RunLayout) -> None:
    layout.journal(2, 0, 1).write_bytes(b"EXPDBJ\x63" + bytes(30))
    problems: list[str] = []
    assert values(layout, problems) == [1.0, 3.0]
    assert "format 99" in problems[0]
    with pytest.raises(Unsupported):
        values(layout)


def test_a_part_outside_the_run_folder_is_not_read(layout: RunLayout, tmp_path: Path) -> None:
    (part,) = layout.points.iterdir()
    outside = tmp_path / "elsewhere.parquet"
    part.rename(outside)
    path = layout.parts_list(1, 0)
    path.write_text(path.read_text().replace(part.name, "../../elsewhere.parquet"))
    with pytest.raises(Corrupt, match=r"elsewhere\.parquet is missing"):
        values(layout)


def test_a_frame_half_written_at_this_moment_is_no_torn_end(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = layout.journal(2, 0, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])

    def meanwhile(seconds: float) -> None:
        path.write_bytes(whole)

    monkeypatch.setattr(points.time, "sleep", meanwhile)
    problems: list[str] = []
    assert values(layout, problems) == [1.0, 2.0, 3.0]
    assert problems == []


def test_readers_beside_a_writer_that_seals_miss_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 200)
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    layout = RunLayout(tmp_path / "run=k3f9x2m7qd")
    layout.attempt(1).mkdir(parents=True)
    written, num = 0, 3000

    def write() -> None:
        nonlocal written
        item = Recorder(layout, run="k3f9x2m7qd", attempt=1)
        for step in range(num):
            item.write(("a", "b"), (float(step), 0.0), step, 0)
            written = step + 1
            if step % 20 == 0:
                time.sleep(0.001)
        item.close()

    thread = threading.Thread(target=write)
    thread.start()
    looks = 0
    while thread.is_alive():
        before, problems = written, list[str]()
        steps = read_series(layout.root, ["a"], problems=problems)["step"].to_pylist()
        assert problems == []
        assert steps == list(range(len(steps)))
        assert len(steps) >= before
        looks += 1
    thread.join()
    assert looks > 2
    assert read_series(layout.root).num_rows == 2 * num
    assert len(list(layout.points.iterdir())) > 3
    assert list(layout.attempt(1).glob("*.wal")) == []
