"""Small runs, and what a reader shows of them."""

from __future__ import annotations

from pathlib import Path

from expdb.index.reader import Reader, open_reader
from expdb.model import Run
from expdb.store.store import Store
from tests.query.made import make_run

IDS = ["k3f9x2m7qd", "m8c2v5tq1n", "p2x7d9wk4h", "t1h6y3cz8r", "h4q8z1rn6c", "d6v3m9s2xk"]


def finished(run: str, value: float = 1.848, **more: object) -> Run:
    return make_run(run, value=value, minutes=IDS.index(run), **more)


def values(reader: Reader) -> dict[str, float]:
    return dict(reader.rows("SELECT id, value FROM runs"))


def shown(store: Store) -> dict[str, float]:
    with open_reader(store) as reader:
        return values(reader)


def generations(store: Store) -> list[Path]:
    return sorted(store.layout.index.glob("gen-*.duckdb"))
