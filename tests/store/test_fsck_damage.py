"""Every kind of damage, planted: it is named with its file, and a repair loses nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from expdb.store.files import write_json
from expdb.store.layout import RunLayout
from expdb.store.parts import read_list, write_list
from expdb.store.status import read_status, write_status
from tests.store.fsck_made import (
    check,
    finished,
    flip,
    line,
    part,
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


def spoil(name: str, data: bytes) -> Callable[[RunLayout], object]:
    return lambda layout: (layout.root / name).write_bytes(data)


def cut(name: str, keep: int) -> Callable[[RunLayout], object]:
    def plant(layout: RunLayout) -> None:
        path = layout.root / name
        path.write_bytes(path.read_bytes()[:keep])

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
