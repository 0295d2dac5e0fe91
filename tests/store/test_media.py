"""Media: one answer before, while and after sealing, whatever is killed or full."""

from __future__ import annotations

import errno
import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from expdb.errors import BadInput, Corrupt
from expdb.model import Attempt, Pin, RunState
from expdb.store import appending, media_recorder
from expdb.store.attempts import write_pin
from expdb.store.layout import RunLayout
from expdb.store.media import MediaKey, media_keys, read_media
from expdb.store.media_journal import media_journals, read_journal
from expdb.store.media_parts import KINDS, schema
from expdb.store.media_recorder import MediaRecorder
from expdb.store.recover import recover
from expdb.store.runs import read_run

MakeRun = Callable[..., RunLayout]
HIST = {
    "count": 3, "nan": 1, "pos_inf": 0, "neg_inf": 2, "min": -1.5, "max": 2.0, "mean": 0.1,
    "std": 1.0, "edges": [-1.5, 0.25, 2.0], "counts": [1, 2],
}  # fmt: skip
EMPTY = {**HIST, "min": None, "max": None, "mean": None, "std": None, "edges": [], "counts": []}
BODIES: dict[str, list[tuple[dict[str, Any], bytes]]] = {
    "text": [({"text": 'a\n"é\U0001f600\x00\x1b'}, b""), ({"text": ""}, b"")],
    "hist": [(HIST, b""), (EMPTY, b"")],
    "table": [({"columns": ["a", "b b"], "num_rows": 1, "rows": '[[1,"NaN"]]'}, b"")],
    "image": [
        ({"caption": "c", "format": "png", "width": 2, "height": 1}, bytes(range(256)) * 3),
        ({"caption": "", "format": "jpeg", "width": 1, "height": 1}, b"\xdb\xe7" * 20),
    ],
}
FILES = ("replace", "rename", "unlink", "fsync", "mkdir")


@pytest.fixture
def layout(make_run_dir: MakeRun, dead: dict[str, Any]) -> RunLayout:
    """A run whose process is gone."""
    made = make_run_dir(who=dead)
    write_pin(made, Attempt(number=1, pin=Pin()))
    return made


def writer(layout: RunLayout, attempt: int = 1, rank: int = 0, **more: Any) -> MediaRecorder:
    return MediaRecorder(layout, run=layout.id, attempt=attempt, rank=rank, **more)


def add_text(recorder: MediaRecorder, text: str, *, key: str = "k", step: int = 1) -> None:
    recorder.add("text", key, step, 5, {"text": text}, b"")


def texts(layout: RunLayout, **more: Any) -> list[str]:
    found: list[str] = read_media(layout.root, "text", **more)["text"].to_pylist()
    return found


def everything(layout: RunLayout) -> dict[str, list[dict[str, Any]]]:
    return {kind: read_media(layout.root, kind).to_pylist() for kind in KINDS}


# ------------------------------------------------------------------------------------ one answer


def test_every_kind_reads_the_same_before_and_after_it_is_sealed(layout: RunLayout) -> None:
    recorder = writer(layout, rank=3)
    for kind, bodies in BODIES.items():
        for number, (body, blob) in enumerate(bodies):
            recorder.add(kind, f"{kind}/é", 9 - number, 1234, body, blob)
    live = everything(layout)
    seq = 0
    for kind, bodies in BODIES.items():
        wanted = []
        for number, (body, blob) in enumerate(bodies):
            seq += 1
            head = {"key": f"{kind}/é", "step": 9 - number, "time": 1234}
            more = {"image": blob} if kind == "image" else {}
            wanted.insert(0, {**head, "attempt": 1, "rank": 3, "seq": seq, **body, **more})
        assert live[kind] == wanted
    recorder.close()
    assert everything(layout) == live
    assert media_journals(layout, 1) == {}
    assert sorted(path.name for path in layout.media.iterdir()) == sorted(
        f"{kind}-a1-r3-1.parquet" for kind in KINDS
    )


def test_other_engines_read_the_sealed_files(layout: RunLayout, store_root: Path) -> None:
    recorder = writer(layout)
    for step in range(3):
        for kind, bodies in BODIES.items():
            for body, blob in bodies:
                recorder.add(kind, "k", step, 0, body, blob)
    recorder.close()
    for kind in KINDS:
        glob = f"{store_root}/exp=*/run=*/media/{kind}-*.parquet"
        rows = duckdb.sql(f"SELECT * FROM read_parquet('{glob}', hive_partitioning=true)")
        assert [name for name in rows.columns if name not in ("exp", "run")] == schema(kind).names
        assert len(rows.fetchall()) == 3 * len(BODIES[kind])
    found = duckdb.sql(
        f"SELECT sum(list_sum(counts)), count(mean), any_value(run) FROM '{store_root}/exp=*/run=*"
        "/media/hist-*.parquet' WHERE len(edges) = len(counts) + 1 AND key = 'k' AND step < 2"
    ).fetchall()
    assert found == [(6, 2, layout.id)]
    file = pq.ParquetFile(layout.media / "image-a1-r0-1.parquet")
    names = file.schema_arrow.names
    used = {names[at]: file.metadata.row_group(0).column(at) for at in range(len(names))}
    assert used["image"].compression == "UNCOMPRESSED"
    assert used["key"].compression == "ZSTD"


