"""`events RUN --replay`: the rules look again at the points that a run recorded.

The detectors are those of training, fed with the frames of rank 0 attempt by attempt; each attempt
goes on from what its monitor.json says that it went on from. Rules that are others today than they
were are warmed with the points before.

Invariant: under the same rules what is found is equal, bit for bit, to what was recorded; a clock
decides about `stall`, which is left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from expdb.errors import BadInput
from expdb.index.reader import Reader
from expdb.model import Event
from expdb.monitor.engine import KEPT, RATE, Monitor
from expdb.monitor.finding import Finding
from expdb.monitor.rule import Rule
from expdb.monitor.rules import build_rules
from expdb.query.history_results import EventList, EventRow, Replay
from expdb.redact import Redactor
from expdb.store import attempts as attempt_files
from expdb.store import series as series_files
from expdb.store.files import plain
from expdb.store.layout import RunLayout
from expdb.store.monitored import Monitored, read_monitored
from expdb.store.points import read_points
from expdb.store.records import folded, read_lines
from expdb.store.wanted import Wanted

FOUND: Final = (
    "step", "severity", "rule", "message", "attempt", "key", "state", "opened", "value",
    "threshold", "version", "num", "window",
)  # fmt: skip
"""What a rule found, of all that a line holds; the rest only the training process knows."""
CLOCK: Final = "stall"

Section = Mapping[str, Any] | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The values of one call of `log`."""

    attempt: int
    step: int
    time_ms: int
    keys: tuple[str, ...]
    values: tuple[float, ...]


def replay(run_dir: Path, section: Section = None, *, is_own: bool = True) -> Replay:
    """Let rules look at a run again: those that it had, else with `is_own` off those of `section`.

    Raises:
        BadInput: a rule makes no sense today.
        Corrupt: a monitor.json is damaged.
    """
    layout = RunLayout(run_dir)
    problems: list[str] = []
    lines = list(_found_again(layout, section, is_own, problems))
    recorded = [
        item
        for _, item in read_lines(layout.events, problems)
        if "version" in item and item.get("rule") != CLOCK
    ]
    now, then = folded(lines), folded(recorded)
    new, gone = _without(now, then), _without(then, now)
    return Replay(
        events=now,
        num_recorded=len(then),
        new=new,
        gone=gone,
        is_equal=[_essence(one) for one in lines] == [_essence(one) for one in recorded],
        problems=tuple(problems),
    )


def replayed(
    reader: Reader, run: str, section: Section = None, *, is_own: bool = True
) -> EventList:
    """Return the events of a replay of a run as `events` lists them; else as `replay`."""
    found = replay(reader.run_dir(run), section, is_own=is_own)
    [(name, seed)] = reader.rows("SELECT name, seed FROM runs WHERE id = ?", [run])
    rows = tuple(EventRow(run=run, name=name, seed=seed, event=one) for one in found.events)
    return EventList(rows=rows, num_all=len(rows), num_runs=1, of_one=True, replay=found)


