"""The bars of writing: the cost of `log()`, of a whole run, of a point on disk, of the rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.bars.bar import Bar
from bench.environments import Place
from bench.measure import Load
from bench.pairs import Options

MODULE = "bench.bars.log_loop"


def measure(place: Place, options: Options) -> list[Bar]:
    """Return the bars; each repetition is a process of its own."""
    steps = options.size(20_000, 20_000, 2_000)
    tight = _repeat(place, options, {"kind": "tight", "steps": steps})
    paced = _repeat(place, options, {"kind": "paced", "steps": options.size(500, 300, 50)})
    whole = _repeat(place, options, {"kind": "whole", "steps": steps})
    watch = _repeat(place, options, {"kind": "watch", "steps": steps})
    bars = [
        _bar("log() of 10 scalars, tight loop, median", "us", 6, tight, "p50_us"),
        _bar("the same, p99", "us", 25, tight, "p99_us"),
        _bar("log() in steps of 10 ms", "% of the step", 1, paced, "share_pct"),
        _bar("one such call, mean", "us", None, paced, "us"),
        _bar(f"{steps:,} steps x 10, start to finish", "s", 1.0, whole, "wall_s"),
        _bar("of it start()", "s", None, whole, "start_s"),
        _bar("CPU of log and finish / lists and one table", "x", 1.6, whole, "cpu_ratio"),
        _bar("CPU of a log() call", "us", None, whole, "log_cpu_us"),
        _bar("CPU of finish()", "s", None, whole, "finish_cpu_s"),
        _bar("CPU of lists and one table", "s", None, whole, "once_cpu_s"),
        _bar("default rules / loop of 10 ms steps", "% CPU", 1, watch, "share_pct"),
    ]
    for kind, name, most in (("f", "float32", 4.0), ("d", "float64", 7.5)):
        job = {"kind": "bytes", "steps": steps, "float": kind}
        found = _repeat(place, Options(reps=1), job)
        bars.append(_bar(f"bytes a point, {name}", "B", most, found, "bytes_a_point"))
    return bars


def _repeat(place: Place, options: Options, job: Mapping[str, Any]) -> list[Mapping[str, float]]:
    found: list[Mapping[str, float]] = []
    for _ in range(options.reps):
        load = Load()
        answer, spent = place.tell(MODULE, {**job, "store": place.store("bar")})
        found.append({**answer, "others": load.others(spent.cpu_s)})
    return found


def _bar(
    what: str, unit: str, most: float | None, found: list[Mapping[str, float]], key: str
) -> Bar:
    others = sum(item["others"] for item in found) / len(found)
    values = [item[key] for item in found]
    return Bar(what=what, unit=unit, most=most, found=values, others=others)
