"""All pairs of makes in a store that differ in exactly one thing.

Invariant: it is linear in the number of makes and of keys that vary: makes that agree in all but
one key fall into one bucket, and there each is paired with one other of each value, not with all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from expdb.query.why_groups import Group, config_change, loose_changes
from expdb.query.why_results import Change

MAX_LOOKED_AT: Final = 64
"""How many makes of a bucket one more is held against."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Two makes, and the one thing in which they differ."""

    old: Group
    new: Group
    change: Change


def single_changes(groups: Sequence[Group], *, first: Sequence[Group] = ()) -> list[Sides]:
    """Return the pairs; within a bucket makes of `first` are what others are held against.

    Makes without a value are left out; `groups` are ordered, the oldest first.
    """
    place = {id(group): at for at, group in enumerate(first)}
    counted = sorted(
        (group for group in groups if group.found),
        key=lambda group: place.get(id(group), len(place)),
    )
    found: list[Sides] = []
    for key, bucket in _config_buckets(counted):
        found += _in_bucket(bucket, key, place)
    for bucket in _same_config(counted):
        found += _in_bucket(bucket, None, place)
    return found


def _config_buckets(groups: Sequence[Group]) -> Iterable[tuple[str, list[Group]]]:
    """Return the makes that agree in config but for one key, with that key."""
    keys = {key for group in groups for key in group.config}
    made: dict[Hashable, list[Group]] = {}
    for group in groups:
        if not group.has_config:
            continue
        hashes = {key: hash((key, text)) for key, text in group.config.items()}
        total = hash(group.start)
        for one in hashes.values():
            total ^= one
        for key in keys:
            made.setdefault((key, total ^ hashes.get(key, 0)), []).append(group)
    for at, bucket in made.items():
        key = at[0]  # type: ignore[index]
        if len(bucket) > 1 and len({group.config.get(key) for group in bucket}) > 1:
            yield key, bucket


def _same_config(groups: Sequence[Group]) -> Iterable[list[Group]]:
    made: dict[Hashable, list[Group]] = {}
    for group in groups:
        made.setdefault(group.strict, []).append(group)
    return [bucket for bucket in made.values() if len(bucket) > 1]


def _in_bucket(bucket: Sequence[Group], key: str | None, place: dict[int, int]) -> list[Sides]:
    """Return each make with the first before it from which one thing separates it.

    Neighbours on the way are always held against each other.
    """
    found = []
    for at, group in enumerate(bucket):
        half = MAX_LOOKED_AT // 2
        before = [*bucket[: min(at, half)], *bucket[max(half, at - half) : at]]
        changes = ((one, _one_change(one, group, key)) for one in before)
        fits = (Sides(one, group, change) for one, change in changes if change is not None)
        nearest = next(fits, None)
        if nearest is None:
            continue
        found.append(nearest)
        mine = place.get(id(group))
        if mine is not None:
            found += [one for one in fits if place.get(id(one.old)) == mine - 1]
    return found


def _one_change(old: Group, new: Group, key: str | None) -> Change | None:
    if (old.tree is None) != (new.tree is None):
        return None
    loose = loose_changes(old, new)
    if key is None:
        return loose[0] if len(loose) == 1 else None
    if loose or old.config.get(key) == new.config.get(key):
        return None
    return config_change(old, new, key)


def change_key(change: Change) -> Hashable:
    """Return what is equal for changes of one thing between the same two values, either way round.

    By `repr`, as in Python 1 equals True.
    """
    return change.kind, change.name, frozenset((repr(change.before), repr(change.after)))
