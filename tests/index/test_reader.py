"""The index says what the run folders say."""

from __future__ import annotations

import errno
import math
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from expdb.index import build as builder
from expdb.index import connect
from expdb.index import load as loading
from expdb.index.generations import Generations
from expdb.index.reader import open_reader
from expdb.index.schema import COLUMNS
from expdb.model import RunState
from expdb.store.layout import RunLayout
from expdb.store.status import read_status, write_status
from expdb.store.store import Store
from tests.index.indexed import IDS, finished, generations, shown, values
from tests.query.made import make_store, write_run


def test_a_run_is_shown_and_the_next_reader_builds_nothing(store: Store) -> None:
    write_run(store, finished(IDS[0]))
    assert shown(store) == {IDS[0]: 1.848}
    first = generations(store)
    assert shown(store) == {IDS[0]: 1.848}
    assert generations(store) == first
    assert len(first) == 1
    assert {path.name for path in store.layout.index.iterdir()} == {first[0].name, "CURRENT"}


def test_new_changed_and_removed_runs_show_at_once(store: Store) -> None:
    for run in IDS[:3]:
        write_run(store, finished(run))
    assert set(shown(store)) == set(IDS[:3])
    write_run(store, finished(IDS[3], 1.5))
    write_run(store, finished(IDS[0], 1.7))
    shutil.rmtree(store.layout.run_dir("baseline", IDS[1]))
    expected = {IDS[0]: 1.7, IDS[2]: 1.848, IDS[3]: 1.5}
    assert shown(store) == expected
    with open_reader(store) as reader:
        assert set(reader.rows("SELECT DISTINCT run FROM params")) == {(run,) for run in expected}


def test_a_live_run_is_laid_over_and_causes_no_generation(store: Store) -> None:
    write_run(store, finished(IDS[0]))
    shown(store)
    before = generations(store)
    live = replace(finished(IDS[1], 2.5), state=RunState.RUNNING, ended_at_ms=None)
    write_run(store, live)
    with open_reader(store) as reader:
        assert reader.rows("SELECT state, value FROM runs WHERE id = ?", [IDS[1]]) == [
            ("running", 2.5)
        ]
        assert reader.rows("SELECT count(*) FROM series WHERE run = ?", [IDS[1]]) == [(1,)]
    assert generations(store) == before
    write_run(store, finished(IDS[1], 1.9))
    with open_reader(store) as reader:
        assert reader.rows("SELECT state, value FROM runs WHERE id = ?", [IDS[1]]) == [
            ("finished", 1.9)
        ]
    assert len(generations(store)) == len(before) + 1


