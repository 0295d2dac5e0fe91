"""Groups over seeds: `rank --over seed`, `ls --over seed`.

Invariant: a mean never stands without the number of seeds behind it; the deciding line is the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from expdb.query.results import Noise, Outcome
from expdb.query.seed_results import MeanDelta, SeedGroup, SeedGroups
from expdb.report.grid import Cell, Column, Grid, lay_out, right
from expdb.report.json import utc
from expdb.report.style import Style
from expdb.report.words import OUTCOME_COLOURS, SHORT_WORDS, counted, direction
from expdb.text import age, band, cells, decimals_for, metric, plain, signed

DIGEST_CHARS = 7
NAMED = 3
FEW_SEEDS = "fewer than 3 seeds on a side, and no noise is known"


def render_rank(found: SeedGroups, style: Style) -> list[str]:
    """Return the ranking over seeds: what is ranked, the table, what ± is, the verdict."""
    head = f"{style.say(direction(found.objective))}, mean over seeds"
    lines = [head, "", *lay_out(rank_grid(found, style), style), ""]
    said = note([group.delta for group in found.groups], found.noise, _all_values(found), style)
    return [*lines, *([said, ""] if said else []), _verdict(found, style)]


def render_list(found: SeedGroups, style: Style) -> list[str]:
    """Return the groups as a list, newest first; nothing when there is none."""
    return lay_out(list_grid(found, style), style) if found.groups else []


def rank_grid(found: SeedGroups, style: Style) -> Grid:
    """Return the table of `rank --over seed`."""
    groups = found.groups
    columns = [
        (Column(head="#", right=True, min_cells=3), [str(at + 1) for at in range(len(groups))]),
        (Column(head="experiment", cut="middle"), [named(group, style) for group in groups]),
        (Column(head="seeds", right=True), [str(len(group.values)) for group in groups]),
        (Column(head="mean", right=True), _numbers(found, [group.mean for group in groups])),
        (Column(head="sd", right=True, leaves=1), _numbers(found, [g.sd for g in groups])),
    ]
    least = _numbers(found, [min(group.values) for group in groups])
    greatest = _numbers(found, [max(group.values) for group in groups])
    return _grid(
        [(column, [Cell(text) for text in texts]) for column, texts in columns]
        + [(Column(head="vs baseline"), _delta_cells(found, style))]
        + [
            (Column(head="min", right=True, leaves=0), [Cell(text) for text in least]),
            (Column(head="max", right=True, leaves=0), [Cell(text) for text in greatest]),
        ]
        + _gates(found, style)
    )


def list_grid(found: SeedGroups, style: Style) -> Grid:
    """Return the table of `ls --over seed`."""
    groups = found.groups
    means = _numbers(found, [group.mean for group in groups], absent="")
    return _grid(
        [
            (Column(head="experiment", cut="middle"), [Cell(named(g, style)) for g in groups]),
            (Column(head="seeds", right=True), [Cell(str(len(g.values))) for g in groups]),
            (Column(head="runs", leaves=0), [Cell(_states(group)) for group in groups]),
            (
                Column(head=style.say(found.objective.metric), right=True),
                [Cell(text) for text in means],
            ),
            (
                Column(head="sd", right=True, leaves=1),
                [Cell(text) for text in _numbers(found, [g.sd for g in groups], absent="")],
            ),
            (Column(head="vs baseline"), _delta_cells(found, style)),
            (
                Column(head="age", right=True, leaves=2),
                [Cell(age(group.newest_ms, style.now_ms), "dim") for group in groups],
            ),
            *_gates(found, style),
        ]
    )


def _gates(found: SeedGroups, style: Style) -> list[tuple[Column, list[Cell]]]:
    """Return a column of gates, where one is declared."""
    if not any(group.gates for group in found.groups):
        return []
    from expdb.report.gates import cell_of  # few runs have gates

    return [(Column(head="gates", cut="end"), [cell_of(g.gates, style) for g in found.groups])]


def _grid(columns: Sequence[tuple[Column, list[Cell]]]) -> Grid:
    rows = tuple(zip(*(texts for _, texts in columns), strict=True))
    return Grid(tuple(column for column, _ in columns), rows)


def _all_values(found: SeedGroups) -> list[float | None]:
    return [value for group in found.groups for value in group.values]


def _numbers(found: SeedGroups, values: Sequence[float | None], *, absent: str = "-") -> list[str]:
    decimals = decimals_for(_all_values(found))
    key = found.objective.metric
    return [metric(value, decimals, key=key, absent=absent) for value in values]


def named(group: SeedGroup, style: Style) -> str:
    """Return a group's name with its refs, and its config where another one has the same name."""
    name = plain(group.name)
    if group.shares_name:
        version, _, digest = group.digest.partition(":")
        name += f" ({version}:{digest[:DIGEST_CHARS]})"
    return name + "".join(f" [{plain(ref)}]" for ref in group.refs)


