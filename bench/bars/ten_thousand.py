"""The bars of reading a store of 10,000 runs: a new process for each command, its CPU in all.

The index is current for the commands; then it is made from nothing, and after one new run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from bench import many_store
from bench.bars.bar import Bar
from bench.environments import Place
from bench.measure import Load, Spent
from bench.pairs import Options

SLOW_MS: Final = 1_000
"""What may take longer is not done once more beforehand."""


def measure(place: Place, options: Options) -> list[Bar]:
    """Return the bars."""
    num = options.size(10_000, 10_000, 200)
    store = many_store.make(place, num)
    said, at = f"{num:,} runs", {"EXPDB_STORE": str(store)}
    index = store / ".expdb" / "index"

    def afresh() -> Spent:
        shutil.rmtree(index, ignore_errors=True)
        return place.expdb("ls", **at)

    few = Options(reps=options.size(min(3, options.reps), 1, 1))
    bars = [_bar("index from nothing", said, 8_000, afresh, few)]
    commands: dict[str, tuple[float, list[str]]] = {
        "ls": (250, ["ls"]),
        "rank": (250, ["rank"]),
        "best": (250, ["best"]),
        "compare": (400, ["compare", "exp01:s1", "exp02:s2"]),
        "--help": (80, ["--help"]),
    }
    for name, (most, words) in commands.items():
        bars.append(_bar(name, said, most, partial(place.expdb, *words, **at), options))
    bars.append(_bar("python -c pass, to judge the load by", said, None, place.bare, options))
    complete = {
        "_EXPDB_COMPLETE": "bash_complete",
        "COMP_WORDS": "expdb show exp1",
        "COMP_CWORD": "2",
        **at,
    }
    bars.append(_bar("completion of a run", said, 150, partial(place.expdb, **complete), options))
    return [*bars, _after_one_run(place, store, said, num, options, at)]


def _bar(
    what: str, said: str, most: float | None, act: Callable[[], Spent], options: Options
) -> Bar:
    if most is None or most < SLOW_MS:
        act()  # warm files, current index
    load = Load()
    found = [act().cpu_s * 1e3 for _ in range(options.reps)]
    others = load.others(sum(found) / 1e3)
    return Bar(what=f"{what}, {said}", unit="ms CPU", most=most, found=found, others=others)


def _after_one_run(
    place: Place, store: Path, said: str, num: int, options: Options, at: Mapping[str, str]
) -> Bar:
    """Return the CPU of `ls` after one new run less that of `ls` right after it."""
    found, cpu, load = [], 0.0, Load()
    for number in range(options.reps):
        many_store.add(place, store, num + number)
        building, current = (place.expdb("ls", **at).cpu_s for _ in range(2))
        found.append((building - current) * 1e3)
        cpu += building + current
    others = load.others(cpu)
    return Bar(
        what=f"index after one new run, beyond ls, {said}",
        unit="ms CPU", most=120, found=found, others=others,
    )  # fmt: skip
