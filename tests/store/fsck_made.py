"""Runs on disk as a training process leaves them, for the tests of fsck."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from expdb import digest
from expdb.model import Attempt, Op, Pin, RunAt
from expdb.store import checkpoints, owner
from expdb.store.attempts import write_pin
from expdb.store.files import write_json
from expdb.store.fsck.check import check_store, repair_store
from expdb.store.fsck.report import Checked, Finding
from expdb.store.fsck.trash import Trash
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.marks import add_event, add_mark
from expdb.store.points import read_series
from expdb.store.recorder import Recorder
from expdb.store.refs import move_ref
from expdb.store.status import Status, write_status

KEYS = ("train/loss", "val/loss")
CANONICAL = digest.canonical({"optim": {"lr": 0.003}, "seed": 0})
MakeRun = Callable[..., RunLayout]
DERIVED = (".expdb/trash", ".expdb/index", ".expdb/clock", ".expdb/locks")


def finished(make_run_dir: MakeRun, **identity: Any) -> RunLayout:
    """A finished run with 20 steps, a checkpoint, an eval, an event, a note, a config."""
    layout = make_run_dir(who={**owner.describe(), "start": -1}, canonical=CANONICAL, **identity)
    write_pin(layout, Attempt(number=1, pin=Pin(commit="4be1f02" + "0" * 33, tree="9" * 40)))
    write_json(layout.config_json, digest.leaves(CANONICAL), durable=False)
    item = log(layout, range(20))
    save(layout, 10)
    save(layout, 20)
    layout.evals.mkdir()
    body = {"id": "e1", "task": "cloze", "step": 20, "metrics": {"acc": 0.4}}
    write_json(layout.evals / "e1.json", body, durable=False)
    for number in range(3):
        add_event(layout, number, "warn", "grad_spike", "z 7.1 > 6")
        add_mark(layout, "note", f"note {number}")
    item.close()
    item.book.save(layout.series_json)
    write_status(layout, Status(state="finished", last_step=19, max_steps=20))
    return layout


def killed(make_run_dir: MakeRun, *, torn: bytes = b"\xdb\xe7\x30") -> RunLayout:
    """A run whose process died: one part, one journal with a torn end."""
    layout = make_run_dir(who={**owner.describe(), "start": -1}, canonical=CANONICAL)
    write_pin(layout, Attempt(number=1, pin=Pin()))
    item = log(layout, range(8))
    seal_now(item)
    for step in range(8, 16):
        item.write(KEYS, (float(step), -step / 3), step, step * 100)
    item.book.save(layout.series_json)
    item.abandon()
    [journal] = layout.attempt(1).glob("*.wal")
    journal.write_bytes(journal.read_bytes() + torn)
    return layout


def log(layout: RunLayout, steps: range, *, attempt: int = 1) -> Recorder:
    item = Recorder(layout, run=layout.id, attempt=attempt)
    for step in steps:
        item.write(KEYS, (float(step), -step / 3), step, step * 100)
    return item


def seal_now(item: Recorder) -> None:
    """Seal what was written so far, as a full journal would."""
    item._cut()
    item._start_sealing()
    assert item._sealing is not None
    item._sealing.join()


def save(layout: RunLayout, step: int) -> None:
    folder = checkpoints.temp_dir(layout, step)
    folder.mkdir(parents=True)
    for name in ("model", "optim"):
        (folder / f"{name}.pt").write_bytes(f"{name} {step} ".encode() * 40)
    parts = {name: {"file": f"{name}.pt", "names": []} for name in ("model", "optim")}
    checkpoints.seal(folder, checkpoints.Manifest(step=step, parts=parts))
    checkpoints.put_in_place(layout, step)


def name_ref(root: Path, name: str, run: str | None, *, before: str | None = None) -> str:
    """Move a ref with its op; return the op."""
    at = {"ref": name, "kind": "ref"}
    op = Op(
        id=new_id(),
        kind="baseline",
        before={**at, "run": before, "step": None},
        after={**at, "run": run, "step": None},
    )
    move_ref(
        StoreLayout(root),
        name,
        "ref",
        before=RunAt(run=before) if before else None,
        after=RunAt(run=run) if run else None,
        op=op,
    )
    return op.id


def check(root: Path) -> Checked:
    return check_store(StoreLayout(root))


def repair(root: Path) -> tuple[list[Finding], Checked]:
    found = check(root)
    rows, left, _ = repair_store(StoreLayout(root), found, trash=Trash(StoreLayout(root)))
    return rows, left


def points(layout: RunLayout) -> list[tuple[Any, ...]]:
    """Every point that a reader sees, values by their bits."""
    table = read_series(layout.root, problems=[])
    columns = [table[name].to_pylist() for name in ("key", "step", "time", "rank", "seq")]
    return sorted(zip(*columns, map(repr, table["value"].to_pylist()), strict=True))


def said(found: list[Finding]) -> list[str]:
    """The findings as short lines."""
    return [f"{item.kind} {item.path.partition('/run=')[2][11:] or item.path}" for item in found]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def whole(root: Path) -> dict[str, str]:
    """Every file of the store but derived, set-aside and cut-off ones: path -> content."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        is_passing = path.name.startswith(".tmp-") or path.suffix == ".lock"
        if not path.is_file() or is_passing or name.startswith(DERIVED):
            continue
        data = path.read_bytes()
        if name.endswith(".json"):
            try:
                body = json.loads(data)
            except ValueError:
                body = data.hex()
            if isinstance(body, dict):
                body.pop("updated_at_ms", None)
                body.pop("ended_at_ms", None)
                body.pop("files", None)  # brought up to date by whoever writes next
            found[name] = json.dumps(body, sort_keys=True)
        else:
            found[name] = data.hex()
    return found


def part(layout: RunLayout) -> Path:
    [path] = layout.points.glob("part-*.parquet")
    return path


def line(name: str, number: int, text: bytes) -> Callable[[RunLayout], object]:
    def plant(layout: RunLayout) -> None:
        path = layout.root / name
        lines = path.read_bytes().split(b"\n")
        lines[number - 1] = text
        path.write_bytes(b"\n".join(lines))

    return plant
