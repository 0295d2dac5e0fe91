"""Files of every kind that are torn, zeroed, flipped, empty, cut or foreign: named, and the rest
read as before.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from expdb.cli.main import main
from expdb.index.reader import open_reader
from expdb.query.rank import ranking
from expdb.store.artifacts import add_artifact, sources
from expdb.store.layout import RunLayout
from expdb.store.media_recorder import MediaRecorder
from expdb.store.store import open_store
from tests.faults.counting import Tally
from tests.faults.lives import SOAK
from tests.store.fsck_made import check, finished, killed, points, repair

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]
Damage = Callable[[bytes, random.Random], bytes]


def cut(data: bytes, chosen: random.Random) -> bytes:
    return data[: len(data) // 2]


def torn(data: bytes, chosen: random.Random) -> bytes:
    return data[: -min(3, len(data))]


def zeroed(data: bytes, chosen: random.Random) -> bytes:
    return bytes(len(data))


def half_zeroed(data: bytes, chosen: random.Random) -> bytes:
    return data[: len(data) // 2] + bytes(len(data) - len(data) // 2)


def empty(data: bytes, chosen: random.Random) -> bytes:
    return b""


def four(data: bytes, chosen: random.Random) -> bytes:
    return b"PAR1"


def foreign(data: bytes, chosen: random.Random) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4


def flipped(data: bytes, chosen: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(3):
        out[chosen.randrange(len(out))] ^= 1 << chosen.randrange(8)
    return bytes(out)


GROSS: tuple[Damage, ...] = (cut, zeroed, empty, four, foreign)
"""What nothing but an empty file, or text for people, survives."""
DAMAGES: tuple[Damage, ...] = (*GROSS, torn, half_zeroed, flipped)
SILENT = ("log.txt", "live.json", "config.yaml", "unresolved.yaml", "overrides.yaml")
"""Files that no reader needs: nothing is lost with them."""


@dataclass(frozen=True)
class Scene:
    """A store with healthy runs and one of which a file will be damaged."""

    root: Path
    hurt: RunLayout
    before: dict[str, tuple[object, ...]]
    points: list[tuple[object, ...]]

    def rows(self) -> tuple[dict[str, tuple[object, ...]], tuple[str, ...]]:
        """Healthy run -> what a list shows of it; and the warnings."""
        with open_reader(open_store(self.root)) as reader:
            found = reader.rows("SELECT id, state, num_attempts, name FROM runs")
            rank = [(row.id, row.value) for row in ranking(reader, "val/loss").rows]
            rows: dict[str, tuple[object, ...]] = {row[0]: row[1:] for row in found}
            values = dict(rank)
            return {run: (*row, values.get(run)) for run, row in rows.items()}, reader.warnings


def full_run(make_run_dir: MakeRun, tmp_path: Path) -> RunLayout:
    """A finished run with a file of every kind."""
    layout = finished(make_run_dir, objective={"metric": "val/loss", "mode": "min"})
    media = MediaRecorder(layout, run=layout.id, attempt=1)
    media.add("text", "said", 1, 0, {"text": "hello"})
    media.close()
    given = tmp_path / "given.txt"
    given.write_text("content")
    add_artifact(layout, "given.txt", sources(given), attempt=1)
    (layout.attempt(1) / "live.json").touch()
    (layout.attempt(1) / "log.txt").write_text("a line\n")
    return layout


def killed_run(make_run_dir: MakeRun, tmp_path: Path) -> RunLayout:
    """A killed run: a part and a journal, not recovered yet."""
    return killed(make_run_dir)


@pytest.fixture
def scene(make_run_dir: MakeRun, store_root: Path, tmp_path: Path) -> Callable[..., Scene]:
    def make(hurt: Callable[[MakeRun, Path], RunLayout]) -> Scene:
        for _ in range(2):
            finished(make_run_dir, objective={"metric": "val/loss", "mode": "min"})
        layout = hurt(make_run_dir, tmp_path)
        found = Scene(store_root, layout, {}, points(layout))
        copy = tmp_path / "copy"
        shutil.copytree(store_root, copy)  # an index here would seal the journal
        rows, _ = Scene(copy, layout, {}, []).rows()
        shutil.rmtree(copy)
        found.before.update(rows)
        return found

    return make


def files_of(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def check_damaged(scene: Scene, name: str, damage: Damage, faults: Tally) -> None:
    """One file is damaged: who reads, lists, indexes, checks and repairs does what it should."""
    root, run = scene.root, scene.hurt.id
    healthy = {key: row for key, row in scene.before.items() if key != run}
    there = files_of(root)
    readable = points(scene.hurt)
    assert set(readable) <= set(scene.points), "points that nobody wrote"
    checked = check(root)
    # A line that was lost behind the last status looks like one whose writer was cut off.
    named = checked.findings if name == "artifacts.jsonl" else checked.problems
    said = {item.path for item in named}
    place = f"{scene.hurt.root.relative_to(root)}/{name}"
    if damage in GROSS and not name.endswith(SILENT):
        assert any(place == path or place.startswith(f"{path}/") for path in said), said
    code = main(["--store", str(root), "reindex"])
    rows, warnings = scene.rows()
    assert {key: row for key, row in rows.items() if key != run} == healthy
    assert run in rows or any(Path(name).name in text for text in warnings), warnings
    assert code == (0 if run in rows else 5)
    assert main(["--store", str(root), "show", run]) == (0 if run in rows else 3)
    gone = {path for path in there - files_of(root) if not path.endswith(".wal")}
    assert {path for path in gone if not path.startswith(".expdb/")} == set()
    faults.compare(readable, points(scene.hurt))
    repair(root)
    faults.compare(readable, [row for row in points(scene.hurt) if row in readable])
    rows, _ = scene.rows()
    assert {key: row for key, row in rows.items() if key != run} == healthy


@pytest.mark.parametrize("hurt", [full_run, killed_run])
@pytest.mark.parametrize(
    "share", [pytest.param(12, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)]
)
def test_a_damaged_file_of_a_run_is_named_and_the_rest_is_read(
    scene: Callable[..., Scene],
    hurt: Callable[[MakeRun, Path], RunLayout],
    share: int,
    faults: Tally,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = scene(hurt)
    kept = tmp_path / "kept"
    shutil.copytree(made.root, kept)
    chosen = random.Random(os.urandom(4) if SOAK > 1 else 5)
    names = sorted(files_of(made.hurt.root))
    cases = [(name, damage) for name in names for damage in DAMAGES]
    first, wrong = chosen.randrange(share), []
    for name, damage in cases[first::share]:
        shutil.rmtree(made.root)
        shutil.copytree(kept, made.root)
        path = made.hurt.root / name
        data = path.read_bytes()
        if not data:
            continue
        path.write_bytes(damage(data, chosen))
        faults.fault()
        try:
            check_damaged(made, name, damage, faults)
        except AssertionError as error:
            wrong.append(f"{name} {damage.__name__}: {error}")
        capsys.readouterr()
    assert not wrong, "\n".join(wrong)
