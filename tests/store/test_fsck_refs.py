from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expdb.model import Op
from expdb.store.files import write_json
from expdb.store.fsck.refs import expected_refs
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.ops import Marker, mark_unfinished, read_ops, write_op
from expdb.store.refs import read_refs
from tests.store.fsck_made import check, finished, name_ref, repair, whole

MakeRun = Callable[..., RunLayout]


@pytest.fixture
def named(make_run_dir: MakeRun, store_root: Path) -> tuple[Path, str, str]:
    """The file of the ref `Base/line`, the run it is at, and the run it was at before."""
    first, second = (finished(make_run_dir).id for _ in range(2))
    name_ref(store_root, "Base/line", first)
    name_ref(store_root, "Base/line", second, before=first)
    return StoreLayout(store_root).ref("Base/line"), second, first


def rows(root: Path) -> list[tuple[str, str, bool]]:
    return [(item.kind, item.ref, item.can_mend) for item in check(root).findings]


def now(root: Path) -> dict[str, str]:
    return {name: ref.run for name, ref in read_refs(StoreLayout(root)).items()}


SPOIL: dict[str, Callable[[Path, str], object]] = {
    "damaged": lambda path, old: path.write_bytes(b"{"),
    "zeroed": lambda path, old: path.write_bytes(bytes(300)),
    "no ref": lambda path, old: write_json(path, {"name": "Base/line"}),
    "gone": lambda path, old: path.unlink(),
    "elsewhere": lambda path, old: write_json(path, json.loads(path.read_bytes()) | {"run": old}),
    "of another kind": lambda path, old: write_json(
        path, json.loads(path.read_bytes()) | {"kind": "tag"}
    ),
    "under another name": lambda path, old: path.rename(path.with_name("other.json")),
}


@pytest.mark.parametrize("how", list(SPOIL))
def test_a_ref_is_rebuilt_from_its_ops(
    named: tuple[Path, str, str], store_root: Path, how: str
) -> None:
    path, run, old = named
    sound, data = whole(store_root), path.read_bytes()
    SPOIL[how](path, old)
    before = whole(store_root)
    found = rows(store_root)
    assert {("missing" if how == "gone" else "damaged", "Base/line", True)} & set(found) or (
        how == "under another name"
    )
    assert whole(store_root) == before
    settled, left = repair(store_root)
    assert left.findings == []
    assert {item.result for item in settled} <= {"mended", "set aside in trash"}
    assert now(store_root) == {"Base/line": run}
    assert whole(store_root) == sound
    assert json.loads(path.read_bytes()) == json.loads(data)


def test_a_move_that_was_cut_off_behind_its_op_is_finished(
    named: tuple[Path, str, str], store_root: Path
) -> None:
    path, run, old = named
    data = path.read_bytes()
    name_ref(store_root, "Base/line", old, before=run)
    path.write_bytes(data)
    [found] = check(store_root).findings
    assert found.what.startswith(f"is at {run}; its last op ")
    assert found.what.endswith(f" says {old}")
    repair(store_root)
    assert now(store_root) == {"Base/line": old}


def test_a_ref_that_was_removed_stays_removed(
    named: tuple[Path, str, str], store_root: Path
) -> None:
    path, run, _ = named
    data = path.read_bytes()
    name_ref(store_root, "Base/line", None, before=run)
    assert check(store_root).findings == []
    path.write_bytes(data)
    assert rows(store_root) == [("damaged", "Base/line", True)]
    [row], left = repair(store_root)
    assert (row.result, left.findings) == ("set aside in trash", [])
    assert now(store_root) == {}


def test_a_ref_whose_own_op_cannot_be_read_is_newer_and_stays(
    named: tuple[Path, str, str], store_root: Path
) -> None:
    path, run, _ = named
    last = max((store_root / ".expdb/ops").rglob("*.json"))
    last.write_bytes(b"")
    before = path.read_bytes()
    [row], left = repair(store_root)
    assert (row.kind, row.path) == ("damaged", last.relative_to(store_root).as_posix())
    assert (row.what, row.can_mend, row.result) == (f"{last.name} is empty", False, "kept")
    assert [item.what for item in left.problems] == [row.what]
    assert path.read_bytes() == before
    assert now(store_root) == {"Base/line": run}
    assert last.read_bytes() == b""


