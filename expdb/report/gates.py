"""Gates as text: what a run was held against, and what came out.

Invariant: marks are never rounded; without colour every line reads the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from expdb.query.gates import GateOutcome, GateResult
from expdb.report.grid import Cell, left
from expdb.report.style import Style
from expdb.signs import Colour
from expdb.store.gates import Gate
from expdb.text import band, cells, config_value, decimals_for, metric, plain

COLOURS: Final[Mapping[GateOutcome, Colour]] = {
    GateOutcome.PASS: "green",
    GateOutcome.FAIL: "red",
    GateOutcome.INCONCLUSIVE: "yellow",
    GateOutcome.MISSING: "red",
}
SHORT: Final[Mapping[GateOutcome, str]] = {
    GateOutcome.PASS: "pass",
    GateOutcome.FAIL: "fail",
    GateOutcome.INCONCLUSIVE: "?",
    GateOutcome.MISSING: "missing",
}
VERBS: Final[Mapping[GateOutcome, str]] = {
    GateOutcome.PASS: "passes",
    GateOutcome.FAIL: "fails",
    GateOutcome.INCONCLUSIVE: "is inconclusive",
    GateOutcome.MISSING: "has no value",
}
WORST_FIRST: Final = (
    GateOutcome.FAIL, GateOutcome.MISSING, GateOutcome.INCONCLUSIVE, GateOutcome.PASS,
)  # fmt: skip


def lines(results: Sequence[GateResult], style: Style, *, is_over: bool = True) -> list[str]:
    """Return one line a gate: `val/loss 1.848 <= 1.9  pass`; `is_over` tells of a finished run."""
    said = [style.say(_held(result, style)) for result in results]
    width = max(map(cells, said), default=0)
    out = []
    for text, result in zip(said, results, strict=True):
        word = style.paint(str(result.outcome), COLOURS[result.outcome])
        out.append(f"{left(text, width)}  {word}" + ("" if is_over else " so far"))
    return out


def in_few_words(results: Sequence[GateResult]) -> str:
    """Return how a run stands to its gates: `gate val/loss fails, and 1 more`; none has no text."""
    if not results:
        return ""
    worst = next(word for word in WORST_FIRST if any(one.outcome is word for one in results))
    alike = [one for one in results if one.outcome is worst]
    if worst is GateOutcome.PASS:
        return "gate passes" if len(alike) == 1 else f"{len(alike):,} gates pass"
    more = f", and {len(alike) - 1:,} more" if len(alike) > 1 else ""
    return f"gate {plain(alike[0].gate.metric)} {VERBS[worst]}{more}"


def worst_of(results: Sequence[GateResult]) -> str:
    """Return the outcome that counts where there are several: `fail`; none has no text."""
    found = {one.outcome for one in results}
    return next((str(word) for word in WORST_FIRST if word in found), "")


def cell_of(results: Sequence[GateResult], style: Style) -> Cell:
    """Return how a mean stands to its gates: `pass`, `? val/loss`, `fail val/loss, 1 more`."""
    worst = worst_of(results)
    if not worst:
        return Cell()
    outcome = GateOutcome(worst)
    alike = [one for one in results if one.outcome is outcome]
    said = SHORT[outcome]
    if outcome is not GateOutcome.PASS:
        said += f" {plain(alike[0].gate.metric)}"
        said += f", {len(alike) - 1:,} more" if len(alike) > 1 else ""
    return Cell(style.say(said), COLOURS[outcome])


def name_of(gate: Gate) -> str:
    """Return a gate as a head of its row: `val/loss <= 1.9`, `0.1 <= train/x max <= 10`."""
    return _between(gate, plain(gate.metric) + _reading(gate))


def cells_of(results: Iterable[GateResult], style: Style) -> tuple[Cell, ...]:
    """Return how several runs stand to one gate: `1.848 pass`, one cell a run."""
    found = list(results)
    decimals = decimals_for(one.value for one in found)
    out = []
    for one in found:
        half = band(one.half_width, decimals, pm=style.signs.pm, key=one.gate.metric)
        value = metric(one.value, decimals, key=one.gate.metric, absent="")
        parts = (value, half if one.outcome is GateOutcome.INCONCLUSIVE else "", SHORT[one.outcome])
        out.append(Cell(" ".join(part for part in parts if part), COLOURS[one.outcome]))
    return tuple(out)


def document(result: GateResult) -> dict[str, Any]:
    """Return one gate of one run as JSON has it."""
    return {
        **marks(result.gate),
        "value": result.value,
        "half_width": result.half_width,
        "outcome": str(result.outcome),
    }


def marks(gate: Gate) -> dict[str, Any]:
    """Return what a gate declares, as JSON has it."""
    return {"metric": gate.metric, "reading": gate.reading, "min": gate.low, "max": gate.high}


def table(rows: Iterable[Sequence[GateResult]]) -> list[dict[str, Any]]:
    """Return each gate with the value, half-width and outcome of every run, as JSON has it."""
    return [
        {
            **marks(row[0].gate),
            "values": [one.value for one in row],
            "half_widths": [one.half_width for one in row],
            "outcomes": [str(one.outcome) for one in row],
        }
        for row in rows
    ]


def _held(result: GateResult, style: Style) -> str:
    gate = result.gate
    decimals = decimals_for([result.value])
    value = metric(result.value, decimals, key=gate.metric)
    half = band(result.half_width, decimals, pm=style.signs.pm, key=gate.metric)
    found = " ".join(part for part in (value, half) if part)
    return _between(gate, f"{plain(gate.metric)}{_reading(gate)} {found}")


def _reading(gate: Gate) -> str:
    return "" if gate.reading == "last" else f" {gate.reading}"


def _between(gate: Gate, text: str) -> str:
    """Return a text between the marks of a gate: one mark stands behind it."""
    if gate.low is None:
        return f"{text} <= {_mark(gate.high)}"
    if gate.high is None:
        return f"{text} >= {_mark(gate.low)}"
    return f"{_mark(gate.low)} <= {text} <= {_mark(gate.high)}"


def _mark(value: float | None) -> str:
    """Return a mark as it was declared, a whole number without its point."""
    text = config_value(value, None)
    return text.removesuffix(".0")
