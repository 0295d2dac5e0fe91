"""A store of many runs, made in seconds: one run is logged, the others are made after its files.

Invariant: the same number gives the same runs; nothing but names, times, configs and values differs
between them, so whatever the format, a run has the files that a logged run has. Parts are links to
the one part, as no list opens them.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any, Final

from bench.environments import Place

EXPERIMENTS: Final = 40
SEEDS: Final = 5
STEPS: Final = 300
METRICS: Final = 10
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
CREATED_MS: Final = 1_795_000_000_000
MODULE: Final = "bench.many_template"


def make(place: Place, num: int) -> Path:
    """Return a new store that holds `num` finished runs of 10 series and 40 config keys."""
    store = place.store("many")
    place.tell(MODULE, {"store": store, "steps": STEPS, "metrics": METRICS})
    source = next(store.glob("exp=*/run=*"))
    template = _Template(source)
    draw = random.Random(0)
    for number in range(num):
        template.write(store, number, draw)
    shutil.rmtree(source.parent)
    return store


def add(place: Place, store: Path, number: int) -> None:
    """Add one more run, made after another of the store."""
    source = min(store.glob("exp=*/run=*"))
    _Template(source).write(store, number, random.Random(number))


def _linked(source: Path, target: Path) -> Path:
    """Make `target` the same file as `source`; return which of them the next one is made after.

    A file system has a most of names for one file, as ext4 has 65,000: then a copy goes on.
    """
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        shutil.copy2(source, target)
        return target
    return source


class _Template:
    """The files of one run."""

    def __init__(self, source: Path) -> None:
        self._files = {
            path.relative_to(source): path for path in source.rglob("*") if path.is_file()
        }
        self._json = {
            name: json.loads((source / name).read_text())
            for name in ("run.json", "status.json", "series.json")
        }

    def write(self, store: Path, number: int, draw: random.Random) -> None:
        run = draw.choice(ALPHABET[10:]) + "".join(draw.choices(ALPHABET, k=9))
        experiment = f"exp{number % EXPERIMENTS:02d}"
        folder = store / f"exp={experiment}" / f"run={run}"
        for path in self._files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
        for path, source in list(self._files.items()):
            if str(path) not in self._json:
                self._files[path] = _linked(source, folder / path)
        for name, body in self._changed(run, experiment, number, draw).items():
            (folder / name).write_text(json.dumps(body))
        then = time.time() - 3600 - number % 1000
        os.utime(folder / "status.json", (then, then))

    def _changed(
        self, run: str, experiment: str, number: int, draw: random.Random
    ) -> dict[str, dict[str, Any]]:
        seed, created = number % SEEDS, CREATED_MS + number * 60_000
        config = json.loads(self._json["run.json"]["canonical"])
        config["seed"], config["optim"]["lr"] = seed, 1e-4 * (1 + number % EXPERIMENTS)
        canonical = json.dumps(config, sort_keys=True, separators=(",", ":"))
        identity = {
            **self._json["run.json"], "id": run, "experiment": experiment, "seed": seed,
            "created_at_ms": created, "canonical": canonical, "digest": f"v1:{number:064x}",
        }  # fmt: skip
        status = {
            **self._json["status.json"], "ended_at_ms": created + 35_000,
            "updated_at_ms": created + 35_000,
        }  # fmt: skip
        book = dict(self._json["series.json"])
        book["series"] = {
            key: {**item, "last": (last := 1.8 + draw.random() * 0.3), "min": last,
                  "tail": [*item["tail"][:-1], last]}
            for key, item in book["series"].items()
        }  # fmt: skip
        return {"run.json": identity, "status.json": status, "series.json": book}
