"""`show --health`: what is wrong with a run, what may be behind it, and what to type next.

The order is that of the documents: repeat it, then look at the data, then at hyper-parameters.

Invariant: a rule, a cause and a sign are data (monitor/builtin*.py, health_table.py,
health_signs.py); here they are put together, and every cause carries the reasons for its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from expdb.errors import ExpdbError
from expdb.index.reader import Reader
from expdb.model import Event, Run
from expdb.monitor.rule import Rule
from expdb.monitor.rules import build_rules
from expdb.query.health_facts import NO_RULES, Facts, facts_of
from expdb.query.health_judged import judged
from expdb.query.health_results import AREAS, Around, Cause, Health, LookedBy, Repeat
from expdb.query.health_signs import NEED_NO_EVENT, SIGNS
from expdb.query.health_table import CAUSES, LOOK, REPEAT
from expdb.query.replay import Section, replay
from expdb.store.layout import RunLayout
from expdb.store.monitored import read_monitored

STEPS_AROUND: Final = (-2, -1, 0, 1, 2, 10, 50)
"""Which steps are shown beside that of the first trouble."""
ALWAYS: Final = ("train/loss", "train/grad_norm", "train/lr")
MAX_CAUSES: Final = 5
MAX_COMMANDS: Final = 3
MAX_KEYS: Final = 3
"""Metrics of events that are shown beside those that always are."""
MOST_POINTS: Final = 20_000_000
"""A run of more points is not looked at again: that would take minutes."""
SURE: Final = 3
"""The weight from which on a rule alone speaks for a cause that wants a sign."""
TODAY: Final[Section] = {}
"""The rules as they are without a config."""


def health_of(reader: Reader, run: Run) -> Health:
    """Return the health of a run, whatever its state.

    Where no rule looked while it trained, those of today look at its points now.
    """
    problems = list(run.problems)
    rules, section = _rules_of(reader, run, problems)
    found = tuple(one for one in run.events if one.rule not in NO_RULES)
    looked_by: LookedBy = "live"
    if not any("version" in one.facts for one in found):
        # Nobody says whether rules looked: they do so now, and find nothing where they had.
        again = _found_today(reader, run, section, problems)
        if again or not run.command or section is TODAY:
            looked_by, found = "today", found + again
    found = tuple(sorted(found, key=lambda one: one.step))
    facts = facts_of(reader, run, found)
    causes = tuple(sorted(_causes(facts), key=_rank))[:MAX_CAUSES]
    good = None if facts.first is None else _good_before(run, facts.first.step)
    filled = _filled(facts, good, reader.id_length)
    causes = tuple(_with_command(one, facts, filled) for one in causes)
    problems += facts.points.problems
    return Health(
        run=run,
        found=found,
        looked_by=looked_by,
        looked=judged(run, rules, found, was_live=looked_by == "live"),
        around=_around(facts),
        good=good,
        healthy=facts.healthy,
        repeats=_repeats(facts),
        causes=causes,
        commands=_commands(causes, facts, filled),
        problems=tuple(dict.fromkeys(problems)),
    )


# What looked


def _rules_of(reader: Reader, run: Run, problems: list[str]) -> tuple[tuple[Rule, ...], Section]:
    """Return the rules that are asked, and the section that they come from; TODAY where the run
    had none.
    """
    try:
        number = run.attempt.number if run.attempt is not None else 1
        stood = read_monitored(RunLayout(reader.run_dir(run.id)), number)
        rules = build_rules(None if stood is None else stood.section)
    except ExpdbError as error:  # damaged, or a rule that makes no sense today
        problems.append(error.message)
        return build_rules(TODAY), TODAY
    if not rules:
        return build_rules(TODAY), TODAY
    return rules, None if stood is None else stood.section


def _found_today(
    reader: Reader, run: Run, section: Section, problems: list[str]
) -> tuple[Event, ...]:
    if sum(one.count for one in run.series.values()) > MOST_POINTS:
        return ()
    try:
        again = replay(reader.run_dir(run.id), section, is_own=False)
    except ExpdbError as error:
        problems.append(error.message)
        return ()
    problems += again.problems
    return again.events


# Causes


def _causes(facts: Facts) -> Iterator[Cause]:
    severity: dict[str, str] = {}
    for one in sorted(facts.found, key=lambda one: one.severity == "critical"):
        severity[one.rule] = one.severity
    for name, row in CAUSES.items():
        rules = {
            rule: weight * (2 if severity[rule] == "critical" else 1)
            for rule, weight in row["rules"].items()
            if rule in severity
        }
        if all(severity[rule] == "info" for rule in rules):
            rules = {}  # remarks beside a warning count, alone they are none
        seen = {sign: _seen(sign, facts) for sign in row["signs"]}
        signs = {sign: text for sign, text in seen.items() if text is not None}
        needed, by_rule = row.get("needs", ()), row.get("needs_rule", ())
        if by_rule and not set(by_rule) & rules.keys():
            continue
        if (
            needed
            and not set(needed) & signs.keys()
            and not any(row["rules"][rule] >= SURE for rule in rules)
        ):
            continue
        score = sum(rules.values()) + sum(row["signs"][sign] for sign in signs)
        if score > 0 and (rules or needed):
            yield _cause(name, row, score, rules, signs)


def _seen(sign: str, facts: Facts) -> str | None:
    if facts.first is None and sign not in NEED_NO_EVENT:
        return None
    return SIGNS[sign](facts)


def _cause(
    name: str,
    row: Mapping[str, Any],
    score: int,
    rules: Mapping[str, int],
    signs: Mapping[str, str],
) -> Cause:
    weights = row["signs"]
    reasons = []
    if rules:
        said = ", ".join(sorted(rules, key=lambda rule: -rules[rule]))
        reasons.append(f"{said} {'points' if len(rules) == 1 else 'point'} to it")
    order = sorted(signs, key=lambda sign: -weights[sign])
    reasons += [signs[sign] for sign in order if weights[sign] > 0]
    return Cause(
        name=name,
        area=row["area"],
        said=row["said"],
        score=score,
        reasons=tuple(reasons),
        against=tuple(signs[sign] for sign in order if weights[sign] < 0),
        command=row["command"],
        label=row["label"],
    )


def _rank(cause: Cause) -> tuple[int, int]:
    return -cause.score, AREAS.index(cause.area)


# Commands


def _filled(facts: Facts, good: int | None, cells: int) -> dict[str, Any]:
    """Return what commands may name; what is not known is left out."""
    filled: dict[str, Any] = {"run": facts.run.id[:cells]}
    if facts.first is not None:
        filled["step"] = facts.first.step
    if good is not None and facts.first is not None:
        filled |= {"good": good, "skip": _last_bad(facts) + 1 - good}
    if facts.run.command:
        filled["started"] = filled["run"]
    if facts.healthy is not None:
        filled["healthy"] = facts.healthy.run[:cells]
    return filled


def _last_bad(facts: Facts) -> int:
    """Return the last step of the first spell of trouble."""
    assert facts.first is not None
    said = facts.first.now.rpartition("over at ")[2]
    over = int(said) - 1 if said.isdecimal() else facts.first.step
    return max(facts.first.step, over)


def _with_command(cause: Cause, facts: Facts, filled: dict[str, Any]) -> Cause:
    rules = CAUSES[cause.name]["rules"]
    own = [one.step for one in facts.found if one.rule in rules and one.severity != "info"]
    filled = filled | {"step": min(own)} if own else filled
    try:
        command, label = cause.command.format(**filled), cause.label
    except KeyError:
        command = LOOK.format(**filled) if facts.first is not None else ""
        label = "look"
    return replace(cause, command=command, label=label)


def _commands(
    causes: Sequence[Cause], facts: Facts, filled: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    """Return what to type: repeat it where nobody has, then by area the likeliest causes."""
    out: list[tuple[str, str]] = []
    is_repeated = any(one.is_repeat for one in facts.others)
    if facts.first is not None and facts.run.command and not is_repeated:
        out.append(("repeat", REPEAT.format(**filled)))
    likely = [one for one in causes if one.command][: MAX_COMMANDS + 1 - len(out)]
    for one in sorted(likely, key=lambda one: AREAS.index(one.area)):
        if one.command not in [command for _, command in out]:
            out.append((one.label, one.command))
    return tuple(out[:MAX_COMMANDS])


# Around the first trouble


def _good_before(run: Run, step: int) -> int | None:
    return max((one.step for one in run.usable if one.step < step), default=None)


def _around(facts: Facts) -> Around | None:
    first = facts.first
    if first is None:
        return None
    keys = [one.key for one in facts.found if one.key and one.severity != "info"]
    others = [key for key in dict.fromkeys(keys) if key not in ALWAYS][:MAX_KEYS]
    wanted = [key for key in (*ALWAYS, *others) if key in facts.run.series]
    last = facts.run.last_step
    steps = [first.step + by for by in STEPS_AROUND]
    within = [one for one in steps if one >= 0 and (last is None or one <= last)]
    table = {key: _values(facts, key, within) for key in wanted}
    has = [any(row[at] is not None for row in table.values()) for at in range(len(within))]
    shown = tuple(step for step, is_there in zip(within, has, strict=True) if is_there)
    rows = {key: _values(facts, key, shown) for key in wanted}
    batches: Any = first.facts.get("batches")
    is_pair = isinstance(batches, list) and len(batches) == 2
    return Around(
        step=first.step,
        steps=shown,
        values={key: row for key, row in rows.items() if any(one is not None for one in row)},
        batches=(int(batches[0]), int(batches[1])) if is_pair else None,
        layers=tuple(dict.fromkeys(_layers(facts))),
        notes=facts.notes,
    )


def _values(facts: Facts, key: str, steps: Sequence[int]) -> tuple[float | None, ...]:
    curve = facts.curve(key)
    found = dict(zip(curve.steps.tolist(), curve.values.tolist(), strict=True))
    return tuple(found.get(step) for step in steps)


def _layers(facts: Facts) -> Iterator[str]:
    for one in facts.found:
        head, _, rest = one.key.partition("/")
        if head in ("layer", "group") and one.severity != "info":
            yield rest.rpartition("/")[0]


def _repeats(facts: Facts) -> tuple[Repeat, ...]:
    first = facts.first
    if first is None:
        return ()
    return tuple(
        Repeat(run=one.run, name=one.name, same=one.has(first))
        for one in facts.others
        if one.is_repeat
    )
