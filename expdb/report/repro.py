"""What `expdb probe repro` found, as lines and as JSON."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from expdb.report.json import document
from expdb.report.style import Style
from expdb.report.words import counted, label
from expdb.signs import Colour
from expdb.text import config_value, duration, plain

if TYPE_CHECKING:
    from expdb.actions.probe.repro import Repro, ReproPlan
    from expdb.query.compare_results import NamedDiff
    from expdb.query.series_match import PointPair, SeriesMatch

WORDS: Final[dict[str, tuple[str, Colour]]] = {
    "bit_equal": ("bit-equal", "green"),
    "equal_within": ("within", "yellow"),
    "differs": ("differs", "red"),
}
CELLS: Final = 11
SHOWN: Final = 5


def begin_lines(plan: ReproPlan, style: Style) -> list[str]:
    """Return what is about to be done."""
    which = f"steps {plan.start} to {plan.stop_at - 1}"
    return [
        f"{'again':<{CELLS}}{label(plan.run, style)}, {which}, at the code of {plan.commit[:7]}",
        f"{'runs':<{CELLS}}{plain(shlex.join(plan.argv))}",
    ]


def render_repro(found: Repro, style: Style) -> list[str]:
    """Return the result: the outcome first, then what could explain it."""
    match, out = found.match, []
    word, colour = WORDS[match.outcome]
    head = style.paint(f"{word:<{CELLS}}", colour, "bold")
    out.append(f"{head}{label(found.plan.run, style)}{_verdict(match, style)}")
    out += _row("also", _named(match.beside))
    if match.first is not None:
        out += _row("same", [f"{match.num_equal:,} of {_points(match)}, to the bit"])
    if match.largest is not None and match.outcome == "equal_within":
        out += _row("largest", [_pair(match.largest, style)])
    bits = match.first_bits
    if bits is not None and bits not in (match.first, match.largest):
        out += _row("first bit", [_pair(bits, style)])
    out += _row("left out", [f"{name}" for name in _named(match.left_out)])
    out += _causes(found, style)
    out += _row("took", [duration(found.seconds)])
    if found.kept:
        out += _row("kept", [plain(found.kept)])
    return out


def _verdict(match: SeriesMatch, style: Style) -> str:
    if match.first is not None:
        return f" at {_pair(match.first, style)}"
    if match.outcome == "bit_equal":
        return f": {_points(match)}, every bit"
    return f": {_points(match)}; {match.num_equal:,} the same bits, all within {match.rtol:g}"


def _points(match: SeriesMatch) -> str:
    metrics = counted(match.num_keys, "metric")
    where = f"steps {match.steps[0]} to {match.steps[1]}" if match.steps else "no step"
    return f"{counted(match.num_points, 'point')} of {metrics}, {where}"


def _pair(pair: PointPair, style: Style) -> str:
    values = [_value(pair.first), _value(pair.again)]
    apart = f" ({pair.relative:.2g} apart)" if pair.relative not in (0.0, float("inf")) else ""
    return f"step {pair.step}: {plain(pair.key)} {f' {style.signs.arrow} '.join(values)}{apart}"


def _value(value: float | None) -> str:
    return "missing" if value is None else repr(value)


def _causes(found: Repro, style: Style) -> list[str]:
    """Return what differs besides the points, and what was looked at where nothing does."""
    arrow = f" {style.signs.arrow} "
    out = _row(
        "config",
        [f"{plain(d.key)} {arrow.join(config_value(one) for one in d.values)}"
         for d in found.config],
    )  # fmt: skip
    out += _row("machine", [_diff(one, arrow) for one in found.environment])
    out += _row("data", [_diff(one, arrow) for one in found.data])
    out += _row("code", _named(found.code))
    if not out and found.match.outcome != "bit_equal":
        same = "config, packages, machine, data and code are the same"
        out += _row("known", [f"{same}: chance that the seed does not reach?"])
    return out


def _diff(one: NamedDiff, arrow: str) -> str:
    return f"{plain(one.name)} {arrow.join('-' if v is None else plain(v) for v in one.values)}"


def _named(names: tuple[str, ...]) -> list[str]:
    shown = [plain(name) for name in names[:SHOWN]]
    more = [f"and {len(names) - SHOWN:,} more"] if len(names) > SHOWN else []
    return [", ".join([*shown, *more])] if shown else []


def _row(name: str, lines: list[str]) -> list[str]:
    heads = [name, *[""] * (len(lines) - 1)][: len(lines)]
    return [f"{head:<{CELLS}}{line}" for head, line in zip(heads, lines, strict=True)]


def json_of_repro(found: Repro) -> dict[str, Any]:
    """Return the result as a document."""
    match, plan = found.match, found.plan
    return document(
        run=plan.run.id,
        name=plan.run.name,
        commit=plan.commit,
        tree=plan.attempt.pin.tree,
        command=list(plan.argv),
        outcome=match.outcome,
        rtol=match.rtol,
        steps=list(match.steps) if match.steps is not None else None,
        points=match.num_points,
        equal=match.num_equal,
        metrics=match.num_keys,
        first=_json_pair(match.first),
        also=list(match.beside),
        first_bits=_json_pair(match.first_bits),
        largest=_json_pair(match.largest),
        left_out=list(match.left_out),
        config=[{"key": d.key, "values": [_plain(v) for v in d.values]} for d in found.config],
        environment=[{"key": d.name, "values": list(d.values)} for d in found.environment],
        data=[{"key": d.name, "values": list(d.values)} for d in found.data],
        code=list(found.code),
        kept=found.kept or None,
    )


def _json_pair(pair: PointPair | None) -> dict[str, Any] | None:
    if pair is None:
        return None
    values = [None if one is None else repr(one) for one in (pair.first, pair.again)]
    return {"step": pair.step, "metric": pair.key, "values": values, "relative": pair.relative}


def _plain(value: Any) -> Any:
    from expdb.query.results import ABSENT

    return None if value is ABSENT else value
