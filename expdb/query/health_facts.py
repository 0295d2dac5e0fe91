"""What is known of one run where its health is judged; the signs of causes ask for it.

Invariant: records alone; what is damaged is left out and named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from expdb import digest
from expdb.errors import ExpdbError
from expdb.index.reader import Reader
from expdb.model import Event, Run, RunState
from expdb.query.events import last_healthy
from expdb.query.history_results import Healthy
from expdb.query.kin import base_of
from expdb.query.points import Curve, Points
from expdb.store.last_words import read_traceback
from expdb.store.layout import RunLayout

FORENSICS: Final = "forensics"
NO_RULES: Final = frozenset([FORENSICS, "ctl", "intervention"])
"""Events that say what somebody did or what was looked into, not that something is wrong."""
NEAR: Final = 5
"""Steps within which two runs have the same trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """Another run of the experiment, and when each of its rules first warned."""

    run: str
    name: str
    seed: int | None
    first: Mapping[str, int]
    is_repeat: bool
    """Whether it has the same config, seed and code, so that it should be the same."""

    def has(self, event: Event) -> bool:
        """Tell whether it has the same trouble."""
        at = self.first.get(event.rule)
        return at is not None and abs(at - event.step) <= NEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a run is known by."""

    run: Run
    found: tuple[Event, ...]
    first: Event | None
    """The first event that is more than a remark."""
    notes: tuple[str, ...]
    """What was found out about numbers that are not finite."""
    config: Mapping[str, Any]
    healthy: Healthy | None
    healthy_config: Mapping[str, Any]
    healthy_data: Mapping[str, str]
    others: tuple[Other, ...]
    last_words: tuple[str, ...]
    points: Points

    def curve(self, key: str) -> Curve:
        """Return the points of a metric, empty where it has none."""
        return self.points.of(key)

    def value(self, key: str) -> float | None:
        """Return the last finite value of a metric; None where it has none."""
        found = self.run.series.get(key)
        return None if found is None or found.last != found.last else found.last

    def fired(self, rule: str) -> Event | None:
        """Return the first event of a rule."""
        return next((one for one in self.found if one.rule == rule), None)


def facts_of(reader: Reader, run: Run, found: tuple[Event, ...]) -> Facts:
    """Return what is known of a run in which rules found this."""
    first = first_warning(found)
    healthy = None if first is None else healthy_for(reader, run)
    compared = _run(reader, healthy.run) if healthy is not None else None
    attempt = compared.attempt if compared is not None else None
    return Facts(
        run=run,
        found=found,
        first=first,
        notes=tuple(one.message for one in run.events if one.rule == FORENSICS),
        config=digest.flatten(run.canonical),
        healthy=healthy,
        healthy_config={} if compared is None else digest.flatten(compared.canonical),
        healthy_data={} if attempt is None else _digests(attempt.data),
        others=() if first is None else _others(reader, run),
        last_words=_traceback(reader, run),
        points=Points(reader, run.id),
    )


def first_warning(found: tuple[Event, ...]) -> Event | None:
    """Return the first event that is more than a remark, of several at one step the gravest."""
    warned = [one for one in found if one.severity != "info"]
    return min(warned, key=lambda one: (one.step, one.severity != "critical"), default=None)


def healthy_for(reader: Reader, run: Run) -> Healthy | None:
    """Return the last run of the experiment without a warning, else what the run is measured
    against, if that has none.
    """
    found = last_healthy(reader, run.id)
    if found is not None:
        return found
    base = base_of(reader, run)
    other = None if base is None else _run(reader, base.measured)
    if other is None or any(one.severity != "info" for one in other.events):
        return None
    own, theirs = digest.flatten(run.canonical), digest.flatten(other.canonical)
    keys = sorted(
        key
        for key in own.keys() | theirs.keys()
        if own.get(key) != theirs.get(key) and not key.startswith(("expdb.", "hydra."))
    )
    return Healthy(run=other.id, name=other.name, keys=tuple(keys))


def data_of(run: Run) -> dict[str, str]:
    """Return the digest of each data that a run used."""
    return {} if run.attempt is None else _digests(run.attempt.data)


def _digests(data: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {name: str(item["digest"]) for name, item in data.items() if item.get("digest")}


def _run(reader: Reader, run: str) -> Run | None:
    try:
        return reader.run(run)
    except ExpdbError:  # it is damaged, or somebody removed it meanwhile
        return None


def _others(reader: Reader, run: Run) -> tuple[Other, ...]:
    rows = reader.rows(
        "SELECT r.id, r.name, r.seed, r.digest, r.tree FROM runs r WHERE r.experiment = ?"
        " AND r.variant = ? AND r.id <> ? AND r.state IN ('finished', 'failed')"
        " ORDER BY r.created_at_ms, r.id",
        [run.experiment, run.variant, run.id],
    )
    events = reader.rows(
        "SELECT e.run, e.rule, min(e.step) FROM events e WHERE e.run IN (SELECT unnest(?))"
        " AND e.severity <> 'info' GROUP BY e.run, e.rule",
        [[row[0] for row in rows]],
    )
    first: dict[str, dict[str, int]] = {}
    for owner, rule, step in events:
        first.setdefault(owner, {})[rule] = step
    return tuple(
        Other(
            run=other,
            name=name,
            seed=seed,
            first=first.get(other, {}),
            is_repeat=(found, seed, tree) == (run.digest, run.seed, run.pin.tree),
        )
        for other, name, seed, found, tree in rows
        if found == run.digest
    )


def _traceback(reader: Reader, run: Run) -> tuple[str, ...]:
    if run.state is not RunState.FAILED or run.attempt is None:
        return ()
    folder = RunLayout(reader.store.root / run.path).attempt(run.attempt.number)
    return tuple(read_traceback(folder / "log.txt"))
