"""docs/monitoring.md has a line for every row of the requirements, and the tests it names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WANTED = [
    *(f"M{number:02}" for number in (*range(1, 7), *range(20, 31))),
    *(f"T{number:02}" for number in range(1, 22)),
    *(f"R{number:02}" for number in range(1, 15)),
    *("O12", "O13", "O21", "O22", "M17", "M18"),
]


def rows() -> list[tuple[str, str]]:
    """Return (row, what shows it) of the table."""
    text = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    table = text.partition("\n### Every row\n")[2]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return [(line[0], line[1]) for line in lines[1:] if not line[0].startswith("--")]


def test_every_row_of_the_requirements_has_a_line() -> None:
    named = [one for row, _ in rows() for one in re.findall(r"\b[MTRO]\d\d\b", row)]
    assert sorted(named) == sorted(WANTED)


def test_every_line_names_a_test_a_section_or_says_that_it_is_not_built() -> None:
    for row, shown in rows():
        assert "`test_" in shown or "not built" in shown or "see " in shown, row


def test_every_test_that_is_named_is_there() -> None:
    named = {one for _, shown in rows() for one in re.findall(r"`(test_\w+)`", shown)}
    there: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        there |= set(re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.M))
    assert len(named) > 50
    assert named - there == set()
