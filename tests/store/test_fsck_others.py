"""Media, artifacts, other writers: what a run holds beside the points of rank 0."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expdb.store import owner, series, writers
from expdb.store.artifacts import add_artifact, read_artifacts, sources
from expdb.store.files import write_json
from expdb.store.fsck.trash import Trash
from expdb.store.journal import encode_frame, encode_header
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.media import read_media
from expdb.store.media_journal import encode_record
from expdb.store.recorder import Recorder
from expdb.store.runs import read_run
from tests.store.fsck_made import check, finished, flip, points, repair, said, whole

MakeRun = Callable[..., RunLayout]


def media_journal(layout: RunLayout, number: int = 1) -> Path:
    """A journal of two texts that nobody has sealed."""
    path = layout.media_journal(1, 0, number)
    data = encode_header(run=layout.id, attempt=1, rank=0)
    for seq in (1, 2):
        data += encode_frame(seq, encode_record("text", "sample", seq, 9, {"text": f"hello {seq}"}))
    path.write_bytes(data)
    return path


def texts(layout: RunLayout) -> list[str]:
    found = read_media(layout.root, "text", problems=[])
    return sorted(found["text"].to_pylist())


def test_media_that_a_killed_run_left_is_sealed(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    path = media_journal(layout)
    assert check(store_root).findings == []
    path.write_bytes(path.read_bytes() + b"\xdb\xe7")
    assert said(check(store_root).findings) == ["damaged attempts/1/media-0.1.wal"]
    [row], left = repair(store_root)
    assert (row.result, left.findings, texts(layout)) == ("mended", [], ["hello 1", "hello 2"])
    assert check(store_root).findings == []


def test_damaged_media_are_set_aside(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    for number in (1, 2):
        media_journal(layout, number)
    repair(store_root)
    first, second = sorted(layout.media.iterdir())
    flip(first, 60)
    header = len(encode_header(run=layout.id, attempt=1, rank=0))
    flip(media_journal(layout, 3), header + 30)  # in its first record
    repair(store_root)
    rows, left = repair(store_root)
    assert left.problems == []
    assert texts(layout) == ["hello 1", "hello 2", "hello 2"]
    assert not first.exists()
    assert second.exists()
    trash = {path.name for path in (store_root / ".expdb/trash").rglob("*") if path.is_file()}
    assert {first.name, "media-0.3.wal.damaged", "media-0.3.wal.damaged.json"} <= trash
    assert rows == []


@pytest.fixture
def artifact(make_run_dir: MakeRun, tmp_path: Path) -> RunLayout:
    layout = finished(make_run_dir)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    add_artifact(layout, "table", sources(tmp_path / "table.csv"), attempt=1)
    assert len(read_artifacts(layout, [])) == 1
    return layout


def test_an_artifact_without_a_line_is_named(artifact: RunLayout, store_root: Path) -> None:
    """Its writer was cut off, or an emptied file lost the line: which, no one can tell."""
    artifact.artifacts_jsonl.write_bytes(b"")
    (row,) = check(store_root).findings
    assert said([row]) == ["unfinished artifacts.jsonl"]
    assert row.what == "artifacts.jsonl: no line names artifacts/table, left alone"
    repair(store_root)
    assert (artifact.artifacts / "table").read_text() == "a,b\n1,2\n"


def test_a_damaged_artifact_is_named_and_stays(artifact: RunLayout, store_root: Path) -> None:
    assert check(store_root).findings == []
    flip(artifact.artifacts / "table", 1)
    before = whole(store_root)
    rows, left = repair(store_root)
    assert said(rows) == ["damaged artifacts/table"]
    assert rows[0].what == "artifacts/table: differs from its SHA-256"
    assert [item.result for item in rows] == ["kept"]
    assert len(left.problems) == 1
    assert whole(store_root).keys() == before.keys()
    (artifact.artifacts / "table").unlink()
    assert said(check(store_root).findings) == ["missing artifacts/table"]


def test_a_line_of_artifacts_that_leads_out_is_not_followed(
    artifact: RunLayout, store_root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "secret"
    outside.write_text("x")
    data = artifact.artifacts_jsonl.read_text()
    for path in (str(outside), "artifacts/../../../../secret", "run.json"):
        artifact.artifacts_jsonl.write_text(data.replace('"artifacts/table"', f'"{path}"'))
        assert said(check(store_root).problems)[0] == "damaged artifacts.jsonl"


def other_writer(layout: RunLayout, rank: int, who: dict[str, Any], steps: range) -> Recorder:
    """Another writer of a run, with a journal; its summary is on disk."""
    write_json(layout.rank_owner(1, rank), who)
    item = Recorder(layout, run=layout.id, attempt=1, rank=rank)
    for step in steps:
        item.write(("rank/x",), (float(step),), step, step)
    item.book.save(layout.rank_series(1, rank))
    return item


def test_a_live_writer_beside_a_finished_run_is_left_alone(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = finished(make_run_dir)
    item = other_writer(layout, writers.ATTACHED, owner.describe(), range(5))
    journal = layout.journal(1, writers.ATTACHED, 1)
    with journal.open("ab") as file:
        file.write(b"\xdb\xe7")  # a frame that is being written at this moment
    assert check(store_root).findings == []
    flip(layout.checkpoint(20) / "model.pt", 2)
    before = journal.read_bytes()
    _, left = repair(store_root)
    assert left.problems == []
    assert journal.read_bytes() == before
    assert layout.rank_owner(1, writers.ATTACHED).exists()
    item.abandon()


def test_what_a_dead_writer_left_is_mended(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    dead = {**owner.describe(), "start": -1}
    item = other_writer(layout, writers.ATTACHED, dead, range(5))
    item.abandon()
    assert check(store_root).findings == []
    layout.rank_series(1, writers.ATTACHED).write_bytes(b"{")
    flip(layout.journal(1, writers.ATTACHED, 1), 20)
    found = said(check(store_root).problems)
    assert found == [
        "damaged attempts/1/rank-1000000.1.wal",
        "damaged attempts/1/rank-1000000.series.json",
    ]
    _, left = repair(store_root)
    assert left.problems == []
    assert len([row for row in points(layout) if row[0] == "rank/x"]) == 5
    run = read_run(layout.root, store_root=store_root)
    assert (run.series["rank/x"].count, run.series["val/loss"].count) == (5, 20)
    assert check(store_root).findings == []
    assert series.load(layout.series_json)["rank/x"].last_step == 4


def test_trash_takes_nothing_twice_and_nothing_unreadable(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout, trash = finished(make_run_dir), Trash(StoreLayout(store_root))
    assert not trash.move(layout.root / "nothing")
    assert not trash.copy(layout.root / "nothing")
    assert trash.folder is None
    path = layout.root / "x"
    for text in ("1", "2"):
        path.write_text(text)
        assert trash.move(path)
    assert trash.folder is not None
    kept = sorted(one.read_text() for one in trash.folder.rglob("x*"))
    assert kept == ["1", "2"]
    second = Trash(StoreLayout(store_root))
    path.write_text("3")
    second.copy(path)
    assert second.folder != trash.folder


def test_runs_that_are_there_twice_are_named(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    shutil.copytree(layout.root, store_root / "exp=other" / layout.root.name)
    found = check(store_root).problems
    assert {item.path for item in found} == {
        f"exp=other/{layout.root.name}",
        f"exp=other/{layout.root.name}/run.json",
    }
    before = whole(store_root)
    rows, _ = repair(store_root)
    assert {row.result for row in rows} == {"kept"}
    assert whole(store_root) == before


def test_names_that_are_no_text_are_shown(store_root: Path) -> None:
    os.makedirs(os.fsencode(store_root) + b"/exp=\xff\x1b[31m/x")
    [found] = check(store_root).findings
    assert found.kind == "stray"
    assert found.path.encode("utf-8", "surrogateescape") == b"exp=\xff\x1b[31m"


@pytest.mark.parametrize(
    "name",
    ["status.json", "series.json", "config.json", "marks.jsonl", "evals/e1.json",
     "attempts/1/pin.json", "attempts/1/rank-0.json", "points/part-a1-r0-1-21.parquet"],
)  # fmt: skip
def test_a_folder_in_the_place_of_a_file(
    make_run_dir: MakeRun, store_root: Path, name: str
) -> None:
    layout = finished(make_run_dir)
    before = points(layout)
    (layout.root / name).unlink()
    (layout.root / name / "inside").mkdir(parents=True)
    [found] = check(store_root).problems
    assert found.path == f"exp=baseline/{layout.root.name}/{name}"
    _, left = repair(store_root)
    assert len(left.problems) == name.startswith("points/")
    assert points(layout) == before or name.startswith("points/")
    assert list((store_root / ".expdb/trash").rglob("inside")) != []


def test_a_run_on_another_file_system_is_mended(
    make_run_dir: MakeRun, store_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == store_root.stat().st_dev:
        pytest.skip("there is no second file system")
    layout = finished(make_run_dir)
    away = other / layout.id
    shutil.move(layout.root, away)
    try:
        layout.root.symlink_to(away)
        flip(layout.checkpoint(20) / "model.pt", 3)
        (layout.evals / "e1.json").write_bytes(b"")
        rows, left = repair(store_root)
        assert {row.result for row in rows} == {"set aside in trash"}
        assert left.problems == []
        assert not layout.checkpoint(20).exists()
        assert list((store_root / ".expdb/trash").rglob("model.pt")) != []
    finally:
        shutil.rmtree(away)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_named_and_stays(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    [part] = layout.points.iterdir()
    for path in (part, layout.attempts, layout.checkpoint(20) / "model.pt"):
        path.chmod(0)
        rows, _ = repair(store_root)
        path.chmod(0o755)
        assert [row.result for row in rows] == ["kept"]
    assert check(store_root).findings == []