def test_a_run_that_changed_just_now_is_looked_at_again(store: Store) -> None:
    path = write_run(store, finished(IDS[0]), old=False)
    assert shown(store) == {IDS[0]: 1.848}
    assert shown(store) == {IDS[0]: 1.848}  # an empty generation, and the run laid over it
    status = RunLayout(path).status_json
    stat = status.stat()
    write_run(store, finished(IDS[0], 1.7), old=False)
    body = status.read_bytes()
    with status.open("r+b") as file:  # the same version: same size, inode and time
        file.write(body)
    os.utime(status, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert shown(store) == {IDS[0]: 1.7}
    os.utime(status, ns=(0, time.time_ns() - 10**10))
    assert shown(store) == {IDS[0]: 1.7}
    with open_reader(store) as reader:
        assert reader.rows("SELECT id FROM gen.runs") == [(IDS[0],)]


def test_build_and_overlay_give_the_same_tables(store: Store) -> None:
    for run in IDS:
        write_run(store, finished(run, points={"train/loss": {0: 3.0, 300: math.nan}}))
    with open_reader(store, build=False) as reader:
        overlaid = {
            name: sorted(map(repr, reader.rows(f"SELECT * FROM {name}"))) for name in COLUMNS
        }
    assert not store.layout.index.exists()
    with open_reader(store) as reader:
        built = {name: sorted(map(repr, reader.rows(f"SELECT * FROM {name}"))) for name in COLUMNS}
    assert overlaid == built
    assert len(built["runs"]) == len(IDS)


def test_changes_without_building_are_laid_over_a_generation(store: Store) -> None:
    for run in IDS[:3]:
        write_run(store, finished(run))
    shown(store)
    before = generations(store)
    write_run(store, finished(IDS[0], 1.7))
    write_run(store, finished(IDS[3], 1.6))
    shutil.rmtree(store.layout.run_dir("baseline", IDS[1]))
    with open_reader(store, build=False) as reader:
        assert values(reader) == {IDS[0]: 1.7, IDS[2]: 1.848, IDS[3]: 1.6}
        assert reader.rows("SELECT count(*) FROM series") == [(3,)]
    assert generations(store) == before


def test_a_run_that_cannot_be_read_is_named_and_the_others_are_listed(store: Store) -> None:
    for run in IDS[:3]:
        write_run(store, finished(run))
    (store.layout.run_dir("baseline", IDS[1]) / "run.json").write_text("{")
    newer = store.layout.run_dir("baseline", IDS[2]) / "run.json"
    newer.write_text(newer.read_text().replace('"format":1', '"format":9'))
    for _ in range(2):
        with open_reader(store) as reader:
            assert values(reader) == {IDS[0]: 1.848}
            said = "\n".join(reader.warnings)
        assert f"exp=baseline/run={IDS[1]} is left out: run.json is not JSON" in said
        assert "has format 9; this expdb reads formats up to 1" in said
        assert len(said.split("\n")) == 2


def test_an_indexed_run_whose_run_json_is_damaged_later_is_not_shown(store: Store) -> None:
    for run in IDS[:2]:
        write_run(store, finished(run))
    shown(store)
    path = write_run(store, finished(IDS[1], 1.5))
    (path / "run.json").write_text("[]")
    with open_reader(store) as reader:
        assert values(reader) == {IDS[0]: 1.848}
        assert len(reader.warnings) == 1


def test_a_run_with_a_damaged_file_is_shown_and_read_again_each_time(store: Store) -> None:
    path = write_run(store, finished(IDS[0]))
    (path / "series.json").write_text("{")
    with open_reader(store) as reader:
        assert values(reader) == {IDS[0]: None}
        assert "series.json" in reader.rows("SELECT problems FROM runs")[0][0][0]
    write_run(store, finished(IDS[0]))
    assert shown(store) == {IDS[0]: 1.848}


def test_a_run_that_is_there_twice_is_shown_once(store: Store) -> None:
    path = write_run(store, finished(IDS[0]))
    shutil.copytree(path, path.parent.parent / "exp=copy" / path.name)
    for _ in range(2):
        with open_reader(store) as reader:
            assert reader.rows("SELECT count(*) FROM runs") == [(1,)]
            assert "is there twice" in reader.warnings[0]


def test_folders_that_are_no_runs_are_left_alone(store: Store) -> None:
    write_run(store, finished(IDS[0]))
    (store.root / "exp=old" / "notes").mkdir(parents=True)
    (store.root / "exp=old" / f"run={IDS[1]}").mkdir()  # being made: it has no run.json yet
    (store.root / "exp=file").write_text("")
    with open_reader(store) as reader:
        assert values(reader) == {IDS[0]: 1.848}
        assert reader.warnings == ()


def test_a_moved_store_keeps_its_index(store: Store, tmp_path: Path) -> None:
    write_run(store, finished(IDS[0]))
    shown(store)
    moved = tmp_path / "elsewhere" / "runs"
    shutil.copytree(store.root, moved)
    with open_reader(make_store(moved)) as reader:
        assert reader.run(IDS[0]).series["val/loss"].last == 1.848


def test_old_generations_go_and_recent_ones_stay(store: Store) -> None:
    for at in range(6):
        write_run(store, finished(IDS[0], float(at)))
        shown(store)
    assert len(generations(store)) == 6  # all younger than an hour
    left = store.layout.index / ".tmp-gen-abc.duckdb"
    left.write_bytes(b"half")
    long_ago = time.time() - 2 * 3600
    for path in [*generations(store)[:4], left]:
        os.utime(path, (long_ago, long_ago))
    newest = generations(store)[3:]
    gone = Generations(store.layout.index).collect()
    assert generations(store) == newest
    assert left in gone
    assert shown(store) == {IDS[0]: 5.0}


def test_the_file_is_written_whole_now_and_then(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "WHOLE_EVERY", 3)
    others = {run: -1.0 for run in IDS[1:5]}
    for run, value in others.items():
        write_run(store, finished(run, value))
    for at in range(6):
        write_run(store, finished(IDS[0], float(at)))
        with open_reader(store) as reader:
            assert values(reader) == {IDS[0]: float(at), **others}
            assert int(connect.meta(reader.con)["age"]) == at % 3
    assert len({path.stat().st_size for path in generations(store)}) <= 3


def test_an_older_duckdb_can_open_a_generation(store: Store) -> None:
    write_run(store, finished(IDS[0]))
    shown(store)
    with duckdb.connect(str(generations(store)[0]), read_only=True) as con:
        tags = con.execute("SELECT tags FROM duckdb_databases() WHERE NOT internal").fetchall()[0][
            0
        ]
    assert tags["storage_version"] == "v1.0.0+"


def test_readers_in_one_process_do_not_disturb_each_other(store: Store) -> None:
    write_run(store, finished(IDS[0]))
    with open_reader(store) as first:
        write_run(store, finished(IDS[1], 1.5))
        with open_reader(store) as second:
            assert set(values(second)) == set(IDS[:2])
            assert set(values(first)) == {IDS[0]}
            with open_reader(store) as third:
                assert set(values(third)) == set(IDS[:2])


POLL = """
import sys, time
from pathlib import Path
from expdb.index.reader import open_reader
from expdb.store.store import open_store

store, total = open_store(Path(sys.argv[1])), int(sys.argv[2])
seen, deadline = 0, time.monotonic() + 60
while seen < total and time.monotonic() < deadline:
    with open_reader(store) as reader:
        found = reader.rows("SELECT count(*), count(DISTINCT id) FROM runs")[0]
        assert found[0] == found[1] >= seen, (found, seen)
        assert reader.warnings == (), reader.warnings
        seen = found[0]
print(seen)
"""


@pytest.mark.slow
def test_many_processes_read_and_build_while_runs_appear(store: Store) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", POLL, str(store.root), str(len(IDS))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    for run in IDS:
        write_run(store, finished(run))
        time.sleep(0.1)
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out.strip()) == (0, str(len(IDS))), err
    assert not list(store.layout.index.glob(".tmp-*"))