def test_a_ref_without_ops_is_sound(store_root: Path, make_run_dir: MakeRun) -> None:
    run = finished(make_run_dir).id
    body = {"name": "mine", "kind": "tag", "run": run, "step": 3, "op": new_id()}
    write_json(StoreLayout(store_root).ref("mine"), body)
    assert check(store_root).findings == []
    other = StoreLayout(store_root).refs / "else.json"
    StoreLayout(store_root).ref("mine").rename(other)
    assert rows(store_root) == [("damaged", "else", True)]
    repair(store_root)
    assert now(store_root) == {"mine": run}
    other.write_bytes(b"?")
    [row], _ = repair(store_root)
    assert row.result == "set aside in trash"
    assert check(store_root).findings == []


def test_a_ref_to_a_run_that_is_not_there_is_named_and_kept(
    named: tuple[Path, str, str], store_root: Path
) -> None:
    path, run, _ = named
    [folder] = store_root.glob(f"exp=*/run={run}")
    (store_root / ".expdb/trash").mkdir()
    before = path.read_bytes()
    folder.rename(store_root / ".expdb/trash" / run)
    [row], left = repair(store_root)
    assert (row.kind, row.ref, row.result, row.can_mend) == ("missing", "Base/line", "kept", False)
    assert row.what == f"names run {run}, which is in the trash: expdb rm --restore {run}"
    assert len(left.problems) == 1
    assert path.read_bytes() == before
    (store_root / ".expdb/trash" / run).rename(store_root / "elsewhere")
    assert check(store_root).problems[0].what == f"names run {run}, which is not in the store"


def test_ops_with_hostile_content_build_no_ref(store_root: Path) -> None:
    layout = StoreLayout(store_root)
    for name, run in (("", "a" * 10), ("x", "../../etc"), ("\udce4", "a" * 10), (5, None)):
        after: dict[str, Any] = {"ref": name, "kind": "ref", "run": run, "step": None}
        op = Op(id=new_id(), kind="tag", before={}, after=after)
        expected_refs([op])
        write_op(layout, op)
    check(store_root)
    repair(store_root)
    assert list(layout.refs.iterdir()) == []


def test_a_newer_op_stops_nothing_and_changes_nothing(
    named: tuple[Path, str, str], store_root: Path
) -> None:
    path, _, _ = named
    last = max((store_root / ".expdb/ops").rglob("*.json"))
    write_json(last, json.loads(last.read_bytes()) | {"format": 99, "needs": "9.1"})
    path.write_bytes(b"{")
    rows, _ = repair(store_root)
    assert [item.kind for item in rows] == ["newer"]
    assert path.read_bytes() == b"{"


def test_an_op_of_a_work_tree_without_its_end_is_named(store_root: Path, tmp_path: Path) -> None:
    layout, git_dir = StoreLayout(store_root), tmp_path / "git"
    op = Op(id=new_id(), kind="rollback", phase="begin", what="rollback to x", after={"plan": []},
            work_tree=str(git_dir))  # fmt: skip
    write_op(layout, op)
    assert check(store_root).findings == []  # its work tree knows nothing of it
    mark_unfinished(
        git_dir,
        Marker(op=op.id, store=str(store_root), kind="rollback", what="x", created_at_ms=0),
    )
    [found] = check(store_root).findings
    assert (found.kind, found.is_problem) == ("unfinished", False)
    assert found.what == "rollback to x stopped before its end: expdb rollback --continue"
    end = Op(id=new_id(), kind="rollback", phase="end", parents=(op.id,))
    write_op(layout, end)
    assert check(store_root).findings == []
    assert len(read_ops(layout)) == 2