def rules_in(path: Path) -> Mapping[str, Any]:
    """Return the rules of a YAML file: a preset of conf/monitor, or a config that has them.

    Raises:
        BadInput: it cannot be read, or holds something else.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError  # type: ignore[import-untyped]

    try:
        found: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except OSError as error:
        raise BadInput(f"cannot read the rules in {path}: {error.strerror}") from error
    except (YAMLError, OmegaConfBaseException, UnicodeDecodeError) as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(f"{path} holds no rules: {line}") from error
    for name in ("expdb", "monitor"):
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
    if not isinstance(found, dict):
        raise BadInput(f"{path} holds no mapping of rules", hint="loss_spike: {k: 8}")
    found.pop("defaults", None)
    return found


def _found_again(
    layout: RunLayout, section: Section, is_own: bool, problems: list[str]
) -> Iterator[dict[str, Any]]:
    stood = {
        number: read_monitored(layout, number) or Monitored()
        for number in attempt_files.numbers(layout)
    }
    rules = {
        number: build_rules(one.section if is_own else section) for number, one in stood.items()
    }
    every = [rule for some in rules.values() for rule in some]
    frames = frames_of(layout, every, problems)
    starts = {number: attempt_files.read_pin(layout, number).resumed_from for number in stood}
    for number in stood:
        monitor = Monitor(rules[number])
        _go_on(monitor, stood[number].state, frames, starts, number)
        for frame in frames:
            if frame.attempt == number:
                for one in monitor.update(frame.step, frame.keys, frame.values, frame.time_ms):
                    if one.rule != CLOCK:
                        yield _line(one, number)


def _go_on(
    monitor: Monitor,
    state: Mapping[str, Any] | None,
    frames: Sequence[Frame],
    starts: Mapping[int, int | None],
    number: int,
) -> None:
    """Bring rules to where an attempt began: as they were, else warm with the points before."""
    known = monitor.known_to(state) if state is not None else []
    others = [rule.name for rule in monitor.rules if rule.name not in known]
    if others and starts[number] is not None:
        warm = Monitor(monitor.rules)
        for frame in _before(frames, starts, number):
            warm.update(frame.step, frame.keys, frame.values, frame.time_ms)
        monitor.load_state_dict(warm.state_dict(), only=others)
    if state is not None:
        monitor.load_state_dict(state, only=known)


def _before(
    frames: Sequence[Frame], starts: Mapping[int, int | None], number: int
) -> Iterator[Frame]:
    """Yield the frames of earlier attempts that an attempt stands on."""
    for frame in frames:
        later = (starts[at] for at in starts if frame.attempt < at <= number)
        if frame.attempt < number and all(at is None or frame.step <= at for at in later):
            yield frame


def frames_of(layout: RunLayout, rules: Sequence[Rule], problems: list[str]) -> list[Frame]:
    """Return the calls of rank 0 in their order, with the metrics that rules or events need."""
    import numpy as np

    named = {text for rule in rules for text in rule.named}
    keys = [
        key
        for key in {RATE, *series_files.load(layout.series_json).series, *named}
        if key.startswith(KEPT) or key in named or any(rule.takes(key) for rule in rules)
    ]
    table = read_points(layout, Wanted(keys=sorted(keys)), problems=problems)
    table = table.filter(table["rank"].to_numpy() == 0)
    if table.num_rows == 0:
        return []
    column = table["key"].unify_dictionaries().combine_chunks().dictionary_encode()
    column = column.chunk(0) if hasattr(column, "chunk") else column
    names = column.dictionary.to_pylist()
    place = np.empty(len(names), np.int64)
    place[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    code = column.indices.to_numpy()
    attempt, seq = table["attempt"].to_numpy(), table["seq"].to_numpy()
    order = np.lexsort((place[code], seq, attempt))
    attempt, seq, code = attempt[order], seq[order], code[order]
    border = (attempt[1:] != attempt[:-1]) | (seq[1:] != seq[:-1])
    ends = [*(np.flatnonzero(border) + 1).tolist(), len(order)]
    step, time_ms, value = (
        table[name].to_numpy()[order].tolist() for name in ("step", "time", "value")
    )
    said, owner = [names[one] for one in code.tolist()], attempt.tolist()
    return [
        Frame(
            attempt=owner[first], step=step[first], time_ms=time_ms[first],
            keys=tuple(said[first:end]), values=tuple(value[first:end]),
        )
        for first, end in zip([0, *ends], ends, strict=False)
    ]  # fmt: skip


def _line(found: Finding, attempt: int) -> dict[str, Any]:
    """Return the line that training writes of a finding, without what it alone knows."""
    line: dict[str, Any] = {
        "step": found.step,
        "severity": found.severity,
        "rule": found.rule,
        "message": Redactor().text(found.message),
        **found.facts(attempt),
    }
    made: dict[str, Any] = plain(line)
    return made


def _essence(line: Mapping[str, Any]) -> str:
    return json.dumps({name: line.get(name) for name in FOUND}, sort_keys=True)


def _of_event(event: Event) -> str:
    facts = {name: event.facts.get(name) for name in FOUND}
    own = event.step, event.severity, event.rule, event.message, event.key, event.now
    return json.dumps([own, facts], sort_keys=True)


def _without(events: Sequence[Event], others: Sequence[Event]) -> tuple[Event, ...]:
    """Return the events that are not among others, each counted."""
    left = Counter(map(_of_event, others))
    out = []
    for event in events:
        essence = _of_event(event)
        if left[essence]:
            left[essence] -= 1
        else:
            out.append(event)
    return tuple(out)
