"""Case A30 exactly, and damage to the files of the store itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import expdb
from expdb.cli.main import main
from expdb.index.reader import open_reader
from expdb.query.rank import ranking
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.parts import read_list
from expdb.store.recorder import Recorder
from expdb.store.recover import run_lock
from expdb.store.status import Status, write_status
from expdb.store.store import open_store
from tests.faults.counting import Tally
from tests.store.fsck_made import check, finished, name_ref, points, repair

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]


def listed(root: Path) -> tuple[dict[str, tuple[object, ...]], tuple[str, ...]]:
    """Run -> what a list and a ranking show of it; and the warnings."""
    with open_reader(open_store(root)) as reader:
        rows = {row[0]: row for row in reader.rows("SELECT id, name, state, last_step FROM runs")}
        values = {row.id: row.value for row in ranking(reader, "val/loss").rows}
        return {run: (*row, values.get(run)) for run, row in rows.items()}, reader.warnings


def files_of(root: Path) -> dict[str, bytes]:
    """Every file of the runs, with its content."""
    found = (path for path in root.glob("exp=*/**/*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def second_part(layout: RunLayout) -> Path:
    """Give a run a second part, and return it."""
    item = Recorder(layout, run=layout.id, attempt=1, rank=0)
    item._seq = item._sealed_seq = read_list(layout.parts_list(1, 0))[-1].last_seq
    for step in range(20, 30):
        item.write(("train/loss", "val/loss"), (float(step), 0.5), step, 0)
    item.close()
    item.book.save(layout.series_json)
    write_status(layout, Status(state="finished", last_step=29))
    return layout.points / read_list(layout.parts_list(1, 0))[-1].file


def test_case_a30_one_damaged_file_hides_no_other_run(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    objective = {"metric": "val/loss", "mode": "min"}
    layouts = [finished(make_run_dir, objective=objective) for _ in range(10)]
    hurt, headless = layouts[3], layouts[7]
    last = second_part(hurt)
    with_all = points(hurt)
    before, warnings = listed(store_root)
    assert (len(before), warnings) == (10, ())

    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    (hurt.points / "part-a1-r0-90-91.parquet").write_bytes(b"")
    (hurt.points / "part-a1-r0-92-93.parquet").write_bytes(b"PAR1")
    (hurt.points / ".tmp-part-a1-r0-94-95.parquet-0123abcd").write_bytes(data[:100])
    faults.fault(4)
    readable = points(hurt)
    assert readable == [row for row in with_all if row[1] < 20]  # the first part
    faults.compare(readable, [row for row in points(hurt) if row[1] < 20])

    for _ in range(2):  # nine healthy runs, and the damaged one by what was counted of it
        rows, warnings = listed(store_root)
        assert rows == before
    long_ago = time.time() - 3600  # what changed a moment ago is read again at each look
    os.utime(headless.status_json, (long_ago, long_ago))
    listed(store_root)
    headless.run_json.write_bytes(b"")
    faults.fault()
    there = files_of(store_root)
    healthy = {run: row for run, row in before.items() if run != headless.id}
    assert listed(store_root)[0] == before  # the index has read it when it was whole
    capsys.readouterr()

    # Listing, ranking, opening, building the index again: as before, and the damage is named.
    said = []
    for _ in range(2):
        assert main(["--store", str(store_root), "reindex"]) == 5
        said.append(capsys.readouterr().err)
    assert all("run.json is empty" in text and headless.id in text for text in said)
    assert all("indexed 9 runs" in text for text in said)
    for _ in range(2):
        rows, warnings = listed(store_root)
        assert rows == healthy
        assert len(warnings) == 1
        assert headless.id in warnings[0]
        assert "run.json is empty" in warnings[0]
    assert main(["--store", str(store_root), "ls"]) == 0
    assert main(["--store", str(store_root), "rank", "val/loss"]) == 0
    capsys.readouterr()
    assert main(["--store", str(store_root), "show", hurt.id]) == 0
    shown = capsys.readouterr()
    assert last.name in shown.out + shown.err
    store = expdb.open(store_root)
    with pytest.raises(expdb.ExpdbError, match=f"{last.name} is damaged"):
        store.series("val/loss", runs=[hurt.id])
    assert store.series("val/loss", runs=[layouts[0].id]).num_rows == 20
    assert files_of(store_root) == there  # nothing goes, and nothing changes, by itself

    named = {Path(item.path).name for item in check(store_root).problems}
    assert {last.name, "part-a1-r0-90-91.parquet", "part-a1-r0-92-93.parquet"} <= named
    assert headless.run_json.name in named
    leftovers = {Path(item.path).name for item in check(store_root).findings}
    assert ".tmp-part-a1-r0-94-95.parquet-0123abcd" in leftovers
    repair(store_root)
    faults.compare(readable, points(hurt))
    rows, _ = listed(store_root)
    assert {run: row for run, row in rows.items() if run != hurt.id} == {
        run: row for run, row in healthy.items() if run != hurt.id
    }
    # What other engines read is whole again.
    for part in hurt.points.glob("part-*.parquet"):
        assert pq.read_table(part).num_rows


@pytest.mark.parametrize("kind", ["refs/baseline.json", "ops/*/*.json", "clock", "locks/*.lock"])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut"),
        pytest.param(b'{"run": 3}', id="fields"),
        pytest.param(b"\0" * 50, id="zeroed", marks=pytest.mark.soak),
        pytest.param(b"\x89PNG\r\n", id="foreign", marks=pytest.mark.soak),
        pytest.param(b"[]", id="list", marks=pytest.mark.soak),
    ],
)
def test_a_damaged_file_of_the_store_hides_no_run(
    make_run_dir: MakeRun,
    store_root: Path,
    faults: Tally,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    damage: bytes,
) -> None:
    layouts = [finished(make_run_dir) for _ in range(2)]
    name_ref(store_root, "baseline", layouts[0].id)
    with run_lock(store_root, layouts[1]):
        lock = next(StoreLayout(store_root).locks.iterdir()).read_bytes()
    (StoreLayout(store_root).locks / "run-left.lock").write_bytes(lock)
    listed(store_root)
    before = points(layouts[0])
    [path] = (store_root / ".expdb").glob(kind)
    path.write_bytes(damage)
    faults.fault()
    for _ in range(2):
        rows, _ = listed(store_root)
        assert set(rows) == {layout.id for layout in layouts}
    for words in (["ls"], ["show", layouts[0].id], ["ops"], ["fsck"], ["reindex"]):
        assert main(["--store", str(store_root), *words]) in (0, 5), words
        assert "fault in expdb" not in capsys.readouterr().err, words
    if kind.startswith(("refs", "ops")):
        assert any(path.name in item.path for item in check(store_root).problems)
    assert path.read_bytes() == damage
    repair(store_root)
    faults.compare(before, points(layouts[0]))
    assert set(listed(store_root)[0]) == {layout.id for layout in layouts}
    assert kind != "ops/*/*.json" or path.read_bytes() == damage


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"\0" * 50, b"[]", b'{"format": 99}'],
    ids=["empty", "cut", "zeroed", "list", "newer"],
)
def test_a_damaged_store_json_is_named_and_nothing_is_changed(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, damage: bytes,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    finished(make_run_dir)
    path = StoreLayout(store_root).store_json
    path.write_bytes(damage)
    before = files_of(store_root)
    faults.fault()
    for words in (["ls"], ["fsck"], ["reindex"]):
        assert main(["--store", str(store_root), *words]) == 5, words
        said = capsys.readouterr().err
        assert "store" in said
        assert "fault in expdb" not in said
    with pytest.raises(expdb.ExpdbError):
        expdb.start({"expdb": {"print": "quiet"}}, store=store_root)
    assert files_of(store_root) == before
    assert path.read_bytes() == damage
