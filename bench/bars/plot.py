"""The bars of a plot: a series of a million points to 240 buckets of least and most, in process."""

from __future__ import annotations

from bench.bars.bar import Bar
from bench.environments import Failed, Place
from bench.measure import Load
from bench.pairs import Options

MODULE = "bench.bars.plot_loop"


def measure(place: Place, options: Options) -> list[Bar]:
    """Return the bars; from a curve only where runs have one."""
    num, load = options.size(1_000_000, 1_000_000, 50_000), Load()
    job = {"store": place.store("plot"), "points": num, "reps": options.reps}
    answer, spent = place.tell(MODULE, job)
    if not answer["right"]:
        raise Failed("the series that was read is not the one that was logged")
    others = load.others(spent.cpu_s)
    note = "" if answer["curve"] else "runs have no curves.parquet yet"
    what = f"{num:,} points to a plot"
    return [
        Bar(what=f"{what}, raw", unit="ms", most=120, found=answer["raw_ms"], others=others),
        Bar(what="of it reading", unit="ms", most=None, found=answer["read_ms"]),
        Bar(what=f"{what}, from its curve", unit="ms", most=10, found=[], note=note),
    ]
