"""The bars of a plot: a series of a million points to 240 columns of least and most, in process."""

from __future__ import annotations

from bench.bars.bar import Bar
from bench.environments import Failed, Place
from bench.measure import Load
from bench.pairs import Options

MODULE = "bench.bars.plot_loop"


def measure(place: Place, options: Options) -> list[Bar]:
    """Return the bars, from the run's curve and from its points, each answer checked."""
    num, load = options.size(1_000_000, 1_000_000, 50_000), Load()
    job = {"store": place.store("plot"), "points": num, "reps": options.reps}
    answer, spent = place.tell(MODULE, job)
    if not answer["right"]:
        raise Failed("what was drawn is not the series that was logged")
    others = load.others(spent.cpu_s)
    what, size = f"{num:,} points to a plot", f"{answer['curve_bytes'] / 1e3:.0f} kB"
    return [
        Bar(what=f"{what}, raw", unit="ms", most=120, found=answer["raw_ms"], others=others),
        Bar(what="the same, CPU", unit="ms", most=None, found=answer["raw_cpu_ms"]),
        Bar(what="the series as a table", unit="ms", most=None, found=answer["read_ms"]),
        Bar(
            what=f"{what}, from its curve",
            unit="ms", most=10, found=answer["curve_ms"], others=others, note=f"a file of {size}",
        ),
        Bar(what="the same, CPU", unit="ms", most=None, found=answer["curve_cpu_ms"]),
    ]  # fmt: skip
