"""Tags: names that never move, mean nothing else, and stay in the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from expdb.actions.ops import op_rows
from expdb.actions.results import TagResult
from expdb.actions.tag import add_tag, remove_tag, tag_rows
from expdb.actions.undo import undo
from expdb.errors import BadInput, ExpdbError, NotFound, Refused
from expdb.index.reader import Reader, open_reader
from expdb.model import RunAt
from expdb.query.lookup import lookup
from expdb.store.protected import protected_steps
from expdb.store.refs import read_refs
from expdb.store.resolve import Resolved
from expdb.store.store import Store
from tests.query.made import make_run, make_store, write_run

FIRST, SECOND = "k3f9x2m7qd", "t1h6y3cz8r"


def make(root: Path) -> Store:
    made = make_store(root)
    write_run(made, make_run(FIRST, value=1.848))
    write_run(made, make_run(SECOND, experiment="exp01", variant="+lr=1", value=2.0, minutes=1))
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make(tmp_path / "runs")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader that all refusals share: nothing is written."""
    with open_reader(make(tmp_path_factory.mktemp("tags") / "runs")) as found:
        yield found


def tag(store: Store, name: str, run: str = FIRST, step: int | None = None, **more) -> TagResult:
    resolved = Resolved(run=run, step=step, said="", is_literal=True)
    with open_reader(store) as reader:
        return add_tag(reader, name, resolved, **more)


def test_a_tag_names_a_run_at_a_step_and_is_found_by_its_name(store: Store) -> None:
    done = tag(store, "paper", FIRST, 300)
    assert (done.after, done.before) == (RunAt(run=FIRST, step=300), None)
    with open_reader(store) as reader:
        [row] = tag_rows(reader)
        assert (row.name, row.at, row.run and row.run.id) == ("paper", done.after, FIRST)
        assert row.created_at_ms is not None
        assert lookup(reader, "paper").said.startswith(f"paper = {FIRST}@300 (tag paper: ")
    [op] = op_rows(store, None)
    assert (op.id, op.kind, op.what, op.num_paths) == (
        done.op,
        "tag",
        "tag paper → k3f9@300",
        None,
    )
    assert protected_steps(store, FIRST) == {300}


def test_a_tag_does_not_move_and_is_free_again_once_it_is_removed(store: Store) -> None:
    tag(store, "paper")
    before = read_refs(store.layout)
    for run in (SECOND, FIRST):
        with pytest.raises(Refused, match="the tag paper exists: k3f9 baseline") as caught:
            tag(store, "paper", run)
        assert caught.value.hints == ("remove it first: expdb tag -d paper",)
    assert read_refs(store.layout) == before
    assert len(op_rows(store, None)) == 1
    with open_reader(store) as reader:
        remove_tag(reader, "paper")
        with pytest.raises(NotFound, match="there is no tag nope"):
            remove_tag(reader, "nope")
    assert read_refs(store.layout) == {}
    tag(store, "paper", SECOND)
    assert read_refs(store.layout)["paper"].run == SECOND


def test_undo_takes_a_tag_back_and_brings_a_removed_one_back(store: Store) -> None:
    def take_back(op: str | None = None) -> str:
        with open_reader(store) as reader:
            return undo(reader, None, op).op

    tag(store, "paper", FIRST, 300)
    with open_reader(store) as reader:
        remove_tag(reader, "paper")
    back = take_back()
    assert read_refs(store.layout)["paper"].step == 300
    take_back(back)
    assert read_refs(store.layout) == {}
    take_back()
    take_back()
    assert read_refs(store.layout) == {}
    with pytest.raises(NotFound, match="nothing to undo"):
        take_back()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "empty"),
        ("HEAD", "RUN grammar"),
        ("best", "RUN grammar"),
        ("PREV", "RUN grammar"),
        ("baseline", "cannot be a tag: it is the run that others"),
        ("exp01", "an experiment is called so"),
        ("exp01+lr=1", "an experiment is called so"),
        ("exp08_declared", "an experiment is called so"),
        ("k3f9", "the id of run k3f9x2m7qd begins so"),
        ("zzzzzzzzzz", "form of a run id"),
        ("-d", "begins with a dash"),
        ("a b", "cannot hold a space"),
        ("a:s2", "cannot hold :"),
        ("a@300", "cannot hold @"),
        ("\x1b[31mred", r"cannot hold \\x1b"),
        ("line\nline", r"cannot hold \\x0a"),
        ("\ud800", "is not UTF-8 text"),
    ],
)
def test_a_name_that_means_something_else_or_is_no_text(
    reader: Reader, name: str, said: str
) -> None:
    at = Resolved(run=FIRST, step=None, said="", is_literal=True)
    with pytest.raises(BadInput, match=said):
        add_tag(reader, name, at, declared=("exp08_declared",))
    assert read_refs(reader.store.layout) == {}
    assert op_rows(reader.store, None) == []


def test_hostile_names_stay_in_the_store(store: Store, tmp_path: Path) -> None:
    names = ["../../x", "/etc/passwd", "[red]x[/red]", "x" * 300, "con", "..", "Ünïcode", "a/b"]
    before = {path for path in tmp_path.rglob("*") if ".expdb" not in path.parts}
    with open_reader(store) as reader:
        at = Resolved(run=FIRST, step=None, said="", is_literal=True)
        for name in names:
            add_tag(reader, name, at)
    assert set(read_refs(store.layout)) == set(names)
    assert {path for path in tmp_path.rglob("*") if ".expdb" not in path.parts} == before
    assert {path.parent for path in store.layout.refs.rglob("*")} == {store.layout.refs}
    with open_reader(store) as reader:
        for name in names:
            assert lookup(reader, name).run == FIRST
            remove_tag(reader, name)
    assert list(store.layout.refs.iterdir()) == []


def test_a_ref_is_no_tag_and_a_lost_run_is_named_as_such(store: Store) -> None:
    from expdb.actions.baseline import set_baseline

    with open_reader(store) as reader:
        set_baseline(reader, lookup(reader, FIRST))
    with open_reader(store) as reader, pytest.raises(Refused, match="baseline is a ref"):
        remove_tag(reader, "baseline")
    tag(store, "old", SECOND)
    (store.root / "exp=exp01" / f"run={SECOND}").rename(store.root / "elsewhere")
    with open_reader(store) as reader:
        [row] = tag_rows(reader)
        assert (row.at.run, row.run) == (SECOND, None)
        with pytest.raises(ExpdbError, match="the tag old exists: t1h6;"):
            add_tag(reader, "old", lookup(reader, FIRST))
        assert remove_tag(reader, "old").run is None