def test_samples_at_one_step_all_stay(layout: RunLayout) -> None:
    recorder = writer(layout)
    for text in "cab":
        add_text(recorder, text)
    add_text(recorder, "first", step=0)
    assert texts(layout) == ["first", "c", "a", "b"]
    recorder.close()
    assert texts(layout) == ["first", "c", "a", "b"]
    assert media_keys(layout.root, problems=[]) == (
        MediaKey(kind="text", key="k", count=4, first_step=0, last_step=1),
    )


def test_a_resumed_attempt_hides_what_it_does_again(layout: RunLayout) -> None:
    for number, resumed in ((1, None), (2, 2), (3, None)):
        layout.attempt(number).mkdir(exist_ok=True)
        write_pin(layout, Attempt(number=number, pin=Pin(), resumed_from=resumed))
        recorder = writer(layout, number)
        for step in range(number - 1, 5 - number):
            add_text(recorder, f"a{number}s{step}", step=step)
        if number != 2:
            recorder.close()
    # Attempt 2 hides steps 3 and more of the first, and stands at 1 and 2; attempt 3 logged step 2
    # to 1: nothing.
    assert texts(layout) == ["a1s0", "a2s1", "a2s2"]
    every = ["a1s0", "a1s1", "a2s1", "a1s2", "a2s2", "a1s3"]
    assert texts(layout, attempts=True) == every
    assert read_media(layout.root, "text", columns=["step", "text"]).to_pylist()[1] == {
        "step": 1,
        "text": "a2s1",
    }


def test_a_run_without_media_has_none(layout: RunLayout) -> None:
    assert media_keys(layout.root, problems=[]) == ()
    for kind in KINDS:
        assert read_media(layout.root, kind).schema == schema(kind)
    writer(layout).close()
    assert not layout.media.exists()
    assert media_journals(layout, 1) == {}


# ------------------------------------------------------------------------------------- by size


def test_a_full_journal_is_sealed_beside_training(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media_recorder, "SEAL_BYTES", 4000)
    recorder = writer(layout)
    counts, stop = [], threading.Event()

    def read() -> None:
        while not stop.is_set():
            counts.append(len(texts(layout)))

    reader = threading.Thread(target=read)
    reader.start()
    told = []
    for number in range(120):
        add_text(recorder, str(number) * 200, step=number)
        if number % 20 == 0:
            told.append(len(texts(layout)))
    stop.set()
    reader.join()
    recorder.close()
    assert told == [1, 21, 41, 61, 81, 101]
    assert counts == sorted(counts)
    assert texts(layout) == [str(number) * 200 for number in range(120)]
    assert len(list(layout.media.iterdir())) > 3
    assert media_journals(layout, 1) == {}


# ------------------------------------------------------------------------------------ a full disk


