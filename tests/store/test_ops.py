from __future__ import annotations

import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from expdb.errors import Corrupt
from expdb.model import Op, RunAt
from expdb.store.files import exclusive
from expdb.store.head import Head, head_path, read_head, write_head
from expdb.store.ids import new_id
from expdb.store.layout import StoreLayout
from expdb.store.ops import (
    Marker,
    StoreGone,
    clear_unfinished,
    find_unfinished,
    is_held,
    lock_path,
    mark_unfinished,
    marker_path,
    read_ops,
    write_op,
)


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    return StoreLayout(tmp_path / "runs")


@pytest.fixture
def git_dir(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path / ".git"


def marker(op: str, layout: StoreLayout) -> Marker:
    root = str(layout.root.resolve())
    return Marker(op=op, store=root, kind="rollback", what="rollback to x", created_at_ms=1)


def leave_lock(git_dir: Path) -> None:
    """Make the lock of a process that is gone."""
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_lock_and_die, args=(git_dir,))
    child.start()
    child.join()
    assert lock_path(git_dir).exists()


def _lock_and_die(git_dir: Path) -> None:
    with exclusive(lock_path(git_dir), what="it"):
        os._exit(0)


def test_ops_read_back_oldest_first_with_everything(layout: StoreLayout) -> None:
    ops = [
        Op(
            id=new_id(),
            kind="rollback",
            phase="begin",
            created_at_ms=1_700_000_000_000 + index,
            parents=("aaaaaaaaaa",),
            what="rollback to `é`\n",
            before={"plan": [["train.py", "change", None, ["100644", "ab"]]]},
            after={"tree": "t", "nested": {"a": None}},
            undoes="bbbbbbbbbb" if index else None,
            who="me",
            host="here",
            work_tree="/x/.git",
        )
        for index in range(12)
    ]
    for op in ops:
        write_op(layout, op)
    assert read_ops(layout) == ops


def test_an_op_is_one_file_by_month_and_is_never_replaced(layout: StoreLayout) -> None:
    op = Op(id=new_id(), kind="baseline")
    path = write_op(layout, op)
    assert path.parent.parent == layout.ops
    assert path.parent.name == time.strftime("%Y%m", time.gmtime())
    assert path.name.endswith(f"-{op.id}.json")
    before = path.read_bytes()
    write_op(layout, Op(id=op.id, kind="other"))
    assert path.read_bytes() == before
    assert not list(layout.ops.rglob(".tmp-*"))


def test_a_clock_set_back_keeps_the_order(
    layout: StoreLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Op(id=new_id(), kind="a"), Op(id=new_id(), kind="b")
    write_op(layout, first)
    past = time.time_ns() - 3600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: past)
    write_op(layout, second)
    assert [op.id for op in read_ops(layout)] == [first.id, second.id]


def test_a_damaged_op_is_named_and_the_rest_is_read(layout: StoreLayout) -> None:
    good = Op(id=new_id(), kind="a")
    write_op(layout, good)
    bad = write_op(layout, Op(id=new_id(), kind="b"))
    for data in (b"", b"{", b"{}", b'{"format":1,"id":"x"}'):
        bad.write_bytes(data)
        with pytest.raises(Corrupt, match=bad.name):
            read_ops(layout)
        problems: list[str] = []
        assert [op.id for op in read_ops(layout, problems=problems)] == [good.id]
        assert len(problems) == 1


def test_unknown_keys_of_an_op_are_ignored(layout: StoreLayout) -> None:
    path = write_op(layout, Op(id=new_id(), kind="a"))
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"later": {"x": 1}}))
    assert len(read_ops(layout)) == 1


def test_nothing_unfinished_without_a_mark(layout: StoreLayout, git_dir: Path) -> None:
    write_op(layout, Op(id=new_id(), kind="rollback", phase="begin", work_tree=str(git_dir)))
    assert find_unfinished(git_dir, layout) is None
    assert not (git_dir / "expdb").exists()


def test_a_mark_without_a_begin_means_nothing_was_written(
    layout: StoreLayout, git_dir: Path
) -> None:
    mark_unfinished(git_dir, marker(new_id(), layout))
    leave_lock(git_dir)
    assert find_unfinished(git_dir, layout) is None
    assert not marker_path(git_dir).exists()
    assert [path.name for path in (git_dir / "expdb").iterdir()] == ["lock"]


