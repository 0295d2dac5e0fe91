"""The benchmarks: `python -m bench [--quick | --moderate] [--only W1,write] [--peers aim,...]`.

Prints a table a workload, with ratios to expdb measured in the same run, and writes all
repetitions to bench/results as JSON. Nothing here is a test: no exit code depends on a clock, but a
wrong answer of expdb's own gives exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import results
from bench.bars import bar, plot, sealing, ten_thousand, write_path, writers
from bench.bars.bar import Bar
from bench.environments import Failed, Place, present
from bench.pairs import Options, Row, Scale
from bench.peers import FILES
from bench.workloads import imports, kill, logging, many_runs, processes, series

WORKLOADS = {
    "W1": logging,
    "W2": many_runs,
    "W3": series,
    "W4": processes,
    "W5": kill,
    "W6": imports,
}
BARS = {
    "write": write_path, "sealing": sealing, "runs": ten_thousand, "plot": plot, "writers": writers,
}  # fmt: skip


def main() -> int:
    """Measure what was asked for; return 1 where an answer of expdb was wrong."""
    given = _given()
    only = given.only.split(",") if given.only else [*WORKLOADS, *BARS]
    if unknown := set(only) - {*WORKLOADS, *BARS}:
        print(
            f"no workload is called {', '.join(sorted(unknown))}: {', '.join([*WORKLOADS, *BARS])}"
        )
        return 2
    scale: Scale = "quick" if given.quick else "moderate" if given.moderate else "full"
    options = Options(reps=given.reps or (1 if given.quick else 5), scale=scale,
                      budget_s=given.budget)  # fmt: skip
    found = present()
    peers = [name for name in found if not given.peers or name in given.peers.split(",")]
    print(f"measured: {', '.join(peers)}")
    if missing := [name for name in FILES if name not in found]:
        print(f"left out, as they are not installed: {', '.join(missing)} (make bench-peers)")
    rows: list[Row] = []
    bars: list[Bar] = []
    path = Path(given.out) if given.out else results.new_path()
    for name in only:
        began = time.monotonic()
        with Place() as place:
            if name in WORKLOADS:
                measured = WORKLOADS[name].measure(place, peers, options)
                rows += measured
                text = WORKLOADS[name].shown(measured)
            else:
                try:
                    reached = BARS[name].measure(place, options)
                except Failed as error:
                    print(f"\n{name}: {error}")
                    continue
                bars += reached
                text = bar.shown(reached)
        print(f"\n{name}: {(_doc(name))}  ({time.monotonic() - began:.0f} s)\n\n{text}", flush=True)
        results.write(path, options, rows, bars)
    print(f"\nall repetitions: {path}")
    return _wrong(rows)


def _doc(name: str) -> str:
    module = WORKLOADS.get(name) or BARS[name]
    first = (module.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return first.removeprefix(f"{name}: ").rstrip(".")


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, one repetition")
    parser.add_argument("--moderate", action="store_true", help="fewer runs and steps")
    parser.add_argument("--only", help=f"some of {','.join([*WORKLOADS, *BARS])}")
    parser.add_argument("--peers", help=f"some of {','.join(FILES)}")
    parser.add_argument("--reps", type=int, help="repetitions of a row (5)")
    parser.add_argument("--budget", type=float, default=120.0,
                        help="seconds after which a row is not repeated (120)")  # fmt: skip
    parser.add_argument("--out", help="the result file")
    return parser.parse_args()


def _wrong(rows: Sequence[Row]) -> int:
    """Say which answers were wrong; those of expdb make the exit code."""
    code = 0
    for row in rows:
        is_ours = row.name.startswith("expdb")
        said = [str(item.get("why") or row.name) for item in row.reps if item.get("right") is False]
        for why in said:
            print(f"WRONG {row.workload} {row.name}: {why}")
        code |= bool(is_ours and (said or row.error))
    return code


if __name__ == "__main__":
    sys.exit(main())
