"""What an importer finds in a file: steps with their values, what a run is, what was passed over.

Invariant: a value is a float64 that stands in the file; what is not taken is counted, with the
reason and the line where it was first seen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from expdb.errors import BadInput
from expdb.model import Attempt, Eval, Event
from expdb.store.status import Status
from expdb.store.templates import refusal

EXACT: Final = 2**53
INT64: Final = 2**63
STEP_NAMES: Final = ("step", "global_step", "_step", "trainer/global_step", "iteration", "iter")
TIME_NAMES: Final = ("time", "timestamp", "_timestamp", "wall_time", "created_at")
RUN_NAMES: Final = ("run", "run_id", "run_name")
NONFINITE: Final = {
    "nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "infinity": math.inf,
    "+infinity": math.inf, "-infinity": -math.inf,
}  # fmt: skip
MAX_NUMBER: Final = 400
"""Longer texts are no numbers."""
WHOLE: Final = re.compile(r"\s{0,99}[-+]?[0-9]{1,300}\s{0,99}", re.ASCII)
TRUTH: Final = {"true": 1.0, "false": 0.0}


class Step(NamedTuple):
    """The values of one step, by one rank of one attempt."""

    step: int
    values: Mapping[str, float]
    time_ms: int | None = None
    attempt: int = 1
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was not taken for one reason."""

    reason: str
    count: int
    first_line: int


@dataclass(slots=True)
class Skips:
    """Counts what is not taken, by reason."""

    name: str = ""
    """The file, as it is shown."""
    _found: dict[str, list[int]] = field(default_factory=dict)

    def add(self, reason: str, line: int) -> None:
        """Count one more, seen in a line (from 1)."""
        self._found.setdefault(reason, [0, line])[0] += 1

    def twice(self, name: str, line: int) -> BadInput:
        """Return the error for two values of one name: which of them counts nobody knows."""
        from expdb.text import plain

        return BadInput(f"{self.name} line {line} has two values under the name {plain(name)}")

    def all(self) -> tuple[Skipped, ...]:
        """Return what was passed over, the most frequent first."""
        rows = [Skipped(reason, count, line) for reason, (count, line) in self._found.items()]
        return tuple(sorted(rows, key=lambda row: (-row.count, row.first_line)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What a file says of a run beside its points; our own exports say all of it."""

    id: str | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    """As run.json has it; empty where the file does not say."""
    status: Status | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the file names, for a run without an identity."""
    max_steps: int | None = None
    attempts: Sequence[Attempt] = ()
    evals: Sequence[Eval] = ()
    events: Sequence[Event] = ()
    labels: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(slots=True, kw_only=True)
class Found:
    """What one file holds: steps by the name of their run there (empty where it has one run)."""

    steps: Iterator[tuple[str, Step]]
    skips: Skips
    facts: dict[str, RunFacts] = field(default_factory=dict)
    """Name of a run -> what the file says of it; grows while `steps` is read."""
    pattern: str = ""
    """The pattern that a log is read by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a person wants a file to be read."""

    format: str = ""
    pattern: str = ""
    regex: str = ""
    step: str = ""
    """The name of the column with the step."""


class Source(NamedTuple):
    """A file, and how it is to be read."""

    path: Path
    reading: Reading


def number(value: Any) -> float | None:
    """Return a value as float64, None where it is no number.

    Texts are read as numbers too; true and false are 1 and 0. A whole number that no float64 holds
    is none.
    """
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        return float(value) if abs(value) <= EXACT else _exact(value)
    if not isinstance(value, str) or len(value) > MAX_NUMBER:
        return None
    text = value.strip()
    word = text.lower()
    if word in NONFINITE:
        return NONFINITE[word]
    if word in TRUTH:
        return TRUTH[word]
    if "_" in text or not text.isascii():
        return None
    try:
        return _exact(int(text))
    except ValueError:
        pass
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None  # `1e999` is a number that float64 lacks


def _exact(value: int) -> float | None:
    try:
        made = float(value)
    except OverflowError:
        return None
    return made if int(made) == value else None


def whole(value: Any) -> int | None:
    """Return a value as a whole number of 64 bits: `3`, `3.0`, `"3"`; None where it is none."""
    if isinstance(value, str):
        value = int(value) if WHOLE.fullmatch(value) else number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    made = int(value)
    return made if -INT64 <= made < INT64 else None


def moment_ms(value: Any) -> int | None:
    """Return a time in UTC epoch milliseconds: of seconds, milliseconds or ISO 8601 text.

    None where it is no moment of this century, such as seconds a step.
    """
    from datetime import UTC, datetime

    found = number(value)
    if found is not None:
        if 1e9 <= found < 1e11:
            return round(found * 1000)
        return round(found) if 1e11 <= found < 1e14 else None
    if isinstance(value, str) and len(value) < 64 and "-" in value:
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    return None


def why_no_number(value: Any) -> str:
    """Return why a value is not taken, in words that many values share."""
    if isinstance(value, str):
        return "a whole number beyond 2^53" if WHOLE.fullmatch(value) else "a value is text"
    if isinstance(value, int):
        return "a whole number beyond 2^53"
    return f"a value is a {type(value).__name__}"


def named(
    pairs: Iterator[tuple[str, Any]], skips: Skips, line: int, *, loose: bool = False
) -> dict[str, float]:
    """Return name -> number of what is a number under a name that can be stored; count the rest.

    None and empty text mean that there is no value. A second value of a name is counted in `loose`
    text, which nobody made for a machine.

    Raises:
        BadInput: two values have one name.
    """
    out: dict[str, float] = {}
    for name, value in pairs:
        if value is None or value == "":
            continue
        found = number(value)
        why = refusal(name)
        if why:
            skips.add(f"a name {why}", line)
        elif found is None:
            skips.add(why_no_number(value), line)
        elif name in out and not loose:
            raise skips.twice(name, line)
        elif name in out:
            skips.add("a second value under one name", line)
        else:
            out[name] = found
    return out


def require_apart(names: Sequence[str], skips: Skips) -> None:
    """Refuse a table in which two columns have one name.

    Raises:
        BadInput: it names both.
    """
    from expdb.text import plain

    first: dict[str, int] = {}
    for at, name in enumerate(names, start=1):
        if name and first.setdefault(name, at) != at:
            raise BadInput(
                f"{skips.name} has two columns {plain(name)}: columns {first[name]} and {at}",
                hint="give one of them another name in the file",
            )


def step_column(names: Sequence[str], wanted: str, path: Path) -> str:
    """Return the column that holds the step.

    Raises:
        BadInput: there is none.
    """
    from expdb.text import plain

    if wanted:
        if wanted in names:
            return wanted
    else:
        lower = {name.lower(): name for name in reversed(names)}
        for name in STEP_NAMES:
            if name in lower:
                return lower[name]
    missing = plain(wanted) if wanted else "step"
    shown = " ".join(plain(name) for name in names[:8])
    raise BadInput(
        f"{plain(path.name)} has no column {missing}",
        hint=f"name it: --step NAME; columns: {shown}",
    )
