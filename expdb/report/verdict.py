"""The last lines of a comparison: better, worse, no difference or inconclusive, and why.

Invariant: the word stands first, the noise and anything that weakens the word stand under it.
"""

from __future__ import annotations

from expdb.model import Run
from expdb.query.compare_results import Comparison, Verdict
from expdb.query.results import Outcome, Spread
from expdb.report.at_once import line_of
from expdb.report.style import Style
from expdb.report.words import OUTCOME_COLOURS, OUTCOME_WORDS, head_label
from expdb.text import cells, decimals_for, metric, plain


def verdict_lines(comparison: Comparison, style: Style) -> list[str]:
    """Return the verdicts and what is known about the noise behind them."""
    verdicts = comparison.verdicts
    if not verdicts:
        return []
    words = [OUTCOME_WORDS[verdict.outcome] for verdict in verdicts]
    names = [""] if len(verdicts) == 1 else _names(comparison, style)
    name_cells = max(cells(name) for name in names)
    word_cells = max(len(word) for word in words)
    lines = []
    for name, word, verdict in zip(names, words, verdicts, strict=True):
        lead = "" if len(verdicts) == 1 else name + " " * (name_cells - cells(name) + 2)
        pad = " " * (word_cells - len(word) + 2)
        painted = style.paint(word, OUTCOME_COLOURS[verdict.outcome], "bold")
        lines.append(f"{lead}{painted}{pad}{style.say(verdict.reason)}")
    indent = " " * ((name_cells if len(verdicts) > 1 else word_cells) + 2)
    said = line_of(comparison, style)
    notes = (f"{indent}{note}" for note in _notes(comparison, style))
    return [*lines, *notes, *([said] if said else [])]


def _names(comparison: Comparison, style: Style) -> list[str]:
    others = comparison.runs[1:]
    names = [plain(run.name) for run in others]
    if len(set(names)) == len(names):
        return names
    return [head_label(run, style) for run in others]


def _notes(comparison: Comparison, style: Style) -> list[str]:
    notes = []
    if comparison.spread is not None:
        notes += _spread(comparison, comparison.spread)
    elif any(verdict.outcome is not Outcome.INCONCLUSIVE for verdict in comparison.verdicts):
        notes += _noise(comparison)
    if said := seeds_differ(comparison):
        notes.append(said)
    return [style.say(note) for note in notes]


def seeds_differ(comparison: Comparison) -> str:
    """Return that two runs of different configs have different seeds; empty where they do not."""
    if len(comparison.runs) != 2 or comparison.spread is not None:
        return ""
    base, run = (item.seed for item in comparison.runs)
    if base is None or run is None or base == run:
        return ""
    return f"not the same seed: {run} against {base}"


def _spread(comparison: Comparison, spread: Spread) -> list[str]:
    if spread.sd is None:
        return []
    key = comparison.objective.metric if comparison.objective else ""
    low, high, sd = (
        metric(value, decimals_for([spread.low, spread.high]), key=key)
        for value in (spread.low, spread.high, spread.sd)
    )
    return [f"spread: {spread.num_seeds} seeds from {low} to {high}, sd {sd}"]


def _noise(comparison: Comparison) -> list[str]:
    noise = comparison.noise
    if noise is None:
        return []
    values = [
        value for diff in comparison.metrics if diff.key == noise.metric for value in diff.values
    ]
    sd = metric(noise.sd, decimals_for(values), key=noise.metric)
    if noise.source == "declared":
        return [f"noise: declared seed sd {sd}, 1 seed each"]
    return [f"noise: seed sd {sd} measured over {noise.num_seeds} seeds, 1 seed each"]


def settle(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the commands that would settle an inconclusive comparison, as (label, text)."""
    verdict = comparison.verdicts[0] if len(comparison.verdicts) == 1 else None
    objective = comparison.objective
    if not _lacks_noise(comparison, verdict) or objective is None:
        return []
    found: list[tuple[str, str]] = []
    runs = comparison.runs
    seeds = [run.seed for run in runs if run.seed is not None]
    if len(seeds) == len(runs) and all(_plain_name(run) for run in runs):
        names = ",".join(dict.fromkeys(run.experiment for run in runs))
        more = f"{max(seeds) + 1},{max(seeds) + 2}"
        found.append(("settle", f"python train.py -m +exp={names} seed={more}"))
    hint = f"declare the noise you know, in conf/expdb: noise: {{{objective.metric}: SD}}"
    found.append(("hint", f"or {hint}" if found else hint))
    return found


def _lacks_noise(comparison: Comparison, verdict: Verdict | None) -> bool:
    return (
        verdict is not None
        and verdict.outcome is Outcome.INCONCLUSIVE
        and comparison.noise is None
        and verdict.delta is not None
    )


def _plain_name(run: Run) -> bool:
    """Tell whether a run can be started again by its experiment's name alone."""
    return not run.variant and run.experiment.replace("_", "").replace("-", "").isalnum()
