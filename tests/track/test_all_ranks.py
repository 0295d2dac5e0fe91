"""Ranks beside 0 that record their own values: real processes of one launch."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import expdb
from expdb.errors import BadInput, Conflict, Corrupt
from expdb.model import Run
from expdb.store import writers
from expdb.store.layout import RunLayout
from expdb.store.parts import schema
from expdb.store.points import ATTACHED, of_ranks, read_series, standing
from expdb.store.recover import needs_recovery
from expdb.store.runs import read_run, run_dirs
from expdb.track.quiet import QuietRun
from tests import warm

MakeRun = Callable[..., RunLayout]

SCRIPT = """
import os, signal, sys, time, expdb
from pathlib import Path
root, rank, ranks, end = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

def meet(name):
    (root.parent / f"{name}-{rank}").touch()
    while len(list(root.parent.glob(f"{name}-*"))) < ranks:
        time.sleep(0.005)

with expdb.start({"expdb": {"print": "quiet"}}, store=root, name="ddp", seed=0) as run:
    meet("begun")
    for step in range(40):
        run.log({"train/loss": float(step)}, step=step)
        run.log({"gpu/mem": step + rank * 100.0}, step=step, all_ranks=True)
    if rank:
        run.log({"only/one": 7.0, "bf": True}, step=3, all_ranks=True)
    meet("logged")
    if end == "kill" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "late" and rank == 1:
        while not (root.parent / "rank 0 is done").exists():
            time.sleep(0.005)
        run.log({"only/one": 8.0}, step=4, all_ranks=True)
if rank == 0:
    (root.parent / "rank 0 is done").touch()
