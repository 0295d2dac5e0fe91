"""The words and short texts that several screens share.

Invariant: an outcome has the same word everywhere; a run in text is its id, then its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from expdb.query.results import Noise, Outcome, RunRow
from expdb.report.style import Style
from expdb.signs import Colour
from expdb.text import band, decimals_for, plain, signed

if TYPE_CHECKING:
    from expdb.model import Objective, Pin, Run

OUTCOME_WORDS: Final[Mapping[Outcome, str]] = {
    Outcome.BETTER: "better",
    Outcome.WORSE: "worse",
    Outcome.NO_DIFFERENCE: "no difference",
    Outcome.INCONCLUSIVE: "inconclusive",
}
SHORT_WORDS: Final[Mapping[Outcome, str]] = {
    Outcome.BETTER: "better",
    Outcome.WORSE: "worse",
    Outcome.NO_DIFFERENCE: "noise",
    Outcome.INCONCLUSIVE: "?",
}
OUTCOME_COLOURS: Final[Mapping[Outcome, Colour]] = {
    Outcome.BETTER: "green",
    Outcome.WORSE: "red",
    Outcome.NO_DIFFERENCE: "dim",
    Outcome.INCONCLUSIVE: "yellow",
}
READINGS: Final[Mapping[str, str]] = {
    "last": "last value",
    "best": "best value",
    "mean_last_3": "mean of the last 3",
}


SHA256: Final = re.compile(r"[0-9a-f]{64}")


def counted(number: int, word: str) -> str:
    """Return a number with its noun: `1 key`, `4 keys`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def label(run: Run | RunRow, style: Style) -> str:
    """Return a run in text: `k3f9 baseline`."""
    return f"{style.run(run.id)} {plain(run.name)}"


def head_label(run: Run | RunRow, style: Style) -> str:
    """Return a run as the head of a column: `baseline k3f9`."""
    return f"{plain(run.name)} {style.run(run.id)}"


def with_refs(row: RunRow, style: Style) -> str:
    """Return a run's name and the refs on it: `baseline [baseline]`.

    A pipe has no room for a mark in front of the line, so HEAD stands among the refs there.
    """
    refs = [*(["HEAD"] if row.is_head and not style.terminal else []), *row.refs]
    return plain(row.name) + "".join(f" [{plain(ref)}]" for ref in refs)


def step_of(last_step: int | None, max_steps: int | None) -> str:
    """Return how far a run came: `180/300`, `180`, or nothing."""
    if last_step is None:
        return ""
    return str(last_step) if max_steps is None else f"{last_step}/{max_steps}"


def progress(row: RunRow | Run) -> str:
    """Return the step of a finished run, and how far an unfinished one came."""
    if row.state.value == "finished":
        return step_of(row.last_step, None)
    return step_of(row.last_step, row.max_steps)


def direction(objective: Objective) -> str:
    """Return how a metric is judged: `val/loss, lower is better, last value`."""
    way = "lower" if objective.mode == "min" else "higher"
    return f"{plain(objective.metric)}, {way} is better, {READINGS[objective.reading]}"


def noise_band(noise: Noise, values: list[float | None], style: Style) -> str:
    """Return the half-width of a metric's noise in the decimals of its values: `±0.022`."""
    return band(noise.band, decimals_for(values), pm=style.signs.pm, key=noise.metric)


def delta_cell(row: RunRow, decimals: int, metric: str) -> tuple[str, str, Colour]:
    """Return (delta, word, colour) of a row against the baseline; empty where there is none."""
    if row.delta is None:
        return "", "", ""
    number = signed(row.delta.value, decimals, key=metric)
    if row.delta.outcome is None:
        at = "" if row.delta.at_step is None else f"@{row.delta.at_step}"
        return number, at + _seed(row), "dim"
    word = SHORT_WORDS[row.delta.outcome] + _seed(row)
    return number, word, OUTCOME_COLOURS[row.delta.outcome]


def _seed(row: RunRow) -> str:
    """Return the seed of what a row is measured against, where its own seed has no run there."""
    other = row.delta.other_seed if row.delta is not None else None
    return "" if other is None else f" (seed {other})"


def code_line(pin: Pin) -> str:
    """Return which code a run is fixed to: `main 4be1f02, clean`."""
    if pin.commit is None:
        return plain(pin.reasons[0]) if pin.reasons else "not pinned"
    at = plain(f"{pin.branch} {pin.commit[:7]}" if pin.branch else pin.commit[:7])
    if pin.branch == "detached":
        at = f"detached at {pin.commit[:7]}"
    if not pin.dirty:
        return f"{at}, clean"
    edits = counted(pin.num_edits, "edit") if pin.num_edits else "edits"
    kept = f", kept as snapshot {pin.snapshot[:7]}" if pin.snapshot else ", not kept"
    return f"{at} with {edits}{kept}"


def short_digest(value: object) -> str:
    """Return a data digest with 8 hex digits, `sha256:5b0e91c2`, and any other text whole."""
    text = "" if value is None else str(value)
    if text.startswith("sha256:"):
        return text[: len("sha256:") + 8]
    return f"sha256:{text[:8]}" if SHA256.fullmatch(text) else text


def code_short(pin: Pin) -> str:
    """Return the code of one side of a comparison: `7c1e88a with edits (snapshot 0d57b3a)`."""
    if pin.commit is None:
        return "no commit"
    if not pin.dirty:
        return pin.commit[:7]
    return f"{pin.commit[:7]} with edits" + (
        f" (snapshot {pin.snapshot[:7]})" if pin.snapshot else ""
    )


def environment_line(environment: Mapping[str, str]) -> str:
    """Return the main parts of an environment: `python 3.11.7, torch 2.13.0+cpu, 1 thread`."""
    parts = [f"{name} {environment[name]}" for name in ("python", "torch") if name in environment]
    threads = environment.get("torch.num_threads")
    if threads is not None:
        parts.append(f"{threads} thread" if threads == "1" else f"{threads} threads")
    if environment.get("gpu"):
        parts.append(environment["gpu"])
    return plain(", ".join(parts))
