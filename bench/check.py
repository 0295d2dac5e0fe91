"""Whether an answer is right: the expected runs, steps and values, made again from the generator.

`exact` means every value is the float64 that was logged; `right` allows a peer that keeps float32.
A series is compared by digests, so that a process can answer in one line.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import data


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the check of one answer found."""

    right: bool
    exact: bool
    why: str = ""
    """What was expected and what was found, where it is wrong."""


def digest(steps: Sequence[int], values: Sequence[float]) -> dict[str, Any]:
    """Return a series as its length and two digests: of float64 values, and of float32 ones."""
    head = array("q", steps).tobytes()
    found: dict[str, Any] = {"count": len(values)}
    for name, kind in (("float64", "d"), ("float32", "f")):
        found[name] = hashlib.sha256(head + array(kind, values).tobytes()).hexdigest()
    return found


def series(
    answer: Mapping[str, Mapping[str, Any]], runs: Sequence[str], metric: str, steps: int
) -> Verdict:
    """Check one metric of several runs: run -> digest."""
    if sorted(answer) != sorted(runs):
        return _wrong(f"runs {sorted(answer)}", f"runs {sorted(runs)}")
    exact = True
    for run in runs:
        expected = digest(range(steps), data.curve(run, metric, steps))
        if answer[run] == expected:
            continue
        exact = False
        if answer[run]["float32"] != expected["float32"]:
            return _wrong(f"{run} {dict(answer[run])}", f"{expected}")
    return Verdict(right=True, exact=exact)


def top(
    answer: Sequence[Sequence[Any]],
    runs: Sequence[str],
    metric: str,
    steps: int,
    *,
    reading: str,
    num: int,
) -> Verdict:
    """Check the best runs, lowest first, by `last` value or by `min`: [run, value] each."""
    read = min if reading == "min" else lambda values: values[-1]
    found = {run: read(data.curve(run, metric, steps)) for run in runs}
    expected = sorted(found.items(), key=lambda item: item[1])[:num]
    if [item[0] for item in answer] != [run for run, _ in expected]:
        return _wrong([item[0] for item in answer], [run for run, _ in expected])
    return _values([item[1] for item in answer], [value for _, value in expected])


def compare(
    answer: Mapping[str, Any], first: str, second: str, metrics: Sequence[str], steps: int
) -> Verdict:
    """Check a comparison: `params` that differ, and the last value of each metric, of both runs."""
    one, two = data.params(first), data.params(second)
    expected = {key: [str(one[key]), str(two[key])] for key in sorted(one) if one[key] != two[key]}
    found = {key: [str(value) for value in pair] for key, pair in answer["params"].items()}
    if found != expected:
        return _wrong(found, expected)
    if sorted(answer["metrics"]) != sorted(metrics):
        return _wrong(sorted(answer["metrics"]), sorted(metrics))
    pairs = [answer["metrics"][name] for name in metrics]
    last = [[data.curve(run, name, steps)[-1] for run in (first, second)] for name in metrics]
    return _values([v for pair in pairs for v in pair], [v for pair in last for v in pair])


def _values(found: Sequence[float], expected: Sequence[float]) -> Verdict:
    if list(found) == list(expected):
        return Verdict(right=True, exact=True)
    if array("f", found) == array("f", expected):
        return Verdict(right=True, exact=False)
    return _wrong(found, expected)


def _wrong(found: object, expected: object) -> Verdict:
    return Verdict(
        right=False, exact=False, why=f"found {found!s:.300}, expected {expected!s:.300}"
    )