def test_media_wait_for_a_full_disk_and_are_written_later(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    full = [False]
    real = os.write

    def write(fd: int, data: bytes) -> int:
        if full[0]:
            return real(fd, data[: len(data) // 2])
        return real(fd, data)

    monkeypatch.setattr(appending.os, "write", write)
    monkeypatch.setattr(media_recorder, "RETRY_S", 0.0)
    recorder = writer(layout, on_trouble=said.append)
    add_text(recorder, "0", step=0)
    full[0] = True
    for step in (1, 2, 3):
        add_text(recorder, str(step), step=step)
    assert texts(layout) == ["0"]
    assert recorder.num_waiting == 3
    with pytest.raises(OSError, match="fit"):
        recorder.close()
    full[0] = False
    add_text(recorder, "4", step=4)
    assert texts(layout) == ["0", "1", "2", "3", "4"]
    assert (recorder.num_waiting, recorder.num_dropped) == (0, 0)
    recorder.close()
    assert texts(layout) == ["0", "1", "2", "3", "4"]
    assert said[0].startswith("store: no space left; media wait in memory")
    assert said[-1] == "store is back: 3 waiting media written"


def test_past_the_bound_media_are_dropped_and_counted(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media_recorder, "WAITING_BYTES", 1000)
    said: list[str] = []
    layout.attempt(1).rename(layout.root / "away")
    recorder = writer(layout, on_trouble=said.append)
    for number in range(5):
        add_text(recorder, "x" * 300, step=number)
    assert (recorder.num_waiting, recorder.num_dropped) == (2, 3)
    (layout.root / "away").rename(layout.attempt(1))
    recorder.close()
    assert len(texts(layout)) == 2
    assert "dropped, and counted" in said[1]


def test_what_cannot_be_sealed_stays_in_its_journal(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = writer(layout)
    add_text(recorder, "kept")
    real = media_recorder.seal_journal

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(media_recorder, "seal_journal", refuse)
    with pytest.raises(OSError, match="space"):
        recorder.close()
    assert texts(layout) == ["kept"]
    monkeypatch.setattr(media_recorder, "seal_journal", real)
    recorder.close()
    recorder.close()
    assert texts(layout) == ["kept"]
    with pytest.raises(BadInput, match="has ended"):
        add_text(recorder, "late")


# -------------------------------------------------------------------------------------- damage


def journal_of(layout: RunLayout, count: int = 4) -> Path:
    recorder = writer(layout)
    for step in range(count):
        add_text(recorder, f"text {step}", step=step)
    [path] = media_journals(layout, 1).values()
    return path


def test_a_torn_end_is_cut_and_the_rest_kept(layout: RunLayout, store_root: Path) -> None:
    path = journal_of(layout)
    path.write_bytes(path.read_bytes()[:-3])
    assert texts(layout) == ["text 0", "text 1", "text 2"]
    recover(store_root, layout)
    assert texts(layout) == ["text 0", "text 1", "text 2"]
    assert path.with_name(f"{path.name}.torn").exists()
    assert read_run(layout.root, store_root=store_root).problems == ()


def test_damage_is_named_and_what_stands_behind_it_is_read(
    layout: RunLayout, store_root: Path
) -> None:
    path = journal_of(layout)
    path.write_bytes(path.read_bytes().replace(b"text 1", b"text X"))
    problems: list[str] = []
    assert texts(layout, problems=problems) == ["text 0", "text 2", "text 3"]
    said = "media-0.1.wal: damaged after 1 whole frames; 2 of 2 behind it could be read"
    assert problems == [said]
    with pytest.raises(Corrupt, match="damaged after 1"):
        texts(layout)
    recover(store_root, layout)
    assert texts(layout) == ["text 0", "text 2", "text 3"]
    kept = f"{said}; kept as attempts/1/media-0.1.wal.damaged"
    assert read_run(layout.root, store_root=store_root).problems == (kept,)


def test_records_that_make_no_sense_are_no_media(layout: RunLayout) -> None:
    recorder = writer(layout)
    recorder.add("text", "k", 1, 0, {"text": 3})
    recorder.add("text", "k", 2, 0, {"text": "good"})
    recorder.add("film", "k", 3, 0, {"of": "a later expdb"})
    recorder.add("hist", "k", 3, 0, {**HIST, "mean": math.nan})
    problems: list[str] = []
    assert texts(layout, problems=problems) == ["good"]
    assert problems == ["media-0.1.wal: 1 records make no sense"]
    assert media_keys(layout.root, problems=problems)[0].count == 1
    recorder.close()
    assert texts(layout) == ["good"]


def test_a_damaged_file_is_left_out_and_named(layout: RunLayout) -> None:
    for attempt in (1, 2):
        layout.attempt(attempt).mkdir(exist_ok=True)
        recorder = writer(layout, attempt)
        add_text(recorder, f"of {attempt}", step=attempt)
        recorder.close()
    part = layout.media / "text-a1-r0-1.parquet"
    part.write_bytes(part.read_bytes()[:100])
    (layout.media / "text-a2-r0-7.parquet").write_bytes(b"")
    (layout.media / ".tmp-text-a2-r0-8.parquet-1234").write_bytes(b"half")
    problems: list[str] = []
    assert texts(layout, problems=problems) == ["of 2"]
    assert [text.split(" is ")[0] for text in problems] == [
        "media/text-a1-r0-1.parquet",
        "media/text-a2-r0-7.parquet",
    ]
    with pytest.raises(Corrupt, match=r"text-a1-r0-1\.parquet is damaged"):
        texts(layout)


def test_a_live_run_is_not_sealed_by_others(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = make_run_dir()
    recorder = writer(layout)
    add_text(recorder, "a")
    assert recover(store_root, layout) is RunState.RUNNING
    assert len(media_journals(layout, 1)) == 1
    add_text(recorder, "b", step=2)
    recorder.sync()
    assert texts(layout) == ["a", "b"]
    recorder.close()


def test_a_fork_leaves_the_journal_to_its_parent(layout: RunLayout) -> None:
    recorder = writer(layout)
    add_text(recorder, "a")
    child = os.fork()
    if child == 0:
        recorder.abandon()
        try:
            add_text(recorder, "of the child", step=2)
        except BadInput:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    add_text(recorder, "b", step=3)
    assert texts(layout) == ["a", "b"]
    recorder.close()


def test_a_journal_of_a_newer_expdb_is_refused_by_name(layout: RunLayout) -> None:
    path = journal_of(layout)
    data = bytearray(path.read_bytes())
    data[6] = 9
    path.write_bytes(data)
    problems: list[str] = []
    assert read_journal(path, problems) == []
    assert "format 9" in problems[0]
