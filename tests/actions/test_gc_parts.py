"""`gc` folds runs of many parts and sets aside lists of packages that no run names."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from expdb.actions.gc.collect import Wanted, collect, plan_gc
from expdb.actions.gc.results import GcPlan, GcResult
from expdb.actions.rm import plan_removal, remove
from expdb.actions.undo import undo
from expdb.index.reader import open_reader
from expdb.model import Attempt, Pin
from expdb.report import gc as report
from expdb.store import attempts, owner
from expdb.store.files import write_json
from expdb.store.layout import RunLayout
from expdb.store.ops import now_ms, read_ops
from expdb.store.packages import keep_packages, read_packages
from expdb.store.status import Status, write_status
from expdb.store.store import open_store
from tests.store.test_fold_parts import made, rows

NAMES = [{"numpy": "1.0"}, {"numpy": "2.0"}, {"numpy": "3.0"}]


def many(root: Path, num: int = 12) -> RunLayout:
    """A finished run with so many parts."""
    return made(root, [(0, ["a", "b"], step) for step in range(2 * num)])


def parts(layout: RunLayout) -> int:
    return len(list(layout.points.glob("part-*.parquet")))


def plan(root: Path, **wanted: object) -> GcPlan:
    with open_reader(open_store(root)) as reader:
        return plan_gc(reader, Wanted(**wanted), now_ms=now_ms())  # type: ignore[arg-type]


def gc(root: Path, **wanted: object) -> GcResult:
    asked = Wanted(**wanted)  # type: ignore[arg-type]
    with open_reader(open_store(root)) as reader:
        return collect(reader, plan_gc(reader, asked, now_ms=now_ms()), asked)


def listed(layout: RunLayout) -> int:
    text = layout.parts_list(1, 0).read_text()
    return len(json.loads(text)["parts"])


def older(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_many_parts_become_one_and_the_old_files_go_later(store_root: Path) -> None:
    layout, few = many(store_root), many(store_root, 8)
    before = rows(layout)
    found = plan(store_root)
    assert [(one.kind, one.run, one.why) for one in found.going()] == [
        ("parts", layout.id, "12 parts -> 1")
    ]
    body = report.document(found, None)
    assert [(one["kind"], one["why"], one["goes"]) for one in body["items"]] == [
        ("parts", "12 parts -> 1", True)
    ]
    assert parts(layout) == 12
    done = gc(store_root)
    assert ([one.run for one in done.done], done.left) == ([layout.id], ())
    assert (listed(layout), parts(layout), parts(few)) == (1, 13, 8)
    assert rows(layout) == before
    assert [op.what for op in read_ops(open_store(store_root).layout)] == ["gc: 1 run folded"]
    assert plan(store_root).going() == ()
    older(layout.parts_list(1, 0), 601)
    [item] = plan(store_root).going()
    assert item.why == "folded more than 10 minutes ago"
    assert item.bytes > 0
    gc(store_root)
    assert (listed(layout), parts(layout)) == (1, 1)
    assert rows(layout) == before
    assert plan(store_root).going() == ()


def test_a_run_that_is_written_is_left_alone(store_root: Path) -> None:
    layout = many(store_root)
    write_json(layout.attempt(1) / "owner.json", owner.describe())
    write_status(layout, Status(state="running", last_step=1))
    assert plan(store_root).going() == ()
    other = many(store_root)
    with open_reader(open_store(store_root)) as reader:
        found = plan_gc(reader, Wanted(), now_ms=now_ms())
        write_json(other.attempt(1) / "owner.json", owner.describe())
        write_status(other, Status(state="running", last_step=1))
        done = collect(reader, found, Wanted())
    assert done.done == ()
    assert done.left[0].startswith(f"the parts of {other.id} stay: ")
    assert (parts(layout), parts(other)) == (12, 12)


def test_damaged_parts_stay_and_are_named(store_root: Path) -> None:
    layout = many(store_root)
    layout.parts_list(1, 0).write_text("{")
    found = plan(store_root)
    assert found.going() == ()
    assert any(layout.id in line for line in found.problems)


def run_with(root: Path, digest: str | None) -> RunLayout:
    layout = made(root, [(0, ["a"], 0)])
    environment = {} if digest is None else {"packages": digest}
    attempts.write_pin(layout, Attempt(number=1, pin=Pin(), environment=environment))
    return layout


def test_lists_of_packages_that_no_run_names_go_and_come_back(store_root: Path) -> None:
    layout = open_store(store_root).layout
    digests = [keep_packages(layout, names) for names in NAMES]
    run_with(store_root, digests[0])
    gone = run_with(store_root, digests[1])
    with open_reader(open_store(store_root)) as reader:
        remove(reader, plan_removal(reader, [gone.id]))
    assert plan(store_root).going() == ()  # all are of today
    for digest in digests:
        assert digest is not None
        older(layout.packages(digest.removeprefix("sha256:")), 90_000)
    [item] = plan(store_root).going()
    assert (item.kind, f"sha256:{item.what}", item.why) == (
        "packages", digests[2], "no run names it",
    )  # fmt: skip
    done = gc(store_root)
    assert [one.kind for one in done.done] == ["packages"]
    kept = [read_packages(layout, digest) for digest in digests]
    assert kept == [NAMES[0], NAMES[1], None]
    with open_reader(open_store(store_root)) as reader:
        assert undo(reader, None).record == ("gc", "1 list of packages back")
    assert read_packages(layout, digests[2]) == NAMES[2]
    assert not list(layout.trash.glob("gc-*"))
    gc(store_root)
    purged = gc(store_root, purge_ms=0)
    assert sorted(one.what for one in purged.done if one.kind == "trash") == sorted(
        [gone.id, "lists of packages"]
    )
    # With the run that named it another one goes: to the trash first, as all do.
    [left] = layout.trash.glob("gc-*/packages/*.json")
    assert f"sha256:{left.stem}" == digests[1]
    assert read_packages(layout, digests[0]) == NAMES[0]


def test_a_list_that_is_kept_again_meanwhile_stays(store_root: Path) -> None:
    layout = open_store(store_root).layout
    digest = keep_packages(layout, NAMES[0])
    assert digest is not None
    path = layout.packages(digest.removeprefix("sha256:"))
    older(path, 90_000)
    with open_reader(open_store(store_root)) as reader:
        found = plan_gc(reader, Wanted(), now_ms=now_ms())
        assert [one.kind for one in found.going()] == ["packages"]
        keep_packages(layout, NAMES[0])
        done = collect(reader, found, Wanted())
    assert done.done == ()
    assert "a run names it by now" in done.left[0]
    assert read_packages(layout, digest) == NAMES[0]


def test_where_a_run_cannot_be_read_every_list_stays(store_root: Path) -> None:
    layout = open_store(store_root).layout
    digest = keep_packages(layout, NAMES[0])
    assert digest is not None
    older(layout.packages(digest.removeprefix("sha256:")), 90_000)
    broken = run_with(store_root, None)
    (broken.attempt(1) / "pin.json").write_text("{")
    found = plan(store_root)
    assert found.going() == ()
    assert any(line.startswith("every list of packages stays: ") for line in found.problems)


def test_another_runs_parts_are_not_touched_when_runs_are_named(store_root: Path) -> None:
    one, other = many(store_root), many(store_root)
    found = plan(store_root, runs=[one.id])
    assert [item.run for item in found.going()] == [one.id]
    gc(store_root, runs=[one.id])
    assert (listed(one), listed(other)) == (1, 12)


@pytest.mark.parametrize("kind", ["parts", "packages"])
def test_the_plan_says_it(store_root: Path, kind: str) -> None:
    from expdb.report.style import Style

    if kind == "parts":
        many(store_root)
        wanted = "the parts of 1 run, folded"
    else:
        layout = open_store(store_root).layout
        digest = keep_packages(layout, NAMES[0])
        assert digest is not None
        older(layout.packages(digest.removeprefix("sha256:")), 90_000)
        wanted = "1 list of packages, 18 B, to the trash"
    lines = report.render_plan(plan(store_root), Style(now_ms=now_ms()), all=False)
    assert lines[-1] == f"would collect {wanted}"
