from __future__ import annotations

import json
import math
import os
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expdb.errors import Corrupt, Unsupported
from expdb.store import journal
from expdb.store.appending import JournalWriter
from expdb.store.journal import (
    JournalReader,
    encode_frame,
    encode_header,
    encode_key,
    encode_template,
)
from expdb.store.templates import Template

HEADER = encode_header(run="k3f9x2m7qd", attempt=1, rank=0)
KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
STEP = st.tuples(
    st.lists(KEYS, min_size=1, max_size=4, unique=True).map(tuple), INT64, INT64, st.integers(1, 3)
)
Row = tuple[int, int, int, tuple[str, ...], tuple[float, ...]]


def frames_of(steps: list[tuple[tuple[str, ...], int, int, int]]) -> tuple[list[bytes], list[Row]]:
    """Frames as a writer makes them, with gaps in seq, and the rows they hold."""
    known: dict[str, int] = {}
    templates: dict[tuple[str, ...], Template] = {}
    frames: list[bytes] = []
    rows: list[Row] = []
    seq = 0
    for number, (keys, step, time_ms, gap) in enumerate(steps):
        if keys not in templates:
            new = [key for key in keys if key not in known]
            known.update({key: len(known) + at for at, key in enumerate(new)})
            template = templates[keys] = Template(len(templates), keys)
            records = [encode_key(known[key], key) for key in new]
            records.append(encode_template(template.number, [known[key] for key in keys]))
            seq += 1
            frames.append(encode_frame(seq, b"".join(records)))
        template = templates[keys]
        seq += gap
        values = tuple(number + at / 7 for at in range(len(keys)))
        body = struct.pack(f"<cIqq{len(keys)}d", b"V", template.number, step, time_ms, *values)
        frames.append(encode_frame(seq, body))
        rows.append((seq, step, time_ms, keys, values))
    return frames, rows


def read(path: Path, data: bytes, after_seq: int = 0) -> tuple[JournalReader, list[Row]]:
    path.write_bytes(data)
    reader = JournalReader(path, after_seq=after_seq)
    found = [(v.seq, v.step, v.time_ms, v.keys, v.values) for v in reader]
    return reader, found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journal") / "rank-0.1.wal"


@given(st.lists(STEP, max_size=8), st.integers(0, 20))
def test_all_frames_come_back(path: Path, steps: list, after: int) -> None:
    frames, rows = frames_of(steps)
    reader, found = read(path, HEADER + b"".join(frames), after)
    assert found == [row for row in rows if row[0] > after]
    assert (reader.num_frames, reader.torn_bytes, reader.problem()) == (len(frames), 0, "")
    assert reader.header["run"] == "k3f9x2m7qd"


@given(st.lists(STEP, max_size=5), st.data())
def test_a_cut_anywhere_leaves_the_whole_frames_before_it(
    path: Path, steps: list, data: st.DataObject
) -> None:
    frames, rows = frames_of(steps)
    whole = HEADER + b"".join(frames)
    cut = data.draw(st.integers(len(HEADER), len(whole)))
    reader, found = read(path, whole[:cut])
    ends = [len(HEADER) + sum(map(len, frames[:n])) for n in range(len(frames) + 1)]
    num = max(n for n, end in enumerate(ends) if end <= cut)
    assert reader.num_frames == num
    assert found == rows_in(frames[:num], rows)
    assert reader.torn_bytes == cut - ends[num]
    assert bool(reader.problem()) == bool(reader.torn_bytes)
    assert not reader.is_damaged


@pytest.mark.parametrize("size", range(len(HEADER)))
def test_a_journal_has_its_header_from_its_first_moment(path: Path, size: int) -> None:
    path.write_bytes(HEADER[:size])
    with pytest.raises(Corrupt, match="is cut off" if size else "is empty"):
        JournalReader(path)


def rows_in(frames: list[bytes], rows: list[Row]) -> list[Row]:
    seqs = {journal.FRAME.unpack_from(frame)[2] for frame in frames}
    return [row for row in rows if row[0] in seqs]


