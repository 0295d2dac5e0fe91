"""`rm`: whole folders to the trash and back; nothing that is needed goes, nothing is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from expdb.actions.baseline import set_baseline
from expdb.actions.ops import op_rows
from expdb.actions.restore import restore, take_all
from expdb.actions.results import RemovePlan, RemoveResult
from expdb.actions.rm import plan_removal, put_all, remove, trash_op
from expdb.actions.tag import add_tag, remove_tag
from expdb.actions.undo import undo
from expdb.errors import Ambiguous, Conflict, ExpdbError, NotFound, Refused
from expdb.index.reader import Reader, open_reader
from expdb.model import RunState
from expdb.query.lookup import lookup
from expdb.store import trash, writers
from expdb.store.layout import RunLayout
from expdb.store.ops import read_ops
from expdb.store.recover import run_lock
from expdb.store.runs import run_dirs
from expdb.store.store import Store
from tests.actions.bomb import Bomb, survives
from tests.query.made import make_run, make_store, write_run

FIRST, SECOND, THIRD = "k3f9x2m7qd", "t1h6y3cz8r", "e7s5g2p0va"
ALL = (FIRST, SECOND, THIRD)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = make_store(tmp_path / "runs")
    write_run(made, make_run(FIRST, value=1.8))
    write_run(made, make_run(SECOND, experiment="exp01", value=2.0, minutes=1, parent=FIRST))
    write_run(made, make_run(THIRD, experiment="exp01", value=2.1, minutes=2, parent=FIRST))
    return made


@pytest.fixture
def reader(store: Store) -> Iterator[Reader]:
    """One reader for all verbs of a test: they look at the folders themselves before they write."""
    with open_reader(store) as found:
        yield found


def rm(reader: Reader, *runs: str) -> tuple[RemovePlan, RemoveResult]:
    plan = plan_removal(reader, runs)
    return plan, remove(reader, plan)


def bring_back(reader: Reader, *words: str) -> list[str]:
    return sorted(run for run, _ in restore(reader, words).runs)


def take_back(reader: Reader, op: str | None = None) -> str:
    return undo(reader, None, op).op


def listed(store: Store) -> set[str]:
    return {run for run, _, _ in run_dirs(store.root)}


def indexed(store: Store) -> set[str]:
    with open_reader(store) as found:
        return {row[0] for row in found.rows("SELECT id FROM runs")}


def in_trash(store: Store) -> set[str]:
    return {one.run for one in trash.entries(store.layout)}


def contents(store: Store, run: str, *, in_store: bool = False) -> dict[str, bytes]:
    """Every file of a run, wherever it is; it is in one place."""
    trashed = [] if in_store else store.layout.trash.glob(run)
    [folder] = [*store.root.glob(f"exp=*/run={run}"), *trashed]
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_run_goes_whole_and_comes_back_whole(store: Store, reader: Reader) -> None:
    before = contents(store, SECOND)
    plan, done = rm(reader, SECOND)
    assert plan.bytes[SECOND] == sum(len(data) for n, data in before.items() if n != "status.json")
    assert listed(store) == indexed(store) == {FIRST, THIRD}
    [entry] = trash.entries(store.layout)
    assert (entry.run, entry.name, entry.op) == (SECOND, "exp01", done.op)
    assert (entry.path, entry.bytes) == (f"exp=exp01/run={SECOND}", plan.total)
    assert bring_back(reader) == [SECOND]
    assert contents(store, SECOND) == before
    assert listed(store) == indexed(store) == set(ALL)
    assert list(store.layout.trash.iterdir()) == []
    assert [row.what for row in op_rows(store, None)] == [
        "rm --restore t1h6 exp01",
        "rm t1h6 exp01",
    ]


def test_it_says_which_runs_have_it_as_parent(store: Store, reader: Reader) -> None:
    plan, _ = rm(reader, FIRST, THIRD)
    assert plan.children == {FIRST: (SECOND,)}
    assert listed(store) == {SECOND}


def test_runs_that_are_needed_stay(store: Store) -> None:
    write_run(store, make_run("g2z8r5n1fs", state=RunState.RUNNING, experiment="exp05"))
    with open_reader(store) as reader:
        set_baseline(reader, lookup(reader, FIRST))
        add_tag(reader, "[red]x", lookup(reader, SECOND))
        for runs, said, hint in (
            (["g2z8r5n1fs"], "g2z8 exp05 is running; nothing", "expdb ctl g2z8 stop"),
            ([FIRST], "k3f9 baseline is named by the ref baseline", "expdb baseline RUN"),
            ([SECOND], r"is named by the tag \[red\]x", "expdb tag -d '[red]x'"),
            ([*ALL], "2 of 3 runs cannot be removed", "expdb baseline RUN"),
        ):
            with pytest.raises(Refused, match=said) as caught:
                plan_removal(reader, runs)
            assert hint in caught.value.hints[0]
        assert caught.value.details == (
            "k3f9 baseline is named by the ref baseline",
            "t1h6 exp01 is named by the tag [red]x",
        )
        assert in_trash(store) == set()
        remove_tag(reader, "[red]x")
        rm(reader, SECOND)


def test_what_changed_since_the_plan_is_seen_under_the_lock(store: Store, reader: Reader) -> None:
    plan = plan_removal(reader, [SECOND])
    add_tag(reader, "late", lookup(reader, SECOND))
    with pytest.raises(Refused, match="named by the tag late"):
        remove(reader, plan)
    plan = plan_removal(reader, [THIRD])
    layout = RunLayout(store.layout.run_dir("exp01", THIRD))
    with run_lock(store.root, layout), pytest.raises(Conflict, match=f"run {THIRD} is held"):
        remove(reader, plan)
    rank = writers.claim_attached(layout, 1)
    with pytest.raises(Refused, match=f"another process writes to run {THIRD}"):
        remove(reader, plan)
    writers.close(layout, 1, rank)
    assert [op.kind for op in read_ops(store.layout)] == ["tag"]
    remove(reader, plan)


def test_a_run_is_restored_by_its_id_its_name_or_its_op(store: Store, reader: Reader) -> None:
    op = rm(reader, FIRST, SECOND)[1].op
    rm(reader, THIRD)
    with pytest.raises(Ambiguous, match="exp01 names 2 runs of the trash"):
        bring_back(reader, "exp01")
    with pytest.raises(NotFound, match="nothing in the trash is called nope"):
        bring_back(reader, "nope")
    assert bring_back(reader, op) == sorted([FIRST, SECOND])
    assert bring_back(reader, "exp01") == [THIRD]
    rm(reader, FIRST, SECOND)
    assert bring_back(reader, "t1h6") == [SECOND]
    assert bring_back(reader) == [FIRST]
    with pytest.raises(NotFound, match="the trash is empty"):
        bring_back(reader)


def test_undo_takes_both_ways_back(store: Store, reader: Reader) -> None:
    op = rm(reader, FIRST, SECOND)[1].op
    back = take_back(reader)
    assert (listed(store), in_trash(store)) == (set(ALL), set())
    take_back(reader, back)
    assert in_trash(store) == {FIRST, SECOND}
    bring_back(reader, FIRST)
    take_back(reader)
    assert in_trash(store) == {FIRST, SECOND}
    shutil.rmtree(store.layout.trash / FIRST)
    take_back(reader, op)
    assert (listed(store), in_trash(store)) == ({SECOND, THIRD}, set())


def test_an_undo_of_what_was_purged_is_refused(store: Store, reader: Reader) -> None:
    op = rm(reader, SECOND)[1].op
    shutil.rmtree(store.layout.trash)
    with pytest.raises(Refused, match="neither in the trash nor in the store"):
        take_back(reader, op)


def test_nothing_is_written_over(store: Store, reader: Reader) -> None:
    """Another run of the same id stands in the way; what the hint says goes all the way."""
    old = contents(store, SECOND)
    op = rm(reader, SECOND)[1].op
    write_run(store, make_run(SECOND, experiment="exp09", value=9.0))
    new = contents(store, SECOND, in_store=True)
    for action in (bring_back, take_back):
        with pytest.raises(Refused, match="is in the store again, and its") as caught:
            action(reader)
        assert caught.value.hints[0].endswith(f"expdb rm {SECOND}, then expdb rm --restore {op}")
    assert in_trash(store) == {SECOND}
    assert listed(store) == set(ALL)
    with open_reader(store) as second:
        newer = rm(second, SECOND)[1].op
        assert sorted(one.op for one in trash.entries(store.layout)) == sorted([op, newer])
        with pytest.raises(Ambiguous, match="names 2 runs of the trash"):
            bring_back(second, SECOND)
        with pytest.raises(Ambiguous, match="another copy"):
            bring_back(second, op, newer)
        take_back(second, op)
    assert contents(store, SECOND, in_store=True) == old
    with open_reader(store) as third:
        rm(third, SECOND)
        assert bring_back(third, newer) == [SECOND]
    assert contents(store, SECOND, in_store=True) == new


def test_a_run_that_the_store_has_again_as_it_was_is_no_obstacle(
    store: Store, reader: Reader, tmp_path: Path
) -> None:
    for again in (take_back, bring_back):
        shutil.copytree(store.root / f"exp=exp01/run={SECOND}", tmp_path / "copy")
        rm(reader, SECOND, THIRD)
        (tmp_path / "copy").rename(store.root / f"exp=exp01/run={SECOND}")
        again(reader)
        assert (listed(store), in_trash(store)) == (set(ALL), set())
        assert list(store.layout.trash.iterdir()) == []
    rm(reader, SECOND, THIRD)
    shutil.copytree(store.layout.trash / SECOND, store.root / f"exp=exp01/run={SECOND}")
    assert restore(reader).kept == (SECOND,)
    rm(reader, SECOND, THIRD)
    shutil.copytree(store.layout.trash / SECOND, store.root / f"exp=exp01/run={SECOND}")
    words = undo(reader, None).record
    assert words == ("runs", "1 run restored, 1 run in the store again already, byte for byte")


@pytest.mark.parametrize(
    "path", ["../../evil/run=t1h6y3cz8r", "exp=../x", "/etc/run=t1h6y3cz8r", 7, "exp=a/b/c"]
)
def test_a_noted_place_outside_of_the_store_is_not_used(
    store: Store, reader: Reader, path: object
) -> None:
    rm(reader, SECOND)
    note = store.layout.trash / f"{SECOND}.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "path": path}))
    [entry] = trash.entries(store.layout)
    assert trash.take_out(store.layout, entry) == store.layout.run_dir("exp01", SECOND)


def test_a_run_without_its_note_comes_back_by_its_experiment(store: Store, reader: Reader) -> None:
    rm(reader, SECOND)
    (store.layout.trash / f"{SECOND}.json").unlink()
    (store.layout.trash / "fsck-20260101T000000Z").mkdir()
    [entry] = trash.entries(store.layout)
    assert (entry.run, entry.name, entry.op) == (SECOND, "exp01", "")
    assert bring_back(reader, SECOND) == [SECOND]
    assert listed(store) == set(ALL)


@pytest.mark.slow
def test_killed_before_any_file_operation_nothing_is_lost(store: Store, tmp_path: Path) -> None:
    both = (FIRST, SECOND)
    whole = {run: contents(store, run) for run in both}
    place = tmp_path / "other" / "runs"
    num_kills = 0
    for way in ("rm", "restore"):
        op = trash_op(way, way, both, into=way == "rm", worktree=None)
        for number in range(1, 90):
            shutil.rmtree(place, ignore_errors=True)
            other = make_store(shutil.copytree(store.root, place))
            there = trash.entries(other.layout)

            def act(other: Store = other, op=op, there=there, way: str = way) -> None:
                if way == "rm":
                    put_all(other, both, op, None, id_cells=4)
                else:
                    take_all(other, there, op)

            if survives(Bomb(number), act):
                store = make_store(shutil.copytree(place, tmp_path / way))
                break
            num_kills += 1
            assert {run: contents(other, run) for run in both} == whole
            moved = [run for run in both if (run in in_trash(other)) == (way == "rm")]
            assert not moved or op.id in {item.id for item in read_ops(other.layout)}
            settle(other, number)
            assert {run: contents(other, run) for run in both} == whole
            assert in_trash(other) == (set(both) if number % 2 else set())
        else:
            raise AssertionError("it never came to its end")
    assert num_kills > 20


def settle(store: Store, number: int) -> None:
    """Finish what was cut off: all into the trash, or all out of it."""
    there = trash.entries(store.layout)
    if number % 2:
        left = [run for run in (FIRST, SECOND) if run not in {one.run for one in there}]
        if left:
            op = trash_op("rm", "rm", left, into=True, worktree=None)
            put_all(store, left, op, None, id_cells=4)
    elif there:
        op = trash_op("restore", "rm --restore", (), into=False, worktree=None)
        take_all(store, there, op)


def test_a_file_system_that_refuses_is_said_in_one_line(store: Store, reader: Reader) -> None:
    (store.layout.trash).write_text("a file")
    with pytest.raises(ExpdbError, match="cannot write to the store"):
        rm(reader, SECOND)
    assert SECOND in listed(store)
