"""Labels and notes: one op each, a line in the run, and a new time that the index sees."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from expdb.actions.label import label_counts, set_label
from expdb.actions.marks import mark, undo_mark
from expdb.actions.note import MAX_BYTES, add_note
from expdb.actions.ops import op_rows
from expdb.actions.results import MarkResult
from expdb.actions.undo import undo
from expdb.errors import BadInput, Corrupt, NotFound, Refused
from expdb.index.reader import Reader, open_reader
from expdb.redact import Redactor
from expdb.store.layout import RunLayout
from expdb.store.marks import add_mark, touch_status
from expdb.store.ops import read_ops
from expdb.store.records import read_marks
from expdb.store.resolve import Resolved
from expdb.store.store import Store
from tests.actions.bomb import Bomb, survives
from tests.query.made import make_run, make_store, write_run

RUNS = ("k3f9x2m7qd", "t1h6y3cz8r", "e7s5g2p0va")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = make_store(tmp_path / "runs")
    for minutes, run in enumerate(RUNS):
        write_run(made, make_run(run, value=1.8, minutes=minutes))
    return made


def layout(store: Store, run: str = RUNS[0]) -> RunLayout:
    return RunLayout(store.layout.run_dir("baseline", run))


@pytest.fixture
def reader(store: Store) -> Iterator[Reader]:
    """One reader for all verbs of a test: they look at the folders themselves before they write."""
    with open_reader(store) as found:
        yield found


def label(reader: Reader, word: str, *runs: str, **more) -> MarkResult:
    return set_label(reader, runs or RUNS, word, **more)


def note(reader: Reader, text: str, run: str = RUNS[0], **more) -> MarkResult:
    at = Resolved(run=run, step=None, said="", is_literal=True)
    return add_note(reader, at, text, **more)


def take_back(reader: Reader, op: str | None = None) -> str:
    return undo(reader, None, op).op


def labels(store: Store) -> list[tuple[str, ...]]:
    return [read_marks(layout(store, run), [])[0] for run in RUNS]


def notes(store: Store) -> tuple[str, ...]:
    return read_marks(layout(store), [])[1]


def test_a_label_is_on_runs_once_and_the_index_sees_it(store: Store, reader: Reader) -> None:
    assert label(reader, "keep", RUNS[1]).op is not None
    done = label(reader, "keep")
    assert [run.id for run in done.runs] == [RUNS[0], RUNS[2]]
    assert [run.id for run in done.same] == [RUNS[1]]
    assert label(reader, "keep").op is None
    with open_reader(store) as again:
        assert label_counts(again) == [("keep", 3)]
    assert [row.what for row in op_rows(store, None)] == [
        "label keep on 2 runs",
        "label keep on t1h6 baseline",
    ]


def test_a_label_comes_off_and_undo_brings_both_back(store: Store, reader: Reader) -> None:
    label(reader, "keep", *RUNS[:2])
    label(reader, "keep", remove=True)
    assert labels(store) == [(), (), ()]
    with pytest.raises(NotFound, match="none of 3 runs has the label keep"):
        label(reader, "keep", remove=True)
    back = take_back(reader)
    assert labels(store) == [("keep",), ("keep",), ()]
    take_back(reader, back)
    assert labels(store) == [(), (), ()]
    take_back(reader)
    take_back(reader)
    assert labels(store) == [(), (), ()]
    with pytest.raises(NotFound, match="nothing to undo"):
        take_back(reader)


def test_any_word_can_be_a_label(store: Store, reader: Reader) -> None:
    words = ["../../x", "[red]x[/]", "x" * 300, "a/b", "Ünïcode", "a=b"]
    for word in words:
        label(reader, word, RUNS[0])
    assert labels(store)[0] == tuple(words)
    with open_reader(store) as again:
        assert label_counts(again) == [(word, 1) for word in sorted(words)]


def test_what_is_no_word_or_no_note_is_refused(store: Store, reader: Reader) -> None:
    bad = ["", "-d", "a b", "a\tb", "\x1b[31m", "x\n", "\u202e", "\ud800", "x" * 1001]
    for word in bad:
        with pytest.raises(BadInput, match="label"):
            label(reader, word)
    for text in ("", "  \n", "x" * (MAX_BYTES + 1), "\ud800"):
        with pytest.raises(BadInput, match="note"):
            note(reader, text)
    assert read_ops(store.layout) == []
    assert not layout(store).marks.exists()


def test_notes_are_text_without_secrets(store: Store, reader: Reader) -> None:
    redactor = Redactor(environment={"HF_TOKEN": "hf_abcdefgh1234"})
    text = "see https://ada:pw@host/x, hf_abcdefgh1234 and api_key=A1b2C3d4 \x1b[31m[red]\n../../x"
    done = note(reader, text, redactor=redactor)
    [kept] = notes(store)
    assert kept == (
        "see https://<redacted>@host/x, <redacted> and api_key=<redacted> \x1b[31m[red]\n../../x"
    )
    [op] = read_ops(store.layout)
    assert (op.id, op.what[:24]) == (done.op, "note on k3f9 baseline: s")
    everything = b"".join(p.read_bytes() for p in store.root.rglob("*.json*"))
    for secret in (b"ada:pw", b"hf_abcdefgh1234", b"A1b2C3d4"):
        assert secret not in everything


def test_an_undo_takes_away_its_own_note_only(store: Store, reader: Reader) -> None:
    note(reader, "same")
    add_mark(layout(store), "note", "other")
    note(reader, "same")
    back = take_back(reader)
    assert notes(store) == ("same", "other")
    take_back(reader, back)
    assert notes(store) == ("same", "other", "same")
    take_back(reader)
    take_back(reader)
    assert notes(store) == ("other",)


def test_an_undo_of_runs_that_are_gone_says_so(store: Store, reader: Reader) -> None:
    op = label(reader, "keep", *RUNS[:2]).op
    shutil.rmtree(layout(store, RUNS[0]).root)
    shutil.copytree(store.root, store.root.parent / "other")
    take_back(reader, op)
    assert labels(store)[1] == ()
    other = make_store(store.root.parent / "other")
    shutil.rmtree(layout(other, RUNS[1]).root)
    found = next(item for item in read_ops(other.layout) if item.id == op)
    with pytest.raises(Refused, match=r"none of the runs of op \w+ is in the store"):
        undo_mark(other, found, None)


def test_the_time_of_the_status_only_grows(store: Store, reader: Reader) -> None:
    path = layout(store).status_json
    seen = {path.stat().st_mtime_ns}
    for _ in range(50):
        touch_status(layout(store))
        seen.add(path.stat().st_mtime_ns)
    assert len(seen) == 51
    ahead = time.time_ns() + 3_600 * 10**9
    os.utime(path, ns=(ahead, ahead))
    touch_status(layout(store))
    assert path.stat().st_mtime_ns > ahead
    path.unlink()
    touch_status(layout(store))
    assert not path.exists()


def test_a_store_that_cannot_be_written_is_said(store: Store, reader: Reader) -> None:
    layout(store).marks.mkdir()
    with pytest.raises(Corrupt, match="cannot write to the store"):
        label(reader, "keep", RUNS[0])


def test_killed_before_any_file_operation_it_is_finished_by_the_same_verb(
    store: Store, tmp_path: Path
) -> None:
    for number in range(1, 60):
        shutil.rmtree(tmp_path / "other", ignore_errors=True)
        other = make_store(shutil.copytree(store.root, tmp_path / "other"))
        alive = survives(
            Bomb(number),
            lambda s=other: mark(
                s, kind="label", text="keep", runs=RUNS, what="label", worktree=None
            ),
        )
        if alive:
            break
        known = read_ops(other.layout)
        before = labels(other)
        assert set(before) <= {(), ("keep",)}
        assert known or before == [(), (), ()], "a label without its op"
        lacking = [run for run, has in zip(RUNS, before, strict=True) if not has]
        if lacking:
            mark(other, kind="label", text="keep", runs=lacking, what="label", worktree=None)
        assert labels(other) == [("keep",)] * 3
        for op in read_ops(other.layout):
            undo_mark(other, op, None)
        assert labels(other) == [(), (), ()]
    else:
        raise AssertionError("it never came to its end")
    assert number > 8
