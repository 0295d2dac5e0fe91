"""How runs stand to the gates that they declare: pass, fail, inconclusive, missing.

A gate is judged by what its reading takes from the summary of the metric. The half-width of that
value is 1.96 x the standard deviation over seeds, declared or measured, joined with 1.96 x the last
`<metric>_stderr` of an evaluation; a mean over three seeds or more has Student's. Where neither is
known the value counts as it stands.

Invariant: a value that is not finite never passes, and a mark within the half-width decides
nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from expdb.index.reader import Reader
from expdb.model import Run
from expdb.query.noise import MIN_SEEDS, declared_noise, deviation, measured_noise
from expdb.query.results import RunRow
from expdb.query.runs import run_rows
from expdb.store.gates import Gate, kept_gates

Z95: Final = 1.959963984540054


class GateOutcome(StrEnum):
    """How a value stands to the marks of its gate."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One gate, the value that was held against it, and what came out."""

    gate: Gate
    value: float | None
    """None where the run has no finite value of the metric."""
    half_width: float | None
    """The 95 % half-width of the value; None where none is known."""
    outcome: GateOutcome
    num_seeds: int = 1
    """Over how many runs the value is the mean."""

    @property
    def is_missed(self) -> bool:
        """Whether the value fails, or there is none."""
        return self.outcome in (GateOutcome.FAIL, GateOutcome.MISSING)


class Summary(NamedTuple):
    """What a gate reads of one series; least and greatest are over finite values."""

    points: int
    nonfinite: int
    last: float
    least: float | None
    greatest: float | None
    mean_last_3: float | None


def outcome_of(gate: Gate, value: float | None, half_width: float | None) -> GateOutcome:
    """Return how a value with a 95 % half-width stands to a gate; None and 0 are no half-width."""
    if value is None:
        return GateOutcome.MISSING
    if not math.isfinite(value):
        return GateOutcome.FAIL
    over = [] if gate.high is None else [value - gate.high]
    over += [] if gate.low is None else [gate.low - value]
    beyond = max(over)
    if not half_width:
        return GateOutcome.PASS if beyond <= 0 else GateOutcome.FAIL
    if beyond > half_width:
        return GateOutcome.FAIL
    return GateOutcome.PASS if beyond < -half_width else GateOutcome.INCONCLUSIVE


def value_of(gate: Gate, summary: Summary | None) -> float | None:
    """Return the value that a gate reads of a series; None where nothing of it is finite.

    The greatest value held against an upper mark, and the least against a lower one, is NaN where
    any point is not finite: such a point keeps to no mark.
    """
    if summary is None or summary.points <= summary.nonfinite:
        return None
    reading = gate.reading
    if reading == "last":
        return summary.last
    if reading == "mean_last_3":
        return summary.last if summary.mean_last_3 is None else summary.mean_last_3
    worst = {"max": gate.high, "min": gate.low}.get(reading) is not None
    if worst and summary.nonfinite:
        return math.nan
    is_least = (gate.mode if reading == "best" else reading) == "min"
    return summary.least if is_least else summary.greatest


def own_results(reader: Reader, runs: Iterable[str]) -> dict[str, tuple[GateResult, ...]]:
    """Return run -> how it stands to the gates of its own settings; runs without gates left out."""
    settings = _settings(reader, list(runs))
    own = {run: gates for run, its in settings.items() if (gates := kept_gates(its))}
    if not own:
        return {}
    judge = _Judge(reader, settings, own)
    return {run: tuple(judge.of(run, gate) for gate in gates) for run, gates in own.items()}


def compared_results(reader: Reader, runs: Sequence[Run]) -> tuple[tuple[GateResult, ...], ...]:
    """Return for each gate of the newest run how every run stands to it, in the order given.

    The noise that the newest declares counts for all, as wherever runs are compared.
    """
    newest = max(runs, key=lambda run: (run.created_at_ms, run.id))
    gates = kept_gates(newest.settings)
    if not gates:
        return ()
    ids = [run.id for run in runs]
    judge = _Judge(reader, dict.fromkeys(ids, newest.settings), dict.fromkeys(ids, gates))
    return tuple(tuple(judge.of(run, gate) for run in ids) for gate in gates)


def group_results(
    reader: Reader, groups: Sequence[Sequence[str]]
) -> tuple[tuple[GateResult, ...], ...]:
    """Return for each gate of the newest run how the mean of every group of runs stands to it."""
    ids = [run for group in groups for run in group]
    newest: Mapping[str, Any] = next(iter(_settings(reader, ids).values()), {})
    gates = kept_gates(newest)
    if not gates:
        return ()
    judge = _Judge(reader, dict.fromkeys(ids, newest), dict.fromkeys(ids, gates))
    return tuple(tuple(judge.of_group(group, gate) for group in groups) for gate in gates)