def test_a_half_copied_run_is_looked_at_again_until_it_is_whole(
    store: Store, tmp_path: Path
) -> None:
    write_run(store, finished(IDS[0]))
    source = make_store(tmp_path / "source")
    made = write_run(source, finished(IDS[1], points={"train/loss": {0: 3.0, 300: 1.5}}))
    part = made / "points" / "part-a1-r0-1-9.parquet"
    part.parent.mkdir()
    part.write_bytes(b"x" * 100)
    status = RunLayout(made).status_json
    write_status(RunLayout(made), read_status(RunLayout(made)))
    os.utime(status, (time.time() - 3600,) * 2)
    target = store.layout.run_dir("baseline", IDS[1])
    target.mkdir()
    for name in ("run.json", "status.json"):
        shutil.copy2(made / name, target / name)

    def settled() -> list[tuple[str]]:
        with open_reader(store) as reader:
            assert set(values(reader)) == set(IDS[:2])  # listed all the same
            return reader.rows("SELECT id FROM gen.runs ORDER BY id")

    assert settled() == [(IDS[0],)]
    shutil.copy2(made / "series.json", target / "series.json")
    shutil.copytree(made / "attempts", target / "attempts")
    shutil.copy2(made / "x", target / "x")
    (target / "points").mkdir()
    (target / "points" / part.name).write_bytes(b"x" * 99)  # all but the last byte
    assert settled() == [(IDS[0],)]
    assert shown(store) == {IDS[0]: 1.848, IDS[1]: 1.848}
    shutil.copy2(part, target / "points" / part.name)
    assert len(settled()) == 2


def test_a_half_copied_run_is_not_recovered(store: Store) -> None:
    path = write_run(store, replace(finished(IDS[0]), state=RunState.RUNNING, ended_at_ms=None))
    layout = RunLayout(path)
    write_status(layout, read_status(layout))
    owner = layout.attempt(1) / "owner.json"
    owner.write_text(owner.read_text().replace('"start":', '"start":-'))  # its process is gone
    series = layout.series_json.read_bytes()
    layout.series_json.unlink()
    listed = layout.status_json.read_bytes()
    for _ in range(2):
        with open_reader(store) as reader:
            assert reader.rows("SELECT state, value FROM runs") == [("crashed", None)]
        assert layout.status_json.read_bytes() == listed
    layout.series_json.write_bytes(series)
    with open_reader(store) as reader:
        assert reader.rows("SELECT state FROM runs") == [("crashed",)]
    assert read_status(layout).state == "crashed"


def test_a_journal_that_a_seal_took_away_is_not_missed(store: Store) -> None:
    path = write_run(store, finished(IDS[0]))
    journal = RunLayout(path).journal(1, 0, 1)
    journal.write_bytes(b"")
    write_status(RunLayout(path), read_status(RunLayout(path)))
    os.utime(RunLayout(path).status_json, (time.time() - 3600,) * 2)
    journal.unlink()
    shown(store)
    with open_reader(store) as reader:
        assert reader.rows("SELECT id FROM gen.runs") == [(IDS[0],)]


def test_a_fault_of_ours_is_not_called_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(store, finished(IDS[0]))
    for fault in (TypeError, ValueError, KeyError, AttributeError):

        def fail(run: object, fault: type[Exception] = fault) -> None:
            raise fault("a bug")

        with monkeypatch.context() as patch:
            patch.setattr(loading, "rows_of", fail)
            with pytest.raises(fault, match="a bug"):
                open_reader(store)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_run_without_permission_is_named_so(store: Store) -> None:
    write_run(store, finished(IDS[0]))
    path = write_run(store, finished(IDS[1]))
    (path / "run.json").chmod(0)
    with open_reader(store) as reader:
        assert values(reader) == {IDS[0]: 1.848}
        assert "cannot be read: no permission" in reader.warnings[0]


def test_a_run_on_a_broken_disk_is_named_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in IDS[:2]:
        write_run(store, finished(run))
    read = loading.read_listed

    def broken(path: Path, *, store_root: Path) -> object:
        if path.name.endswith(IDS[1]):
            raise OSError(errno.EACCES, "Permission denied")
        return read(path, store_root=store_root)

    monkeypatch.setattr(loading, "read_listed", broken)
    with open_reader(store) as reader:
        assert values(reader) == {IDS[0]: 1.848}
        assert reader.warnings == (
            f"exp=baseline/run={IDS[1]} is left out: it cannot be read: no permission",
        )
