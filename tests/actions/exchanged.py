"""Two worlds and a folder between them, for the tests of push and pull."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from expdb.actions.exchange import Exchanged
from expdb.actions.pull import pull
from expdb.actions.push import push
from expdb.actions.remote import add
from expdb.store import artifacts, owner
from expdb.store.files import write_json
from expdb.store.layout import RunLayout
from expdb.store.marks import add_event, add_mark
from expdb.store.media_recorder import MediaRecorder
from expdb.store.recorder import Recorder
from expdb.store.remotes import find_remote
from expdb.store.status import Status, read_status, write_status
from tests.actions.conftest import World

MakeWorld = Callable[..., World]
DERIVED = ("expdb", "index", "clock", "locks")


def linked(place: Path, *worlds: World, name: str = "lab") -> None:
    """Name one folder in several stores."""
    place.mkdir(exist_ok=True)
    for world in worlds:
        add(world.store, name, place)


def pushed(world: World, *runs: str, dry_run: bool = False, code: bool = True) -> Exchanged:
    remote = find_remote(world.store.layout)
    with world.reader() as reader:
        worktree = world.worktree if code else None
        return push(reader, remote, runs or None, worktree=worktree, dry_run=dry_run)


def pulled(
    world: World, *words: str, where: str = "", dry_run: bool = False, code: bool = True
) -> Exchanged:
    worktree = world.worktree if code else None
    remote, filters = find_remote(world.store.layout), [where] if where else []
    return pull(world.store, remote, words, where=filters, worktree=worktree, dry_run=dry_run)


def outcomes(done: Exchanged) -> dict[str, str]:
    return {one.run: one.outcome for one in done.runs}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, temporary ones too."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """The inode and time of every file: what a copy would change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "locks" not in path.parts:
            seen = path.stat()
            found[path.relative_to(folder).as_posix()] = (seen.st_ino, seen.st_mtime_ns)
    return found


def rich(world: World, experiment: str = "baseline", **facts: object) -> str:
    """A finished run with one of everything that a run can have."""
    run = world.run(experiment, **facts)  # type: ignore[arg-type]
    layout = RunLayout(world.folder(run))
    layout.evals.mkdir()
    body = {"id": "e1", "task": "cloze", "step": 300, "metrics": {"acc": 0.4}}
    write_json(layout.evals / "e1.json", body, durable=False)
    (layout.evals / "e1.items.parquet").write_bytes(os.urandom(500))
    media = MediaRecorder(layout, run=run, attempt=1)
    media.add("text", "sample", 100, 1_700_000_000_000, {"text": "once upon a time"})
    media.close()
    add_event(layout, 3, "warn", "grad_spike", "z 7.1 > 6")
    add_mark(layout, "label", "keep")
    add_mark(layout, "note", "a note")
    source = world.top / "plot.bin"
    source.write_bytes(os.urandom(2000))
    artifacts.add_artifact(layout, "plot.bin", artifacts.sources(source), attempt=1)
    source.unlink()
    (layout.attempt(1) / "log.txt").write_text("step 1\n")
    (layout.root / "plots").mkdir()
    (layout.root / "plots/own.txt").write_text("of the user's script\n")
    write_status(layout, read_status(layout))
    return run


def resumed(world: World, run: str, *, state: str = "finished", step: int = 400) -> None:
    """Add a second attempt with points, a checkpoint and new summaries."""
    layout = RunLayout(world.folder(run))
    layout.attempt(2).mkdir()
    write_json(layout.attempt(2) / "owner.json", {**owner.describe(), "start": -step})
    pin = layout.attempt(1) / "pin.json"
    (layout.attempt(2) / "pin.json").write_bytes(
        pin.read_bytes().replace(b'"attempt":1', b'"attempt":2')
    )
    from expdb.store.series import load

    book = load(layout.series_json)
    item = Recorder(layout, run=run, attempt=2, book=book)
    for at in range(310, step + 1, 10):
        item.write(("val/loss",), (1.8 - at / 10_000,), at, at * 100)
    item.close()
    item.book.save(layout.series_json)
    world.checkpoint(layout, step)
    manifest = layout.checkpoint(step) / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"attempt":1', b'"attempt":2'))
    status = read_status(layout)
    write_status(layout, Status(state=state, attempt=2, last_step=step, max_steps=status.max_steps))
