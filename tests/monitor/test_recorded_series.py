"""The default rules over recorded trainings of the demo: each fault fires its rules and no other.

The series are those of record_series.py; what is asserted is all that warns, by rule and severity.
"""

from __future__ import annotations

import pytest

from expdb.monitor.engine import Monitor
from expdb.monitor.finding import Finding
from expdb.monitor.rules import build_rules
from tests.monitor import series_files

EXPECTED: dict[str, dict[str, str]] = {
    "baseline": {},
}
FIRST = {}


def found_in(name: str) -> list[Finding]:
    """Return what the default rules say of a series; `stall` asks a clock and is in no replay."""
    monitor = Monitor(build_rules(None))
    found: list[Finding] = []
    for call in series_files.read(name):
        found += monitor.update(call.step, call.keys, call.values, call.time_ms)
    return found


def worst(found: list[Finding]) -> dict[str, str]:
    """Return each rule that warned with the worst that it said."""
    out: dict[str, str] = {}
    for one in found:
        if one.severity != "info" and out.get(one.rule) != "critical":
            out[one.rule] = one.severity
    return out


def test_every_case_that_is_recorded_is_expected() -> None:
    recorded = {path.stem for path in series_files.FOLDER.glob("*.parquet")}
    assert recorded == set(EXPECTED)


def test_the_series_are_small() -> None:
    sizes = [path.stat().st_size for path in series_files.FOLDER.glob("*.parquet")]
    assert sum(sizes) < 400_000


@pytest.mark.parametrize("name", list(EXPECTED))
def test_each_fault_of_the_demo_fires_its_rules_and_no_other(name: str) -> None:
    assert worst(found_in(name)) == EXPECTED[name]