def test_a_begin_without_an_end_is_unfinished(layout: StoreLayout, git_dir: Path) -> None:
    begin = Op(id=new_id(), kind="rollback", phase="begin", what="rollback to x")
    mark_unfinished(git_dir, marker(begin.id, layout))
    write_op(layout, begin)
    write_op(layout, Op(id=new_id(), kind="baseline"))
    assert find_unfinished(git_dir, layout) == begin
    assert marker_path(git_dir).exists()


@pytest.mark.parametrize("phase", ["end", "abort"])
def test_a_mark_that_outlived_its_end_is_removed(
    layout: StoreLayout, git_dir: Path, phase: str
) -> None:
    begin = Op(id=new_id(), kind="rollback", phase="begin")
    mark_unfinished(git_dir, marker(begin.id, layout))
    write_op(layout, begin)
    write_op(layout, Op(id=new_id(), kind="rollback", phase=phase, parents=(begin.id,)))  # type: ignore[arg-type]
    write_op(layout, Op(id=new_id(), kind="baseline"))
    assert find_unfinished(git_dir, layout) is None
    assert not marker_path(git_dir).exists()


def test_a_mark_stays_before_its_begin_while_the_lock_is_held(
    layout: StoreLayout, git_dir: Path
) -> None:
    op = new_id()
    with exclusive(lock_path(git_dir), what="it"):
        mark_unfinished(git_dir, marker(op, layout))
        assert is_held(git_dir)
        found = find_unfinished(git_dir, layout)
        assert found is not None
        assert (found.id, found.what, dict(found.before)) == (op, "rollback to x", {})
        assert marker_path(git_dir).exists()
        assert find_unfinished(git_dir, layout, holding=True) is None
        assert not marker_path(git_dir).exists()
    assert not is_held(git_dir)


def test_a_mark_of_a_store_that_is_elsewhere_now(
    layout: StoreLayout, git_dir: Path, tmp_path: Path
) -> None:
    begin = Op(id=new_id(), kind="rollback", phase="begin", what="rollback to x")
    mark_unfinished(git_dir, marker(begin.id, layout))
    write_op(layout, begin)
    layout.root.rename(tmp_path / "moved")
    assert find_unfinished(git_dir, StoreLayout(tmp_path / "moved")) == begin
    with pytest.raises(StoreGone, match="the store that knows how far it came") as gone:
        find_unfinished(git_dir, StoreLayout(tmp_path / "other"))
    assert str(layout.root) in gone.value.message
    assert marker_path(git_dir).exists()


def test_only_one_mark_at_a_time_and_only_its_own_is_cleared(
    layout: StoreLayout, git_dir: Path
) -> None:
    mine = new_id()
    mark_unfinished(git_dir, marker(mine, layout))
    with pytest.raises(FileExistsError):
        mark_unfinished(git_dir, marker(new_id(), layout))
    clear_unfinished(git_dir, new_id())
    assert marker_path(git_dir).exists()
    clear_unfinished(git_dir, mine)
    assert not marker_path(git_dir).exists()
    clear_unfinished(git_dir, mine)


def test_a_damaged_mark_is_named(layout: StoreLayout, git_dir: Path) -> None:
    marker_path(git_dir).parent.mkdir()
    for data in ("", "{", "{}"):
        marker_path(git_dir).write_text(data)
        with pytest.raises(Corrupt, match="UNFINISHED"):
            find_unfinished(git_dir, layout)


def test_head_is_set_read_and_removed(git_dir: Path) -> None:
    assert read_head(git_dir) is None
    write_head(git_dir, None)
    assert not (git_dir / "expdb").exists()
    head = Head(run="k3f9x2m7qd", step=300, op=new_id())
    write_head(git_dir, head)
    assert read_head(git_dir) == head
    assert head.at == RunAt(run="k3f9x2m7qd", step=300)
    write_head(git_dir, None)
    assert read_head(git_dir) is None


@pytest.mark.parametrize("text", ["", "{}", '{"run": "x", "step": 1, "op": "y"}', '{"run": 3}'])
def test_a_damaged_head_is_named(git_dir: Path, text: str) -> None:
    head_path(git_dir).parent.mkdir()
    head_path(git_dir).write_text(text)
    with pytest.raises(Corrupt, match="HEAD"):
        read_head(git_dir)
