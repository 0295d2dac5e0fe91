"""Event files: what an export writes is read back under the tags that TensorBoard's users know."""

from __future__ import annotations

import gzip
import math
import struct

import pytest

from expdb import tfevents
from expdb.errors import BadInput, Refused
from expdb.importers.found import Skipped
from expdb.index.reader import open_reader
from expdb.query.export import Export
from expdb.report.export_tensorboard import write_runs
from expdb.store.layout import RunLayout
from expdb.store.recorder import Recorder
from tests.query.made import make_run, write_run

BEGAN_MS = 1_795_000_000_000


def made(place, steps):
    run = make_run("k3f9x2m7qd")
    write_run(place.store, run)
    recorder = Recorder(RunLayout(place.root / place.run(run.id).path), run=run.id, attempt=1)
    for step, values in enumerate(steps):
        recorder.write(tuple(values), tuple(values.values()), step, BEGAN_MS + step)
    recorder.close()
    return run


def written(place, out, *, force=False):
    with open_reader(place.store, build=False) as reader:
        write_runs(out, Export(reader, ["k3f9x2m7qd"]), place.store, force=force)
    (file,) = out.glob("*/*tfevents*")
    return file


def events(file):
    with file.open("rb") as opened:
        return [tfevents.decoded(data) for data in tfevents.records(opened)]


def test_an_event_file_is_read_back_with_the_tags_of_tensorboard(place, other, tmp_path):
    run = made(
        place,
        [
            {"train/loss": 2.5, "train/grad_norm": 0.25, "train/token_acc": 0.5, "own name": 1e300},
            {"train/loss": math.nan, "val/loss": -0.0},
        ],
    )
    file = written(place, tmp_path / "tb")
    assert file.parent.name == f"{run.experiment}-{run.id}"
    first, *rest = events(file)
    assert (first.version, first.step, first.values) == ("brain.Event:2", 0, {})
    assert [(event.step, event.time_s) for event in rest] == [
        (0, BEGAN_MS / 1000), (1, BEGAN_MS / 1000 + 0.001),
    ]  # fmt: skip
    found = other.take(file)
    assert (found.format, found.skipped) == ("tensorboard", ())
    assert found.runs[0].experiment == file.parent.name
    rows = other.ask("select key, step, value from points order by step, key")
    assert [repr(row) for row in rows] == [
        "('Grad/global_norm', 0, 0.25)", "('Loss/train', 0, 2.5)", "('TokenAcc/train', 0, 0.5)",
        "('own name', 0, inf)", "('Loss/train', 1, nan)", "('Loss/val', 1, -0.0)",
    ]  # fmt: skip


def test_a_metric_that_has_such_a_tag_for_a_name_keeps_it(place, tmp_path):
    made(place, [{"train/loss": 2.5, "Loss/train": 3.5}])
    assert events(written(place, tmp_path / "tb"))[1].values == {
        "train/loss": 2.5,
        "Loss/train": 3.5,
    }


def test_nothing_is_replaced_unasked_and_nothing_goes_into_the_store(place, tmp_path):
    made(place, [{"train/loss": 2.5}])
    file = written(place, tmp_path / "tb")
    with pytest.raises(Refused, match="is there already"):
        written(place, tmp_path / "tb")
    assert written(place, tmp_path / "tb", force=True) == file
    with pytest.raises(Refused, match="lies in the store"):
        written(place, place.root / "tb")
    with pytest.raises(BadInput, match="does not exist"):
        written(place, tmp_path / "no" / "tb")
    with pytest.raises(BadInput, match="wants a folder"):
        written(place, file)


def test_the_checksum_is_that_of_the_standard():
    assert tfevents.crc32c(b"123456789") == 0xE3069283
    assert tfevents.record(b"")[8:12] == bytes.fromhex("29039807")


def test_a_damaged_file_gives_what_can_be_read(place, tmp_path):
    parts = [
        tfevents.record(tfevents.encoded(tfevents.Event(1.795e9, step, {"loss": 1.0 + step})))
        for step in range(4)
    ]
    wrong = parts[1][:-1] + bytes([parts[1][-1] ^ 1])
    path = tmp_path / "run1" / "events.out.tfevents.1"
    path.parent.mkdir()
    path.write_bytes(parts[0] + wrong + parts[2] + tfevents.record(b"\x2a\x7f") + parts[3][:-2])
    found = place.take(path)
    assert place.ask("select step, value from points order by all") == [(0, 1.0), (2, 3.0)]
    assert found.skipped == (
        Skipped("a record with another checksum", 1, 2),
        Skipped("a record that is no event", 1, 4),
        Skipped("a record that was cut off", 1, 5),
    )
    path.write_bytes(parts[0] + b"\0" * 12 + parts[2])
    assert place.take(path).skipped == (Skipped("all behind a damaged length", 1, 2),)


def test_a_packed_file_that_was_cut_off_gives_its_beginning(place, tmp_path):
    whole = b"".join(
        tfevents.record(tfevents.encoded(tfevents.Event(1.795e9, step, {"loss": 1.0})))
        for step in range(4000)
    )
    path = tmp_path / "events.out.tfevents.1.gz"
    path.write_bytes(gzip.compress(whole, compresslevel=0)[:-20])
    found = place.take(path)
    assert [(one.reason, one.count) for one in found.skipped] == [("a record that was cut off", 1)]
    assert found.runs[0].num_points > 2000


def test_a_value_in_a_tensor_is_one_and_a_picture_is_none():
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    tensor = b"\x08\x02" + field(4, struct.pack("<d", 0.1))
    values = field(1, field(1, b"a") + field(8, tensor)) + field(1, field(1, b"b") + field(4, b""))
    event = tfevents.decoded(b"\x10\x07" + field(5, values))
    assert (event.step, event.values, event.num_others) == (7, {"a": 0.1}, 1)
