"""The bars of the terminal app over 10,000 runs: CPU until the first page, and of each key."""

from __future__ import annotations

from bench import many_store
from bench.bars.bar import Bar
from bench.bars.tui_loop import KEYS
from bench.environments import Place
from bench.measure import Load
from bench.pairs import Options

MODULE = "bench.bars.tui_loop"
FIRST_MS, KEY_MS = 1_500, 50


def measure(place: Place, options: Options) -> list[Bar]:
    """Return the bars; each repetition is a process of its own, over one store and its index."""
    num = options.size(10_000, 10_000, 200)
    store, load = many_store.make(place, num), Load()
    place.expdb("ls", EXPDB_STORE=str(store))  # warm files, current index
    job = {"store": store, "rounds": options.size(9, 5, 2)}
    told = [place.tell(MODULE, job) for _ in range(options.reps)]
    answers = [answer for answer, _ in told]
    others = load.others(sum(spent.cpu_s for _, spent in told))
    said = f"{num:,} runs"
    first = [answer["first_ms"] for answer in answers]
    bars = [
        Bar(
            what=f"terminal app, first page of {said}",
            unit="ms CPU", most=FIRST_MS, found=first, others=others,
        ),
    ]  # fmt: skip
    for key in (*KEYS, "s"):
        found = [ms for answer in answers for ms in answer[key]]
        bars.append(Bar(what=f"key {key}, {said}", unit="ms CPU", most=KEY_MS, found=found))
    beside = {
        "key end with what it reads": [answer["end_ms"] for answer in answers],
        f"a look that finds nothing new, {said}": [answer["tick_ms"] for answer in answers],
        "python -c pass, to judge the load by": [
            place.bare().cpu_s * 1e3 for _ in range(options.reps)
        ],
    }
    return [
        *bars,
        *(Bar(what=what, unit="ms CPU", most=None, found=found) for what, found in beside.items()),
    ]