def _states(group: SeedGroup) -> str:
    return ", ".join(f"{number} {state}" for state, number in sorted(group.states.items()))


def _delta_cells(found: SeedGroups, style: Style) -> list[Cell]:
    decimals = decimals_for(_all_values(found))
    deltas = [group.delta for group in found.groups]
    return delta_cells(deltas, decimals, found.objective.metric, style)


def delta_cells(
    deltas: Sequence[MeanDelta | None], decimals: int, key: str, style: Style
) -> list[Cell]:
    """Return differences with their half-widths and words, each part aligned."""
    parts = [delta_parts(delta, decimals, key, style) for delta in deltas]
    widths = [max((cells(part[at]) for part in parts), default=0) for at in (0, 1)]
    out = []
    for delta, (number, half, word) in zip(deltas, parts, strict=True):
        if delta is None:
            out.append(Cell())
            continue
        text = f"{right(number, widths[0])} {right(half, widths[1])} {word}".rstrip()
        out.append(Cell(text, OUTCOME_COLOURS[delta.outcome] if delta.outcome else ""))
    return out


def delta_parts(
    delta: MeanDelta | None, decimals: int, key: str, style: Style
) -> tuple[str, str, str]:
    """Return a difference, its half-width and its word; nothing where there is none."""
    if delta is None:
        return "", "", ""
    half = band(delta.half_width, decimals, pm=style.signs.pm, key=key)
    word = SHORT_WORDS[delta.outcome] if delta.outcome else ""
    return signed(delta.value, decimals, key=key), half, word


def note(
    deltas: Sequence[MeanDelta | None],
    noise: Noise | None,
    values: Sequence[float | None],
    style: Style,
) -> str:
    """Return what ± is made of: `± is 95 %: Welch where both have 3 seeds, else from ...`."""
    hows = {delta.how for delta in deltas if delta is not None}
    parts = []
    if "welch" in hows:
        parts.append("Welch where both have 3 seeds" if len(hows) > 1 else "Welch over the seeds")
    if "noise" in hows and noise is not None:
        shown = metric(noise.sd, decimals_for(values), key=noise.metric)
        source = (
            f"the declared noise {shown}"
            if noise.source == "declared"
            else f"the noise {shown}, measured over {noise.num_seeds} seeds"
        )
        parts.append(f"else from {source}" if parts else f"from {source}")
    if "" in hows:
        parts.append("? where a side has fewer than 3 seeds and no noise is known")
    if not parts:
        return ""
    lead = f"{style.signs.pm} is 95 %: " if hows - {""} else ""
    return lead + ", ".join(parts)


def _verdict(found: SeedGroups, style: Style) -> str:
    groups, key = found.groups, found.objective.metric
    decimals = decimals_for(_all_values(found))
    if found.base is None:
        return _verdict_alone(found, style, decimals)
    base = plain(found.base.name)
    better = [g for g in groups if g.delta is not None and g.delta.outcome is Outcome.BETTER]
    if better:
        ahead = _by(better[0].delta, decimals, key, style)
        line = f"{plain(better[0].name)}, ahead of {base} by {ahead}, beyond noise"
        also = ", ".join(plain(group.name) for group in better[1 : 1 + NAMED])
        more = len(better) - 1 - NAMED
        also += f" and {more} more" if more > 0 else ""
        line += f"; also better: {also}" if also else ""
        return f"{style.paint('best', 'green', 'bold')}  {style.say(line)}"
    measured = [group.delta for group in groups if group.delta is not None]
    if measured and all(delta.half_width is None for delta in measured):
        word = style.paint("inconclusive", "yellow", "bold")
        return f"{word}  {FEW_SEEDS}"
    word = style.paint("no winner", "dim", "bold")
    if not measured:
        return f"{word}  {style.say(base)} is the only one with a value"
    return f"{word}  no experiment is better than {style.say(base)} beyond noise"