def results_of_groups(
    reader: Reader, groups: Sequence[Sequence[str]]
) -> list[tuple[GateResult, ...]]:
    """Return how the mean of each group of runs stands to the gates of its own newest run."""
    settings = _settings(reader, [run for group in groups for run in group])
    by_run: dict[str, Mapping[str, Any]] = {}
    for group in groups:
        newest = next((its for run, its in settings.items() if run in group), {})
        by_run |= dict.fromkeys(group, newest)
    gates = {run: kept_gates(its) for run, its in by_run.items()}
    judge = _Judge(reader, by_run, {run: its for run, its in gates.items() if its})
    return [
        tuple(judge.of_group(group, gate) for gate in (gates[group[0]] if group else ()))
        for group in groups
    ]


def _settings(reader: Reader, runs: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return run -> the settings that it kept, the newest run first."""
    sql = (
        "SELECT id, settings FROM runs WHERE id IN (SELECT unnest(?))"
        " ORDER BY created_at_ms DESC, id DESC"
    )
    found = ((run, json.loads(text)) for run, text in reader.rows(sql, [list(runs)]))
    return {run: settings if isinstance(settings, dict) else {} for run, settings in found}


class _Judge:
    """What holds runs against gates; a summary, and the noise of a config, is read once."""

    def __init__(
        self,
        reader: Reader,
        settings: Mapping[str, Mapping[str, Any]],
        gates: Mapping[str, tuple[Gate, ...]],
    ) -> None:
        self._reader = reader
        self._settings = settings
        self._summaries = _summaries(reader, gates)
        rows = run_rows(reader, where="r.id IN (SELECT unnest(?))", params=[list(gates)])
        self._rows = {row.id: row for row in rows}
        self._measured: dict[tuple[str, ...], float | None] = {}

    def of(self, run: str, gate: Gate) -> GateResult:
        """Return how one run stands to a gate."""
        value = value_of(gate, self._summaries.get((run, gate.metric)))
        half = None
        if value is not None and math.isfinite(value):
            half = _joined(Z95, self._sd(run, gate), self._stderr(run, gate))
        outcome = outcome_of(gate, value, half)
        return GateResult(gate=gate, value=value, half_width=half, outcome=outcome)

    def of_group(self, runs: Sequence[str], gate: Gate) -> GateResult:
        """Return how the mean of some runs, one a seed, stands to a gate."""
        found = ((run, value_of(gate, self._summaries.get((run, gate.metric)))) for run in runs)
        having = {run: value for run, value in found if value is not None}
        if len(having) < 2:
            return self.of(next(iter(having or runs), ""), gate)
        values = list(having.values())
        mean = math.nan
        if all(map(math.isfinite, values)):
            mean = math.fsum(value / len(values) for value in values)
        half = self._half_width(list(having), values, gate) if math.isfinite(mean) else None
        return GateResult(
            gate=gate,
            value=mean,
            half_width=half,
            outcome=outcome_of(gate, mean, half),
            num_seeds=len(values),
        )

    def _half_width(self, runs: Sequence[str], values: Sequence[float], gate: Gate) -> float | None:
        """Return the half-width of a mean; items are the same for all seeds, so their share is."""
        number = len(values)
        errors = [one for run in runs if (one := self._stderr(run, gate)) is not None]
        error = math.fsum(errors) / len(errors) if errors else None
        if number >= MIN_SEEDS:
            from expdb.query.student import t_quantile

            sd: float | None = deviation(values)
            factor = t_quantile(0.975, number - 1)
        else:
            sd, factor = self._sd(runs[-1], gate), Z95
        spread = None if sd is None else factor * sd / math.sqrt(number)
        return _joined(1.0, spread, None if error is None else Z95 * error)

    def _sd(self, run: str, gate: Gate) -> float | None:
        """Return the standard deviation over seeds, where it is that of the gate's reading."""
        declared = declared_noise(self._settings.get(run, {}), gate.metric)
        if declared is not None:
            return declared.sd
        row = self._rows.get(run)
        if row is None or gate.reading != _reading(row, gate.metric):
            return None
        key = (row.experiment, row.variant, row.digest, gate.metric)
        if key not in self._measured:
            measured = measured_noise(self._reader, row, gate.metric)
            self._measured[key] = None if measured is None else measured.sd
        return self._measured[key]

    def _stderr(self, run: str, gate: Gate) -> float | None:
        """Return the last standard error that an evaluation gave with the metric."""
        found = self._summaries.get((run, f"{gate.metric}_stderr"))
        known = found is not None and math.isfinite(found.last) and found.last >= 0
        return found.last if known and found is not None else None


def _reading(row: RunRow, metric: str) -> str:
    """Return the reading that noise over seeds is measured by: the objective's own, else `last`."""
    objective = row.objective
    return objective.reading if objective is not None and objective.metric == metric else "last"


def _joined(factor: float, *parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return factor * math.hypot(*known) if known else None


def _summaries(
    reader: Reader, gates: Mapping[str, Sequence[Gate]]
) -> dict[tuple[str, str], Summary]:
    metrics = {gate.metric for found in gates.values() for gate in found}
    keys = [*metrics, *(f"{metric}_stderr" for metric in metrics)]
    sql = """
        SELECT run, key, count, nonfinite, last, min, max, mean_last_3 FROM series
        WHERE run IN (SELECT unnest(?)) AND key IN (SELECT unnest(?))
    """
    found = reader.rows(sql, [list(gates), keys])
    return {(run, key): Summary(*summary) for run, key, *summary in found}
