"""Whatever happened to the index's own files, what is shown is right."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from expdb.index.reader import open_reader
from expdb.store.store import Store
from tests.index.indexed import IDS, finished, generations, shown, values
from tests.query.made import write_run

pytestmark = pytest.mark.slow

Damage = Callable[[Path, Path], object]


def damage_none(path: Path, current: Path) -> None:
    current.unlink()


def damage_dangling(path: Path, current: Path) -> None:
    path.unlink()


def damage_current(path: Path, current: Path) -> None:
    current.write_text('{"name": "../../../etc/passwd", "bytes": 1}')


def damage_empty_current(path: Path, current: Path) -> None:
    current.write_bytes(b"")


def damage_no_database(path: Path, current: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def damage_cut(path: Path, current: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def damage_zeroed(path: Path, current: Path) -> None:
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\0" * (path.stat().st_size - 3 * 4096))


def damage_schema(path: Path, current: Path) -> None:
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE gen.meta SET value = '0' WHERE key = 'schema'")
    fix_size(path, current)


def damage_foreign(path: Path, current: Path) -> None:
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE gen.meta SET value = 'another' WHERE key = 'store'")
        con.execute("UPDATE gen.runs SET value = 0")
    fix_size(path, current)


def damage_other_database(path: Path, current: Path) -> None:
    path.unlink()
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE runs (id VARCHAR)")
    fix_size(path, current)


def fix_size(path: Path, current: Path) -> None:
    current.write_text(f'{{"name": "{path.name}", "bytes": {path.stat().st_size}}}')


@pytest.mark.parametrize(
    "damage",
    [
        damage_none, damage_dangling, damage_current, damage_empty_current, damage_no_database,
        damage_cut, damage_zeroed, damage_schema, damage_foreign, damage_other_database,
    ],
)  # fmt: skip
def test_a_damaged_index_is_built_again_without_a_word(store: Store, damage: Damage) -> None:
    for run in IDS[:3]:
        write_run(store, finished(run))
    shown(store)
    damage(generations(store)[0], store.layout.index / "CURRENT")
    for _ in range(2):
        with open_reader(store) as reader:
            assert values(reader) == dict.fromkeys(IDS[:3], 1.848)
            assert reader.warnings == ()


def test_flipped_bits_never_show(store: Store) -> None:
    """Bits anywhere in the file: the answer is right, from the file or from a new one."""
    for at, run in enumerate(IDS):
        write_run(store, finished(run, 1.0 + at))
    right = {run: 1.0 + at for at, run in enumerate(IDS)}
    chosen = random.Random(7)
    for at in range(6):
        assert shown(store) == right
        path = generations(store)[-1]
        body = bytearray(path.read_bytes())
        for _ in range(40):
            body[chosen.randrange(len(body))] ^= 1 << chosen.randrange(8)
        path.write_bytes(bytes(body))
        if at % 2:  # a new generation is made from the damaged one
            right[IDS[0]] = 100.0 + at
            write_run(store, finished(IDS[0], right[IDS[0]]))
        with open_reader(store) as reader:
            assert values(reader) == right
            assert len(reader.rows("SELECT * FROM params")) == 2 * len(IDS)
