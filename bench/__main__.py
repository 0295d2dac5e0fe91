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

from bench import results, summary
from bench.bars import (
    bar,
    declared,
    plot,
    sealing,
    ten_thousand,
    terminal_app,
    write_path,
    writers,
)
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
    "write": write_path, "sealing": sealing, "runs": ten_thousand, "declared": declared,
    "plot": plot, "writers": writers, "tui": terminal_app,
}  # fmt: skip


def main() -> int:
    """Measure what was asked for; return 1 where an answer of expdb was wrong."""
    given = _given()
    path = Path(given.show or given.out or results.new_path())
    if given.show:
        code = 0
    else:
        only = given.only.split(",") if given.only else [*WORKLOADS, *BARS]
        if unknown := set(only) - {*WORKLOADS, *BARS}:
            known = ", ".join([*WORKLOADS, *BARS])
            print(f"no workload is called {', '.join(sorted(unknown))}: {known}")
            return 2
        code = _measure(only, _peers(given.peers), _options(given), path)
    section = summary.text(*results.read(path))
    print(f"\n{section}\n\nall repetitions: {path}")
    if given.docs:
        print(f"written: {summary.write_docs(section)}")
    return code


def _measure(only: Sequence[str], peers: list[str], options: Options, path: Path) -> int:
    rows: list[Row] = []
    bars: list[Bar] = []
    for name in only:
        began = time.monotonic()
        with Place() as place:
            try:
                if name in WORKLOADS:
                    measured = []
                    for row in WORKLOADS[name].measure(place, peers, options):
                        measured.append(row)
                        results.write(path, options, [*rows, *measured], bars)  # it takes hours
                    rows += measured
                    text = WORKLOADS[name].shown(measured)
                else:
                    reached = BARS[name].measure(place, options)
                    bars += reached
                    text = bar.shown(reached)
            except Failed as error:
                print(f"\n{name}: {error}", flush=True)
                continue
        took = f"{time.monotonic() - began:.0f} s"
        print(f"\n{name}: {_doc(name)}  ({took})\n\n{text}", flush=True)
        results.write(path, options, rows, bars)
    return _wrong(rows)


def _peers(wanted: str | None) -> list[str]:
    """Return the trackers to measure, and say which are left out."""
    found = present()
    peers = [name for name in found if not wanted or name in wanted.split(",")]
    print(f"measured: {', '.join(peers)}")
    if missing := [name for name in FILES if name not in found]:
        print(f"left out, as they are not installed: {', '.join(missing)} (make bench-peers)")
    return peers


def _options(given: argparse.Namespace) -> Options:
    scale: Scale = "quick" if given.quick else "moderate" if given.moderate else "full"
    reps = given.reps or (1 if given.quick else 5)
    return Options(reps=reps, scale=scale, budget_s=given.budget)


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
    parser.add_argument("--show", help="measure nothing; show what a result file comes to")
    parser.add_argument("--docs", action="store_true", help="and put it in docs/performance.md")
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