def _verdict_alone(found: SeedGroups, style: Style, decimals: int) -> str:
    """Return the verdict on the first against the second, where no baseline is known."""
    first, ahead = found.groups[0], found.ahead
    name = style.say(first.name)
    if ahead is None:
        return f"{style.paint('best', 'green', 'bold')}  {name}, the only one ranked"
    by = _by(ahead, decimals, found.objective.metric, style)
    if ahead.outcome is Outcome.BETTER:
        word = style.paint("best", "green", "bold")
        return f"{word}  {name}, ahead of the next by {by}, beyond noise"
    if ahead.outcome is Outcome.INCONCLUSIVE:
        word = style.paint("inconclusive", "yellow", "bold")
        return f"{word}  {name} is ahead of the next by {by}; its noise is not known"
    word = style.paint("no winner", "dim", "bold")
    return f"{word}  the first two differ by {by}, inside noise"


def _by(delta: MeanDelta | None, decimals: int, key: str, style: Style) -> str:
    if delta is None:
        return ""
    number = signed(delta.value, decimals, key=key).lstrip("+-")
    return f"{number} {band(delta.half_width, decimals, pm=style.signs.pm, key=key)}".rstrip()


def best_line(found: SeedGroups, style: Style) -> str:
    """Return the best experiment: `exp07_zloss  1 seed  val/loss mean 1.839`."""
    group, key = found.groups[0], found.objective.metric
    decimals = decimals_for(group.values)
    value = f"{style.say(key)} mean {metric(group.mean, decimals, key=key)}"
    if group.sd is not None:
        value += f", sd {metric(group.sd, decimals, key=key)}"
    number = counted(len(group.values), "seed")
    return f"{style.say(named(group, style))}  {number}  {value}"


def best_hint(found: SeedGroups, style: Style) -> str:
    """Return why the best experiment is not better than the baseline; empty where it is."""
    group, base = found.groups[0], found.base
    delta = group.delta
    if base is None or delta is None or delta.outcome is Outcome.BETTER:
        return ""
    key, decimals = found.objective.metric, decimals_for([*group.values, *base.values])
    name = f"{style.say(base.name)} ({metric(base.mean, decimals, key=key)})"
    if delta.half_width is None:
        return f"against {name} nothing can be said: {FEW_SEEDS}"
    half = band(delta.half_width, decimals, pm=style.signs.pm, key=key)
    word = "worse" if delta.outcome is Outcome.WORSE else "not better"
    return f"{word} than {name} beyond noise {half}"


def said_of_group(found: SeedGroups) -> str:
    """Return `; over seeds: exp baseline, seeds 0-2`, for behind the resolution of the baseline."""
    group = found.base
    if group is None:
        return ""
    seeds = [seed for seed in group.seeds if seed is not None]
    return f"; over seeds: exp {plain(group.name)}" + (f", {_seeds(seeds)}" if seeds else "")


def next_commands(found: SeedGroups) -> list[tuple[str, str]]:
    """Return what to do next: who is left out of the means."""
    if not found.not_ranked:
        return []
    return [("hint", f"{counted(len(found.not_ranked), 'run')} not counted, and why: expdb rank")]


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]}-{seeds[-1]}"
    return f"seeds {', '.join(map(str, seeds))}"


# ------------------------------------------------------------------------- other programs


def table(found: SeedGroups) -> tuple[list[str], list[list[Any]]]:
    """Return heads and rows for CSV, one row a group."""
    heads = [
        "experiment", "config_digest", "seeds", "mean", "sd", "min", "max", "delta", "half_width",
        "outcome", "newest_at", "gates",
    ]  # fmt: skip
    return heads, [
        [*_numbers_of(group), utc(group.newest_ms), _worst(group)] for group in found.groups
    ]


def _worst(group: SeedGroup) -> str | None:
    if not group.gates:
        return None
    from expdb.report.gates import worst_of

    return worst_of(group.gates)


def _numbers_of(group: SeedGroup) -> list[Any]:
    delta = group.delta
    return [
        group.name,
        group.digest,
        len(group.values),
        group.mean,
        group.sd,
        min(group.values, default=None),
        max(group.values, default=None),
        delta.value if delta else None,
        delta.half_width if delta else None,
        delta.outcome.value if delta and delta.outcome else None,
    ]
