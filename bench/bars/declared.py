"""The bar of what is declared: `status` over 500 experiment files, what was composed being kept."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from bench import many_store
from bench.bars.bar import Bar
from bench.environments import Place
from bench.measure import Load
from bench.pairs import Options

BASE: Final = """\
defaults: [optim: adamw, schedule: step, expdb: default, _self_]
seed: 0
"""
GROUPS: Final = {
    "optim/adamw": "".join(f"key{at}: {at / 7}\n" for at in range(20)),
    "schedule/step": "".join(f"key{at}: {at}\n" for at in range(20)),
}
EXPERIMENT: Final = "# @package _global_\noptim: {{key0: {number}}}\n"


def measure(place: Place, options: Options) -> list[Bar]:
    """Return the bars."""
    num = options.size(500, 500, 20)
    conf = place.code / "conf"
    files = {"train": BASE, **GROUPS}
    files |= {f"exp/exp{at:02d}": EXPERIMENT.format(number=at) for at in range(num)}
    for name, text in files.items():
        path = conf / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    store = many_store.make(place, 2 * num)
    status = partial(place.expdb, "-C", str(place.code), "status", EXPDB_STORE=str(store))
    said = f"{num} experiment files"
    load = Load()
    first = status().cpu_s * 1e3
    found = [status().cpu_s * 1e3 for _ in range(options.reps)]
    edited = []
    for at in range(options.reps):
        _edit(conf / f"exp/exp{at:02d}.yaml")
        edited.append(status().cpu_s * 1e3)
    others = load.others((first + sum(found) + sum(edited)) / 1e3)
    return [
        Bar(what=f"status, {said}", unit="ms CPU", most=400, found=found, others=others),
        Bar(what="the same after an edit of one", unit="ms CPU", most=None, found=edited),
        Bar(what="the same composed from nothing", unit="ms CPU", most=None, found=[first]),
    ]


def _edit(path: Path) -> None:
    path.write_text(path.read_text() + "# edited\n")
