"""The two lines above a comparison: who is compared, and what is to be said of it.

Invariant: better and worse come with their interval and where the noise is known from; what is
inconclusive says what would settle it.
"""

from __future__ import annotations

from collections.abc import Sequence

from expdb.query.results import Noise, Outcome
from expdb.text import decimals_for, metric, plain, signed
from expdb_tui.compare.measured import Measured
from expdb_tui.compare.reading import Compared
from expdb_tui.ink import Piece
from expdb_tui.marks import OUTCOME_ROLES, Marks

WORDS = {
    Outcome.BETTER: "BETTER",
    Outcome.WORSE: "WORSE",
    Outcome.NO_DIFFERENCE: "NO DIFFERENCE",
    Outcome.INCONCLUSIVE: "INCONCLUSIVE",
}
WIDE = 100


def who(shown: Compared, marks: Marks) -> list[Piece]:
    """Return the runs, or the groups with their seeds, each with its mark."""
    out: list[Piece] = []
    for at, (name, place) in enumerate(zip(shown.names, shown.places, strict=True)):
        if shown.seeds is not None:
            seeds = [seed for seed in shown.seeds.groups[at].seeds if seed is not None]
        else:
            seed = shown.found.runs[at].seed
            seeds = [] if seed is None else [seed]
        said = " s" + ",".join(map(str, seeds[:4])) + (",.." if len(seeds) > 4 else "")
        out += [("   " if at else "", ""), (marks.series[place], f"series{place}"), (" ", "")]
        out += [(plain(name), "text+bold"), (said if seeds else "", "dim")]
    return out


def about(shown: Compared, width: int) -> list[Piece]:
    """Return what is judged by, for the right end of the line."""
    objective = shown.found.objective
    if objective is None:
        return [("no objective is declared", "dim")]
    if width < WIDE:
        return [(_count(shown), "dim")]
    way = "lower" if objective.mode == "min" else "higher"
    return [(f"objective {plain(objective.metric)}, {way} is better", "dim")]


def _count(shown: Compared) -> str:
    counts = set(shown.num_seeds)
    if len(counts) > 1:
        return " and ".join(str(count) for count in shown.num_seeds) + " seeds"
    count = counts.pop()
    return "1 seed each" if count == 1 else f"{count} seeds each"


def verdict(shown: Compared, marks: Marks, width: int) -> list[Piece]:
    """Return the verdict; of several runs one after the other."""
    row = next((one for one in shown.metrics if one.is_objective), None)
    if row is None or shown.found.objective is None:
        reason = shown.found.verdicts[0].reason if shown.found.verdicts else ""
        return [("  INCONCLUSIVE  ", "dim+bold"), (plain(reason), "dim")]
    if len(shown.places) == 2:
        return _one(shown, row, marks, width)
    out: list[Piece] = [(f"{plain(row.key)}  ", "text")]
    decimals = decimals_for(row.values)
    for at, place in list(enumerate(shown.places))[1:]:
        outcome = row.outcomes[at] or Outcome.INCONCLUSIVE
        role = OUTCOME_ROLES[outcome]
        said = signed(row.deltas[at], decimals, key=row.key, absent="")
        word = WORDS[outcome] if outcome is not Outcome.NO_DIFFERENCE else "SAME"
        out += [(f" {marks.series[place]} ", f"series{place}")]
        out += [
            (f"{marks.outcomes[outcome]} {word} ".lstrip(), f"{role}+bold"),
            (said, role),
            ("  ", ""),
        ]
    return out


def _one(shown: Compared, row: Measured, marks: Marks, width: int) -> list[Piece]:
    outcome = row.outcomes[1] or Outcome.INCONCLUSIVE
    role = OUTCOME_ROLES[outcome]
    sign = marks.outcomes[outcome]
    out: list[Piece] = [(f"{sign} {WORDS[outcome]}", f"{role}+bold")]
    if outcome is Outcome.INCONCLUSIVE:
        return [*out, ("  ", ""), (_why_not(shown), "dim")]
    decimals = decimals_for(row.values)
    delta, half = row.deltas[1], row.halves[1]
    out += [
        (f"  {plain(row.key)} ", "text"),
        (signed(delta, decimals, key=row.key), f"{role}+bold"),
    ]
    if delta is not None and half is not None:
        low, high = (signed(end, decimals, key=row.key) for end in (delta - half, delta + half))
        out.append((f" [{low}, {high}]", "text"))
    return [*out, ("  ", ""), *_noise(shown, outcome, decimals, width)]


def _noise(shown: Compared, outcome: Outcome, decimals: int, width: int) -> Sequence[Piece]:
    is_inside = outcome is Outcome.NO_DIFFERENCE
    noise = shown.found.noise if shown.seeds is None else shown.seeds.noise
    sd = "" if noise is None else metric(noise.sd, decimals, key=noise.metric)
    if shown.seeds is None and len(shown.found.runs) == 2 and is_inside:
        reason = shown.found.verdicts[0].reason
        if "same config" in reason:
            return [("same config, other seed: this is noise", "dim")]
    if width < WIDE:
        return [(f"{'inside' if is_inside else 'beyond'} noise{f', sd {sd}' if sd else ''}", "dim")]
    said = "inside the noise: " if is_inside else "beyond the noise: "
    return [(said + ", ".join(_sources(shown, noise, sd)), "dim")]


def _sources(shown: Compared, noise: Noise | None, sd: str) -> list[str]:
    """Return where the noise is known from."""
    out: list[str] = []
    if noise is not None:
        out.append(
            f"seed sd {sd} "
            + ("declared" if noise.source == "declared" else f"of {noise.num_seeds} seeds")
        )
    out.append(_count(shown))
    how = shown.seeds.groups[1].delta.how if shown.seeds and shown.seeds.groups[1].delta else ""
    if how == "welch":
        out = [_count(shown), "Welch 95 %"]
    return out


def _why_not(shown: Compared) -> str:
    """Return why nothing can be said, and what would settle it."""
    if shown.seeds is None:
        return plain(shown.found.verdicts[0].reason)
    name = plain(shown.seeds.groups[1].experiment)
    return f"{_count(shown)}, no noise is known: expdb run {name} --missing"
