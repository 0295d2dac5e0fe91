from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.errors import BadInput, Conflict, Corrupt, Unsupported
from expdb.model import Op, RunAt
from expdb.store.ids import is_id, new_id
from expdb.store.layout import StoreLayout
from expdb.store.ops import read_ops
from expdb.store.refs import check_name, move_ref, read_ref, read_refs

A = RunAt(run="k3f9x2m7qd", step=300)
B = RunAt(run="t1h6y3cz8r")


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    return StoreLayout(tmp_path / "runs")


def op() -> Op:
    return Op(id=new_id(), kind="baseline")


def test_ref_moves_and_each_move_has_its_op(layout: StoreLayout) -> None:
    ops = [op(), op(), op()]
    move_ref(layout, "baseline", "ref", before=None, after=A, op=ops[0])
    first = read_ref(layout, "baseline")
    assert first is not None
    assert (first.run, first.step, first.op, first.kind) == (A.run, 300, ops[0].id, "ref")
    move_ref(layout, "baseline", "ref", before=A, after=B, op=ops[1])
    second = read_refs(layout)["baseline"]
    assert (second.run, second.step, second.op) == (B.run, None, ops[1].id)
    move_ref(layout, "baseline", "ref", before=B, after=None, op=ops[2])
    assert read_refs(layout) == {}
    assert [item.id for item in read_ops(layout)] == [item.id for item in ops]


def test_a_move_from_elsewhere_is_a_conflict_and_writes_nothing(layout: StoreLayout) -> None:
    move_ref(layout, "baseline", "ref", before=None, after=A, op=op())
    for before in (None, B, RunAt(run=A.run, step=200)):
        with pytest.raises(Conflict, match="k3f9x2m7qd@300"):
            move_ref(layout, "baseline", "ref", before=before, after=B, op=op())
    assert len(read_ops(layout)) == 1
    assert read_refs(layout)["baseline"].run == A.run
    assert [path.name for path in layout.refs.iterdir()] == ["baseline.json"]


def test_a_tag_never_moves_but_can_be_removed(layout: StoreLayout) -> None:
    move_ref(layout, "paper-v1", "tag", before=None, after=A, op=op())
    with pytest.raises(Conflict, match="never moves"):
        move_ref(layout, "paper-v1", "tag", before=A, after=B, op=op())
    with pytest.raises(Conflict, match="is a tag"):
        move_ref(layout, "paper-v1", "ref", before=A, after=B, op=op())
    move_ref(layout, "paper-v1", "tag", before=A, after=None, op=op())
    assert read_refs(layout) == {}


@pytest.mark.parametrize(
    "name",
    ["", "HEAD", "best", "Last", "a:b", "a@3", "a b", "a\tb", "a\nb", "k3f9x2m7qd", "-x", "a\x1bb"],
)
def test_names_that_the_run_grammar_needs_are_refused(layout: StoreLayout, name: str) -> None:
    with pytest.raises(BadInput):
        move_ref(layout, name, "ref", before=None, after=A, op=op())
    assert not layout.meta.exists()


@pytest.mark.parametrize(
    "name", ["Loss", "a/b", "..", "../../outside", "con", "é" * 200, "k3f9x2m7q"]
)
def test_any_other_name_stays_inside_the_store(layout: StoreLayout, name: str) -> None:
    move_ref(layout, name, "tag", before=None, after=A, op=op())
    assert set(read_refs(layout)) == {name}
    assert [path.parent for path in layout.root.rglob("*.json") if "ops" not in path.parts] == [
        layout.refs
    ]


def test_a_damaged_file_is_named_and_the_rest_is_read(layout: StoreLayout) -> None:
    move_ref(layout, "baseline", "ref", before=None, after=A, op=op())
    for name, data in {
        "cut": b'{"name": "cu',
        "empty": b"",
        "list": b"[]",
        "odd": b'{"name":3}',
    }.items():
        (layout.refs / f"{name}.json").write_bytes(data)
        with pytest.raises(Corrupt, match=f"{name}.json"):
            read_refs(layout)
        problems: list[str] = []
        assert set(read_refs(layout, problems=problems)) == {"baseline"}
        assert len(problems) == 1
        assert f"{name}.json" in problems[0]
        (layout.refs / f"{name}.json").unlink()


def test_a_newer_format_is_refused_and_unknown_keys_are_kept(layout: StoreLayout) -> None:
    move_ref(layout, "baseline", "ref", before=None, after=A, op=op())
    path = layout.ref("baseline")
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"later": 1}))
    move_ref(layout, "baseline", "ref", before=A, after=B, op=op())
    assert json.loads(path.read_text())["later"] == 1
    path.write_text(json.dumps(data | {"format": 9, "needs": "3.0"}))
    with pytest.raises(Unsupported, match="format 9"):
        read_refs(layout)


def test_the_lock_of_a_dead_process_is_taken_over(layout: StoreLayout) -> None:
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_leave_lock, args=(layout.root,))
    child.start()
    child.join()
    lock = layout.refs / "baseline.json.lock"
    assert lock.exists()
    move_ref(layout, "baseline", "ref", before=None, after=A, op=op())
    assert not lock.exists()
    assert read_refs(layout)["baseline"].run == A.run


def test_the_lock_of_a_live_process_is_respected(layout: StoreLayout) -> None:
    layout.refs.mkdir(parents=True)
    from expdb.store import files

    with files.exclusive(layout.refs / "baseline.json.lock", what="it"), pytest.raises(Conflict):
        move_ref(layout, "baseline", "ref", before=None, after=A, op=op())
    assert read_refs(layout) == {}


def test_of_processes_that_saw_the_same_value_one_wins(layout: StoreLayout) -> None:
    move_ref(layout, "baseline", "ref", before=None, after=A, op=op())
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    results = context.SimpleQueue()
    children = [
        context.Process(target=_race, args=(layout.root, new_id(), barrier, results))
        for _ in range(4)
    ]
    for child in children:
        child.start()
    outcomes = [results.get() for _ in children]
    for child in children:
        child.join()
    winners = [run for run, won in outcomes if won]
    assert len(winners) == 1
    assert read_refs(layout)["baseline"].run == winners[0]
    assert len(read_ops(layout)) == 2


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=12))
def test_check_name_lets_through_what_resolves_unambiguously(name: str) -> None:
    try:
        check_name(name)
    except BadInput:
        return
    assert name
    assert not is_id(name)
    assert not set(name) & set(":@ \t\n\x00\x7f")


def _leave_lock(root: Path) -> None:
    import os

    from expdb.store import files

    layout = StoreLayout(root)
    with files.exclusive(layout.refs / "baseline.json.lock", what="it"):
        os._exit(0)


def _race(root: Path, run: str, barrier: object, results: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    try:
        move_ref(StoreLayout(root), "baseline", "ref", before=A, after=RunAt(run=run), op=op())
    except Conflict:
        results.put((run, False))  # type: ignore[attr-defined]
    else:
        results.put((run, True))  # type: ignore[attr-defined]