"""


def launch(root: Path, end: str = "finish", ranks: int = 2) -> list[int]:
    script = root.parent / "script.py"
    script.write_text(SCRIPT)
    jobs = [
        warm.Job(
            [str(script), str(root), str(rank), str(ranks), end],
            root.parent,
            {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "EXPDB_LAUNCH": "one"},
            warm.LIGHT,
        )
        for rank in range(ranks)
    ]
    done = [job.wait() for job in jobs]
    assert [one.stderr for one in done] == [""] * ranks
    return [one.returncode for one in done]


def only_run(root: Path) -> Run:
    [(_, folder, _)] = run_dirs(root)
    return read_run(folder, store_root=root)


def by_rank(folder: Path, key: str) -> dict[int, list[tuple[int, float]]]:
    table = read_series(folder, [key])
    found: dict[int, list[tuple[int, float]]] = {}
    names = ("rank", "step", "value")
    for rank, step, value in zip(*(table[name].to_pylist() for name in names), strict=True):
        found.setdefault(rank, []).append((step, value))
    return found


def check(root: Path, last: float, count: int) -> Run:
    """All that both ranks logged is there once; rank 0 stands for what both have."""
    run = only_run(root)
    folder = root / run.path
    assert (run.state, run.problems) == ("finished", ())
    memory = by_rank(folder, "gpu/mem")
    assert {rank: len(rows) for rank, rows in memory.items()} == {0: 40, 1: 40}
    assert memory[1][5] == (5, 105.0)
    assert list(by_rank(folder, "train/loss")) == [0]
    assert (run.series["gpu/mem"].count, run.series["gpu/mem"].max) == (40, 39.0)
    assert (run.series["only/one"].count, run.series["only/one"].last) == (count, last)
    assert run.series["bf"].last == 1.0
    return run


@pytest.mark.parametrize("end", ["finish", "late"])
def test_every_rank_keeps_its_own_values_in_one_run(tmp_path: Path, end: str) -> None:
    root = tmp_path / "runs"
    assert launch(root, end) == [0, 0]
    last, count = (8.0, 2) if end == "late" else (7.0, 1)
    run = check(root, last, count)
    folder = root / run.path
    assert list(folder.glob("attempts/1/*.wal")) == []
    assert not needs_recovery(RunLayout(folder))
    # Folded: series.json says all of it by itself.
    for path in folder.glob("attempts/1/rank-1.series.json"):
        path.unlink()
    check(root, last, count)
    record = expdb.open(root).run("ddp").record
    assert repr(dict(record.series)) == repr(dict(run.series))


def test_a_dead_rank_is_sealed_by_the_next_reader(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    assert launch(root, "kill") == [0, -signal.SIGKILL]
    run = check(root, 7.0, 1)
    folder = root / run.path
    assert [path.name for path in folder.glob("attempts/1/*.wal")] == ["rank-1.1.wal"]
    record = expdb.open(root).run("ddp").record
    assert record.series["only/one"].last == 7.0
    assert list(folder.glob("attempts/1/*.wal")) == []
    check(root, 7.0, 1)


# --------------------------------------------------------------------------- one process at a time


def beside(layout: RunLayout, rank: int = 1) -> QuietRun:
    return QuietRun(layout=layout, rank=rank)


def test_without_all_ranks_nothing_is_recorded(make_run_dir: MakeRun) -> None:
    layout = make_run_dir()
    with beside(layout) as run:
        run.log({"x": 1.0}, step=1)
        assert sorted(os.listdir(layout.attempt(1))) == ["owner.json"]
        run.log({"x": 2.0}, step=2, all_ranks=True)
        assert by_rank(layout.root, "x") == {1: [(2, 2.0)]}
    QuietRun().log({"x": 1.0}, all_ranks=True)


def test_bad_values_are_refused_by_name_on_every_rank(make_run_dir: MakeRun) -> None:
    layout = make_run_dir()
    with beside(layout) as run:
        with pytest.raises(BadInput, match="bad at step 0 is the text"):
            run.log({"good": 1.0, "bad": "x"}, all_ranks=True)
        run.finish()
        with pytest.raises(BadInput, match="has ended"):
            run.log({"good": 2.0}, all_ranks=True)
    assert by_rank(layout.root, "good") == {1: [(0, 1.0)]}


def test_a_rank_that_another_process_has_is_said_once(
    make_run_dir: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = make_run_dir()
    first, second = beside(layout), beside(layout)
    first.log({"x": 1.0}, all_ranks=True)
    for step in range(3):
        second.log({"x": 2.0}, step=step, all_ranks=True)
    first.finish()
    assert by_rank(layout.root, "x") == {1: [(0, 1.0)]}
    assert capsys.readouterr().err.count("another process's; rank 1 records nothing") == 1
    with pytest.raises(Conflict):
        writers.claim_rank(layout, 1, 1)


def test_a_full_disk_on_one_rank_is_said_at_its_end(
    make_run_dir: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_run_dir()
    run = beside(layout)
    run.log({"x": 1.0}, step=1, all_ranks=True)
    layout.attempt(1).rename(layout.root / "away")
    with pytest.raises(Corrupt, match=r"rank 1 of .* could not be finished"):
        run.finish()
    (layout.root / "away").rename(layout.attempt(1))
    run.finish()
    assert by_rank(layout.root, "x") == {1: [(1, 1.0)]}


# ---------------------------------------------------------------------------- which rank stands


def table_of(*rows: tuple[str, int, int, int]) -> pa.Table:
    """Rows (key, step, attempt, rank), with the rank as their value."""
    body = [
        {"key": k, "step": s, "time": 0, "value": float(r), "attempt": a, "rank": r, "seq": 1}
        for k, s, a, r in rows
    ]
    table = pa.Table.from_pylist(body, schema=schema())
    return table.set_column(0, "key", table["key"].cast(pa.string()))


def test_the_newest_attached_process_stands_else_the_lowest_rank() -> None:
    table = table_of(
        ("a", 1, 1, 0), ("a", 1, 1, 3), ("a", 2, 1, 1), ("a", 2, 1, 2), ("a", 3, 1, 0),
        ("a", 3, 1, ATTACHED), ("a", 3, 1, ATTACHED + 1), ("b", 3, 2, 7), ("b", 4, 1, ATTACHED),
    )  # fmt: skip
    found = standing(table)
    assert list(zip(found["key"].to_pylist(), found["rank"].to_pylist(), strict=True)) == [
        ("a", 0), ("a", 1), ("a", ATTACHED + 1), ("b", 7), ("b", ATTACHED),
    ]  # fmt: skip
    assert standing(found).equals(found)
    assert standing(table.slice(0, 0)).num_rows == 0


def test_other_ranks_are_left_out_of_one_attempt_only() -> None:
    table = table_of(("a", 1, 1, 3), ("a", 1, 2, 0), ("a", 2, 2, 1), ("a", 2, 2, ATTACHED))
    assert of_ranks(table, 2, {0})["rank"].to_pylist() == [3, 0]
    assert of_ranks(table, 2, {0, ATTACHED})["rank"].to_pylist() == [3, 0, ATTACHED]
    assert of_ranks(table, 3, {0}).num_rows == 4


def test_ranks_by_their_files(make_run_dir: MakeRun) -> None:
    layout = make_run_dir()
    assert writers.ranks(layout, 1) == []
    ours = "rank-2.1.wal media-5.1.wal rank-7.json rank-8.owner.json rank-9.series.json"
    for name in f"{ours} rank-0.1.wal rank-x.json rank-4.1.wal.torn".split():
        (layout.attempt(1) / name).touch()
    assert writers.ranks(layout, 1) == [2, 5, 7, 8, 9]
    assert writers.others(layout, [1]) == (False, True)


def test_a_value_of_any(make_run_dir: MakeRun) -> None:
    """A rank may be any whole number below those of attached processes."""
    layout: Any = make_run_dir()
    with beside(layout, rank=4095) as run:
        run.log({"x": 1.0}, all_ranks=True)
    assert by_rank(layout.root, "x") == {4095: [(0, 1.0)]}
