"""Every kind of damage, planted: it is named with its file, and a repair loses nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from expdb.store import series
from expdb.store.attempts import read_pin
from expdb.store.files import write_json
from expdb.store.journal import encode_header
from expdb.store.layout import RunLayout
from expdb.store.parts import read_list, write_list
from expdb.store.points import read_series
from expdb.store.runs import read_run
from expdb.store.status import read_status, write_status
from tests.store.fsck_made import (
    CANONICAL,
    check,
    finished,
    flip,
    killed,
    points,
    repair,
    said,
    whole,
)

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]


@dataclass(frozen=True)
class Damage:
    """One way to spoil a run, and what fsck has to make of it."""

    plant: Callable[[RunLayout], object]
    found: tuple[str, ...]
    result: str
    left: tuple[str, ...] = ()
    lost: int = 0


def part(layout: RunLayout) -> Path:
    [path] = layout.points.glob("part-*.parquet")
    return path


def spoil(name: str, data: bytes) -> Callable[[RunLayout], object]:
    return lambda layout: (layout.root / name).write_bytes(data)


def cut(name: str, keep: int) -> Callable[[RunLayout], object]:
    def plant(layout: RunLayout) -> None:
        path = layout.root / name
        path.write_bytes(path.read_bytes()[:keep])

    return plant


def line(name: str, number: int, text: bytes) -> Callable[[RunLayout], object]:
    def plant(layout: RunLayout) -> None:
        path = layout.root / name
        lines = path.read_bytes().split(b"\n")
        lines[number - 1] = text
        path.write_bytes(b"\n".join(lines))

    return plant


def edit_json(name: str, **change: object) -> Callable[[RunLayout], object]:
    def plant(layout: RunLayout) -> None:
        path = layout.root / name
        write_json(path, json.loads(path.read_bytes()) | change)

    return plant


def wrong_count(layout: RunLayout) -> None:
    body = json.loads(layout.series_json.read_bytes())
    body["series"]["val/loss"]["count"] = 19
    write_json(layout.series_json, body)


def loose_part(layout: RunLayout) -> None:
    write_list(layout.parts_list(1, 0), ())


def foreign_part(layout: RunLayout) -> None:
    shutil.copy(part(layout), layout.part(1, 0, 500, 600))


def doubled_part(layout: RunLayout) -> None:
    [entry] = read_list(layout.parts_list(1, 0))
    shutil.copy(part(layout), layout.part(1, 0, 1, entry.last_seq + 5))


PART, LIST = "points/part-a1-r0-1-21.parquet", "attempts/1/rank-0.json"
DAMAGES = {
    "part flipped": Damage(
        lambda at: flip(part(at), 60), (f"damaged {PART}",), "set aside in trash",
        (f"missing {PART}",), 40,
    ),
    "part cut": Damage(
        cut(PART, 300), (f"damaged {PART}",), "set aside in trash", (f"missing {PART}",), 40
    ),
    "part zeroed": Damage(
        lambda at: part(at).write_bytes(bytes(part(at).stat().st_size)),
        (f"damaged {PART}",), "set aside in trash", (f"missing {PART}",), 40,
    ),
    "part gone": Damage(
        lambda at: part(at).unlink(), (f"missing {PART}",), "kept", (f"missing {PART}",), 40
    ),
    "part empty": Damage(
        spoil(PART, b""), (f"damaged {PART}",), "set aside in trash", (f"missing {PART}",), 40
    ),
    "foreign file called part": Damage(
        spoil("points/part-x.parquet", b"no"), ("damaged points/part-x.parquet",),
        "set aside in trash",
    ),
    "part of no list": Damage(
        foreign_part, ("damaged points/part-a1-r0-500-600.parquet",), "set aside in trash"
    ),
    "part of an attempt that is not there": Damage(
        lambda at: shutil.copy(part(at), at.part(7, 0, 1, 21)),
        ("damaged points/part-a7-r0-1-21.parquet",), "set aside in trash",
    ),
    "part twice": Damage(
        doubled_part, ("damaged points/part-a1-r0-1-26.parquet",), "set aside in trash"
    ),
    "list damaged": Damage(spoil(LIST, b"{"), (f"damaged {LIST}",), "mended"),
    "list gone": Damage(lambda at: (at.root / LIST).unlink(), (f"missing {LIST}",), "mended"),
    "list forgot a part": Damage(loose_part, (f"damaged {PART}",), "mended"),
    "series damaged": Damage(spoil("series.json", b"\x00"), ("damaged series.json",), "mended"),
    "series gone": Damage(
        lambda at: at.series_json.unlink(), ("missing series.json",), "mended"
    ),
    "series wrong": Damage(wrong_count, ("damaged series.json",), "mended"),
    "status damaged": Damage(spoil("status.json", b'{"state": 5}'),
                             ("damaged status.json",), "mended"),
    "status gone": Damage(
        lambda at: at.status_json.unlink(), ("missing status.json",), "mended"
    ),
    "run.json damaged": Damage(
        spoil("run.json", b"{"), ("damaged run.json",), "kept", ("damaged run.json",)
    ),
    "run.json gone": Damage(
        lambda at: at.run_json.unlink(), ("missing run.json",), "kept", ("missing run.json",)
    ),
    "run.json wrong": Damage(
        edit_json("run.json", seed="zero"), ("damaged run.json",), "kept", ("damaged run.json",)
    ),
    "config damaged": Damage(cut("config.json", 5), ("damaged config.json",), "mended"),
    "config other": Damage(
        edit_json("config.json", more=1), ("damaged config.json",), "mended"
    ),
    "config.yaml cut": Damage(
        lambda at: (spoil("config.yaml", b"a: 12")(at), write_status(at, read_status(at)),
                    spoil("config.yaml", b"a")(at)),
        ("damaged config.yaml",), "kept", ("damaged config.yaml",),
    ),
    "pin damaged": Damage(cut("attempts/1/pin.json", 9), ("damaged attempts/1/pin.json",),
                          "mended"),
    "eval damaged": Damage(spoil("evals/e1.json", b"[1]"), ("damaged evals/e1.json",),
                           "set aside in trash"),
    "note damaged": Damage(line("marks.jsonl", 2, b"{nonsense"), ("damaged marks.jsonl",),
                           "mended"),
    "event of one byte": Damage(line("events.jsonl", 2, b"x"), ("damaged events.jsonl",),
                                "mended"),
    "checkpoint flipped": Damage(
        lambda at: flip(at.checkpoint(20) / "optim.pt", 7),
        ("damaged checkpoints/step=20/optim.pt",), "set aside in trash",
    ),
    "checkpoint cut": Damage(
        cut("checkpoints/step=20/model.pt", 3), ("damaged checkpoints/step=20/model.pt",),
        "set aside in trash",
    ),
    "checkpoint file gone": Damage(
        lambda at: (at.checkpoint(20) / "model.pt").unlink(),
        ("missing checkpoints/step=20/model.pt",), "set aside in trash",
    ),
    "manifest gone": Damage(
        lambda at: (at.checkpoint(20) / "manifest.json").unlink(),
        ("damaged checkpoints/step=20/manifest.json",), "set aside in trash",
    ),
    "manifest damaged": Damage(
        spoil("checkpoints/step=20/manifest.json", b"{}"),
        ("damaged checkpoints/step=20/manifest.json",), "set aside in trash",
    ),
    "checkpoint gone": Damage(
        lambda at: shutil.rmtree(at.checkpoint(20)), ("damaged status.json",), "mended"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(DAMAGES))
def test_damage_of_a_finished_run_is_named_and_mended(
    make_run_dir: MakeRun, store_root: Path, name: str
) -> None:
    damage, layout = DAMAGES[name], finished(make_run_dir)
    sound = points(layout)
    damage.plant(layout)
    before, spoilt = points(layout), whole(store_root)
    held = {path: path.read_bytes() for path in layout.root.rglob("*") if path.is_file()}
    found = check(store_root)
    assert whole(store_root) == spoilt
    assert said(found.findings) == list(damage.found)
    assert {item.run for item in found.findings} == {layout.id}
    assert sum(item.points_lost for item in found.findings) == damage.lost
    rows, left = repair(store_root)
    assert (rows[0].result, rows[0].path) == (damage.result, found.findings[0].path)
    assert said(left.problems) == list(damage.left)
    assert set(before) <= set(points(layout))
    assert damage.lost or points(layout) == sound
    check_nothing_gone(store_root, held, name)
    mended = whole(store_root)
    changed = {name for name in mended if mended[name] != spoilt.get(name)}
    assert damage.result != "kept" or {Path(name).name for name in changed} <= {"status.json"}
    again, left = repair(store_root)
    assert [item.result for item in again] == ["kept"] * len(damage.left)
    assert said(left.problems) == list(damage.left)
    assert whole(store_root) == mended


def check_nothing_gone(root: Path, held: dict[Path, bytes], name: str) -> None:
    """What was replaced or moved is in the trash."""
    trash = (root / ".expdb/trash").rglob("*")
    kept = {path.read_bytes() for path in trash if path.is_file()}
    for path, data in held.items():
        is_same = path.is_file() and path.read_bytes() == data
        # Sound lists of files are brought up to date; damaged ones are in the trash.
        is_list = path.name in ("status.json", "rank-0.json")
        is_list = is_list and name not in ("status damaged", "list damaged")
        assert is_same or data in kept or is_list, path.name


# ---------------------------------------------------------------------- what is known afterwards


def test_a_lost_part_leaves_what_is_known_of_its_series(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = finished(make_run_dir)
    known = series.load(layout.series_json).series
    flip(part(layout), 60)
    repair(store_root)
    assert series.load(layout.series_json).series == known
    problems: list[str] = []
    read_series(layout.root, problems=problems)
    assert problems == ["part-a1-r0-1-21.parquet is missing"]


def test_a_lost_pin_says_so(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    (layout.attempt(1) / "pin.json").write_bytes(b"?")
    repair(store_root)
    pin = read_pin(layout, 1).pin
    assert (pin.commit, pin.reproducible) == (None, False)
    assert pin.reasons == ("its pin.json was damaged and set aside by fsck",)


def test_a_lost_status_is_written_from_the_points(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    layout.status_json.write_bytes(b"")
    repair(store_root)
    status = read_status(layout)
    assert (status.state, status.last_step, status.attempt) == ("crashed", 19, 1)
    assert status.reason == "its status.json was damaged: how it ended is not known"
    assert status.files["series.json"] == layout.series_json.stat().st_size


def test_the_sound_lines_beside_a_damaged_one_stay(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    line("marks.jsonl", 2, b"\xff{")(layout)
    line("events.jsonl", 1, b"[3]")(layout)
    repair(store_root)
    run = read_run(layout.root, store_root=store_root)
    assert run.notes == ("note 0", "note 2")
    assert [event.step for event in run.events] == [1, 2]
    assert run.problems == ()


def test_a_set_aside_checkpoint_leaves_the_sound_ones(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = finished(make_run_dir)
    flip(layout.checkpoint(20) / "model.pt", 1)
    [row], _ = repair(store_root)
    run = read_run(layout.root, store_root=store_root)
    assert [(item.step, item.complete) for item in run.checkpoints] == [(10, True)]
    assert not any("step=20" in name for name in read_status(layout).files)
    assert row.trash.startswith(".expdb/trash/fsck-")
    assert (store_root / row.trash).exists()
    assert (store_root / row.trash).with_name("optim.pt").exists()


def test_a_config_comes_back_from_run_json(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = finished(make_run_dir)
    layout.config_json.write_bytes(b"")
    repair(store_root)
    assert json.loads(layout.config_json.read_bytes()) == {"optim.lr": 0.003, "seed": 0}
    assert json.loads(layout.run_json.read_bytes())["canonical"] == CANONICAL


# ------------------------------------------------------------------------------------- journals


def test_a_torn_journal_is_named_and_sealed(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = killed(make_run_dir)
    before = points(layout)
    [found] = check(store_root).findings
    assert found.what == "rank-0.2.wal: torn at its end; all 9 whole frames kept"
    assert (found.can_mend, found.points_lost) == (True, 0)
    [row], left = repair(store_root)
    assert (row.result, left.findings) == ("mended", [])
    assert points(layout) == before
    assert read_run(layout.root, store_root=store_root).series["val/loss"].count == 16


def test_a_zeroed_journal_end_is_not_data(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = killed(make_run_dir, torn=bytes(4096))
    before = points(layout)
    [row], left = repair(store_root)
    assert (row.result, left.findings, points(layout)) == ("mended", [], before)


def test_damage_within_a_journal_keeps_what_is_behind_it(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = killed(make_run_dir, torn=b"")
    flip(layout.attempt(1) / "rank-0.2.wal", -150)
    before = points(layout)
    assert len(before) == 30
    [found] = check(store_root).findings
    assert "damaged after 6 whole frames; 2 of 2 behind it could be read" in found.what
    assert (found.points_lost, found.is_least) == (1, True)
    rows, left = repair(store_root)
    assert (len(rows), left.findings, points(layout)) == (1, [], before)
    assert [path.name for path in layout.attempt(1).glob("*.wal*")] == []
    [kept] = (store_root / ".expdb/trash").rglob("rank-0.2.wal.damaged")
    assert len(kept.read_bytes()) > 500


def test_a_damaged_header_costs_nothing(make_run_dir: MakeRun, store_root: Path) -> None:
    sound, layout = killed(make_run_dir, torn=b""), killed(make_run_dir, torn=b"")
    flip(layout.attempt(1) / "rank-0.2.wal", 20)
    assert len(points(layout)) == 16
    [found] = check(store_root).findings
    assert found.what == "the header of rank-0.2.wal is damaged; 8 whole frames behind it"
    assert found.points_lost == 0
    _, left = repair(store_root)
    assert left.findings == []
    assert points(layout) == points(sound)
    assert check(store_root).findings == []
    assert read_run(layout.root, store_root=store_root).series["val/loss"].count == 16


def test_a_journal_that_was_set_beside_before_is_looked_through(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    from expdb.store.recover import recover

    sound, layout = killed(make_run_dir, torn=b""), killed(make_run_dir, torn=b"")
    flip(layout.attempt(1) / "rank-0.2.wal", 20)
    recover(store_root, layout)
    assert len(points(layout)) == 16
    [found] = check(store_root).problems
    assert found.path.endswith("attempts/1/rank-0.2.wal.damaged")
    _, left = repair(store_root)
    assert (left.findings, points(layout)) == ([], points(sound))


def test_what_is_no_journal_is_set_aside(make_run_dir: MakeRun, store_root: Path) -> None:
    layout = killed(make_run_dir)
    layout.journal(1, 0, 9).write_bytes(b"something else")
    before = points(layout)
    repair(store_root)
    assert points(layout) == before
    assert check(store_root).findings == []
    [kept] = (store_root / ".expdb/trash").rglob("rank-0.9.wal.damaged")
    assert kept.read_bytes() == b"something else"


def test_frames_of_another_run_are_not_taken(make_run_dir: MakeRun, store_root: Path) -> None:
    other, layout = killed(make_run_dir, torn=b""), killed(make_run_dir, torn=b"")
    repair(store_root)
    data = other_journal(make_run_dir)
    (layout.attempt(1) / "rank-0.7.wal.damaged").write_bytes(data)
    before = points(layout)
    repair(store_root)
    assert points(layout) == before == points(other)
    assert check(store_root).findings == []


def other_journal(make_run_dir: MakeRun) -> bytes:
    layout = killed(make_run_dir, torn=b"")
    data = (layout.attempt(1) / "rank-0.2.wal").read_bytes()
    shutil.rmtree(layout.root)
    assert data.startswith(encode_header(run=layout.id, attempt=1, rank=0)[:6])
    return data


def test_a_lost_part_comes_back_from_a_journal_that_has_its_points(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = killed(make_run_dir)
    sound = points(layout)
    repair(store_root)
    assert [path.name for path in layout.attempt(1).glob("*.torn")] == ["rank-0.2.wal.torn"]
    last = max(layout.points.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    flip(last, 80)
    assert len(points(layout)) == 16
    [found] = check(store_root).findings
    assert found.what.endswith("its journal has them all")
    assert (found.can_mend, found.points_lost) == (True, 0)
    _, left = repair(store_root)
    assert (left.findings, points(layout)) == ([], sound)
    last.unlink()
    assert said(check(store_root).findings) == [f"missing points/{last.name}"]
    _, left = repair(store_root)
    assert (left.findings, points(layout)) == ([], sound)


def test_a_lost_list_beside_a_journal_costs_no_part(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    for spoiled in (b"{", None):
        layout = killed(make_run_dir, torn=b"")
        sound = points(layout)
        if spoiled is None:
            layout.parts_list(1, 0).unlink()
        else:
            layout.parts_list(1, 0).write_bytes(spoiled)
        kind = "missing" if spoiled is None else "damaged"
        assert said(check(store_root).problems) == [f"{kind} attempts/1/rank-0.json"]
        _, left = repair(store_root)
        assert (left.findings, points(layout)) == ([], sound)
        assert len(read_list(layout.parts_list(1, 0))) == 2


def test_a_part_whose_frames_the_journal_still_has_is_left_to_the_recovery(
    make_run_dir: MakeRun, store_root: Path
) -> None:
    layout = killed(make_run_dir, torn=b"")
    sound = points(layout)
    entries = read_list(layout.parts_list(1, 0))
    before = (layout.attempt(1) / "rank-0.2.wal").read_bytes()
    repair(store_root)
    (layout.attempt(1) / "rank-0.2.wal").write_bytes(before)
    write_list(layout.parts_list(1, 0), entries)  # as a kill between the part and its list leaves
    write_json(layout.status_json, {"state": "running"})
    assert check(store_root).findings == []
    repair(store_root)
    assert points(layout) == sound
    assert check(store_root).findings == []
