"""`python -m bench.detectors [--curves 25] [--tune] [--sweep]`: the table of false events, recall
and delay, with expdb's rules beside those of guides and other projects, and the real logs.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable

from bench.detectors import real
from bench.detectors.curves import BENIGN, CLASSES, FIRST_REPORTED, TUNING, Curve, make
from bench.detectors.rivals import RIVALS, Rule, _detector
from bench.detectors.score import score, spread
from expdb.monitor.spike import Spike


def main() -> int:
    """Print the tables."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--curves", type=int, default=25, help="of each class")
    given.add_argument("--tune", action="store_true", help="the seeds for tuning")
    given.add_argument("--sweep", action="store_true", help="how k of D2 trades the two off")
    asked = given.parse_args()
    seeds = list(TUNING) if asked.tune else _reported(asked.curves)
    curves = {kind: [make(kind, seed) for seed in seeds] for kind in CLASSES}
    rules: dict[str, Callable[[], Rule]] = dict(RIVALS)
    if asked.sweep:
        rules = {f"D2 k={k}": _spike_at(k) for k in range(4, 11)}
    _table(rules, curves)
    if not asked.sweep:
        _logs()
    return 0


def _reported(num: int) -> list[int]:
    return list(range(FIRST_REPORTED, FIRST_REPORTED + num))


def _spike_at(k: int) -> Callable[[], Rule]:
    return lambda: _detector(Spike("x", k=float(k)))


def _table(rules: dict[str, Callable[[], Rule]], curves: dict[str, list[Curve]]) -> None:
    print(f"{'rule':28}" + "".join(f"{kind:>17}" for kind in CLASSES))
    print(f"{'':28}" + "".join(f"{_head(kind):>17}" for kind in CLASSES))
    for name, rule in rules.items():
        cells: list[str] = []
        for kind in CLASSES:
            found = score((rule(), curve) for curve in curves[kind])
            if kind in BENIGN:
                cells.append(f"{found.false_10k:.1f}")
            elif found.delay is None:
                cells.append(f"{found.recall:.2f}")
            else:
                late = spread(found.delays)
                cells.append(f"{found.recall:.2f} {found.delay:g} {late} {found.false_10k:.1f}")
        print(f"{name:28}" + "".join(f"{cell:>17}" for cell in cells), flush=True)


def _head(kind: str) -> str:
    return "false/10k" if kind in BENIGN else "rec med 95% f/10k"


def _logs() -> None:
    for name in real.LINES:
        try:
            found = real.found(name)
        except FileNotFoundError:
            print(f"{name}: not there ({real.FOLDER})")
            continue
        print(f"{name}: {_counted((one.rule, one.severity, one.state) for one in found)}")


def _counted(found: Iterable[tuple[str, str, str]]) -> str:
    counts = Counter(f"{rule} {severity}" for rule, severity, state in found if state != "over")
    return ", ".join(f"{num} {what}" for what, num in sorted(counts.items())) or "nothing"


if __name__ == "__main__":
    sys.exit(main())