@given(st.lists(STEP, min_size=1, max_size=4), st.data())
def test_a_flipped_bit_is_never_read_as_data(path: Path, steps: list, data: st.DataObject) -> None:
    frames, rows = frames_of(steps)
    whole = bytearray(HEADER + b"".join(frames))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    try:
        reader, found = read(path, bytes(whole))
    except (Corrupt, Unsupported):
        assert bit // 8 < len(HEADER)
        return
    end, num = len(HEADER), 0
    while bit // 8 >= len(HEADER) and bit // 8 >= end + len(frames[num]):
        end, num = end + len(frames[num]), num + 1
    bad = int(bit // 8 >= len(HEADER))  # frames behind a header that seems cut short are read too
    before, behind = rows_in(frames[:num], rows), rows_in(frames[num + bad :], rows)
    assert found[: len(before)] == before
    assert [row for row in behind if row in found] == found[len(before) :]
    assert reader.is_damaged is (num + bad < len(frames))
    if reader.is_damaged:
        assert reader.num_before_damage == num
        assert reader.num_frames + reader.num_unread == len(frames) - bad
        assert f"damaged after {num} whole frames" in reader.problem()
        if not bad or frames[num][journal.FRAME.size :].startswith(b"V"):
            assert found == before + behind
    else:
        assert reader.torn_bytes > 0


def test_every_single_bit_of_a_small_journal(path: Path) -> None:
    frames, rows = frames_of([(("loss",), 1, 5, 1), (("loss",), 2, 6, 1)])
    whole = HEADER + b"".join(frames)
    for bit in range(len(HEADER) * 8, len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        _, found = read(path, bytes(damaged))
        assert found in ([], rows[:1], rows[1:])


def test_a_zeroed_tail_is_torn(path: Path) -> None:
    frames, rows = frames_of([(("loss",), 1, 5, 1), (("loss",), 2, 6, 1)])
    reader, found = read(path, HEADER + b"".join(frames) + bytes(4096))
    assert (found, reader.torn_bytes) == (rows, 4096)
    assert reader.problem() == "rank-0.1.wal: torn at its end; all 3 whole frames kept"
    reader, found = read(path, HEADER + b"".join(frames[:2]) + bytes(len(frames[2])))
    assert (found, reader.torn_bytes) == (rows[:1], len(frames[2]))


@pytest.mark.parametrize(
    "data", [b"PAR1" + bytes(99), b"{}", bytes(50), b"EXPDBX" + bytes(50), HEADER[:-1] + b"\0"]
)
def test_a_foreign_file_is_no_journal(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=r"rank-0\.1\.wal"):
        JournalReader(path)


def test_a_newer_format_is_refused_by_name(path: Path) -> None:
    path.write_bytes(b"EXPDBJ\x02" + bytes(40))
    with pytest.raises(Unsupported, match=r"rank-0\.1\.wal has journal format 2"):
        JournalReader(path)


def test_a_seq_that_does_not_grow_ends_the_journal(path: Path) -> None:
    frames, rows = frames_of([(("loss",), 1, 5, 1), (("loss",), 2, 6, 1)])
    for again in (frames[1], frames[2]):
        reader, found = read(path, HEADER + b"".join(frames) + again)
        assert (found, reader.torn_bytes) == (rows, len(again))
        assert reader.is_damaged


def test_frames_behind_a_damage_are_read_where_their_keys_are_known(path: Path) -> None:
    """A bad sector in the middle: what it held is lost, what it defined is not guessed."""
    steps = [(("loss",), step, 5, 1) for step in range(6)]
    steps += [(("loss", "lr"), step, 5, 1) for step in range(6, 9)] + steps[:2]
    frames, rows = frames_of(steps)
    where = [journal.FRAME.unpack_from(frame)[2] for frame in frames]
    for first, last, lost in ((4, 6, 0), (7, 7, 3)):
        broken = [bytes(len(f)) if first <= n <= last else f for n, f in enumerate(frames)]
        reader, found = read(path, HEADER + b"".join(broken))
        gone = set(where[first : last + 1])
        gone |= {seq for seq, *_, keys, _ in rows if lost and keys == ("loss", "lr")}
        assert found == [row for row in rows if row[0] not in gone]
        read_behind = len(frames) - 1 - last - lost
        assert reader.problem() == (
            f"rank-0.1.wal: damaged after {first} whole frames;"
            f" {read_behind} of {read_behind + lost} behind it could be read"
        )
    reader, found = read(path, HEADER + bytes(len(frames[0])) + b"".join(frames[1:7]))
    assert found == []
    assert reader.problem().endswith("after 0 whole frames; what follows could not be read")


def test_frames_that_are_sealed_or_counted_are_passed_by_and_definitions_are_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [(("loss",), step, 5, 1) for step in range(500)]
    steps += [(("loss", "lr"), step, 5, 1) for step in range(500, 600)]
    steps += [(("loss",), step, 5, 1) for step in range(600, 1000)]
    frames, rows = frames_of(steps)
    data = HEADER + b"".join(frames)
    made: list[int] = []
    real = journal.Values
    monkeypatch.setattr(journal, "Values", lambda seq, *rest: made.append(seq) or real(seq, *rest))
    for after in (0, 1, 300, 501, 503, 998, 1001, 1002, 5000):
        made.clear()
        reader, found = read(path, data, after)
        assert found == [row for row in rows if row[0] > after]
        assert made == [row[0] for row in found]
        assert (reader.num_frames, reader.problem()) == (len(frames), "")


@given(st.data())
def test_damage_among_the_frames_that_are_passed_by_hides_none_after_them(
    path: Path, data: st.DataObject
) -> None:
    frames, rows = frames_of([(("loss",), step, 5, 1) for step in range(700)])
    whole = bytearray(HEADER + b"".join(frames))
    first, after = len(HEADER) + len(frames[0]), data.draw(st.integers(10, 690))
    bit = data.draw(st.integers(first * 8, (first + (after - 2) * len(frames[1])) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    _, found = read(path, bytes(whole), after)
    assert found == [row for row in rows if row[0] > after]


@pytest.mark.parametrize(
    "payload",
    [
        struct.pack("<cIqqd", b"V", 7, 1, 1, 0.5),
        encode_template(0, [3]),
        struct.pack("<cIqq", b"V", 0, 1, 1),
        b"X",
        b"Q" + bytes(20),
        struct.pack("<cIH", b"K", 0, 1) + b"\xff",
    ],
)
def test_a_whole_frame_without_sense_ends_the_journal(path: Path, payload: bytes) -> None:
    frames, rows = frames_of([(("loss",), 1, 5, 1)])
    reader, found = read(path, HEADER + b"".join(frames) + encode_frame(9, payload))
    assert found == rows
    assert reader.is_damaged


def test_the_bytes_are_those_of_the_format(tmp_path: Path) -> None:
    """Read without any code of ours: magic, length, seq, payload, CRC32 over all before."""
    path = tmp_path / "rank-0.1.wal"
    writer = JournalWriter(path, run="k3f9x2m7qd", attempt=2, rank=3)
    writer.append(encode_frame(1, encode_key(0, "é") + encode_template(0, [0])))
    writer.append(encode_frame(2, struct.pack("<cIqqd", b"V", 0, -5, 17, math.nan)))
    writer.close()
    data = path.read_bytes()
    assert data[:8] == b"EXPDBJ\x01\x00"
    length = int.from_bytes(data[8:12], "little")
    info = json.loads(data[12 : 12 + length])
    assert info == {"format": 1, "needs": "0.1.0", "run": "k3f9x2m7qd", "attempt": 2, "rank": 3}
    at = 12 + length
    assert int.from_bytes(data[at : at + 4], "little") == zlib.crc32(data[:at])
    at += 4
    payloads = []
    while at < len(data):
        magic, size, seq = struct.unpack_from("<HIQ", data, at)
        assert (magic, seq) == (0xE7DB, len(payloads) + 1)
        stop = at + 14 + size
        assert int.from_bytes(data[stop : stop + 4], "little") == zlib.crc32(data[at:stop])
        payloads.append(data[at + 14 : stop])
        at = stop + 4
    assert payloads[0] == b"K" + bytes(4) + b"\x02\0\xc3\xa9" + b"T" + bytes(4) + b"\x01\0" + bytes(
        4
    )
    assert payloads[1][:21] == b"V" + bytes(4) + struct.pack("<qq", -5, 17)


def test_a_journal_is_made_once_and_a_header_that_does_not_fit_leaves_no_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rank-0.1.wal"
    JournalWriter(path, run="k3f9x2m7qd", attempt=1, rank=0).close()
    with pytest.raises(FileExistsError):
        JournalWriter(path, run="k3f9x2m7qd", attempt=1, rank=0)
    assert path.stat().st_size == len(HEADER)


class Interrupted(Exception):
    """What a signal handler raises."""


def test_a_frame_whose_write_was_cut_off_by_a_handler_is_found_whole_or_cut_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rank-0.1.wal"
    writer = JournalWriter(path, run="k3f9x2m7qd", attempt=1, rank=0)
    frames, rows = frames_of([(("loss",), step, 5, 1) for step in range(6)])
    real, size = os.write, writer.size
    for number, frame in enumerate(frames):
        for part in (0, 7, len(frame) - 1, len(frame)):

            def cut_off(fd: int, data: bytes, num_bytes: int = part) -> int:
                real(fd, data[:num_bytes])
                raise Interrupted

            with monkeypatch.context() as patch:
                patch.setattr(os, "write", cut_off)
                with pytest.raises(Interrupted):
                    writer.append(frame)
            if number % 2:
                assert writer.size == size + (len(frame) if part == len(frame) else 0)
        writer.append(frame)  # it is there: not twice
        size += len(frame)
        assert writer.size == size == path.stat().st_size
    writer.close()
    reader = JournalReader(path)
    assert [item.seq for item in reader] == [row[0] for row in rows]
    assert (reader.num_frames, reader.problem()) == (len(frames), "")
