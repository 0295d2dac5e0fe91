"""Runs as resolution sees them, and what is said of them: what a word became, the nearest names.

Invariant: what is returned as text is plain; names from users hold no control characters.
"""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from expdb import text
from expdb.errors import Ambiguous, NotFound
from expdb.model import Objective, Ref, RunState
from expdb.store.runword import STEP

MIN_PREFIX: Final = 4
"""So many characters of an id name a run."""
MAX_NAMES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveRow:
    """What resolution has to know of one run."""

    id: str
    experiment: str
    variant: str
    seed: int | None
    state: RunState
    created_at_ms: int
    objective: Objective | None = None
    value: float | None = None
    parent: str | None = None
    checkpoints: tuple[int, ...] = ()
    best_step: int | None = None
    does_count: bool = True
    """Whether it has every metric that it requires."""

    @property
    def name(self) -> str:
        """The experiment with its variant."""
        return self.experiment + self.variant

    @property
    def age_key(self) -> tuple[int, str]:
        """What runs are ordered by, the oldest first."""
        return self.created_at_ms, self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a walk along the selectors stands."""

    row: ResolveRow
    pool: tuple[ResolveRow, ...]
    """The runs of the same name that the next selector chooses from."""
    step: int | None = None
    how: str = ""
    """What the word is besides the experiment: `ref baseline`."""
    is_id: bool = False
    is_experiment: bool = False


def finished(pool: Sequence[ResolveRow]) -> tuple[ResolveRow, ...]:
    """Return the finished runs of the pool."""
    return tuple(row for row in pool if row.state is RunState.FINISHED)


def newest_of(pool: Sequence[ResolveRow]) -> ResolveRow:
    """Return the newest finished run, else the newest run; the pool is not empty."""
    return max(finished(pool) or pool, key=lambda row: row.age_key)


def say(word: str, row: ResolveRow, step: int | None, *, how: str = "", note: str = "") -> str:
    """Return the resolution line of a word."""
    inside = f"exp {row.name}"
    if row.seed is not None:
        inside += f", seed {row.seed}"
    if row.state is not RunState.FINISHED:
        inside += f", {row.state}"
    inside = f"{how}: {inside}" if how else inside
    inside = f"{inside}: {note}" if note else inside
    at = "" if step is None else f"@{step}"
    return text.plain(f"{word} = {row.id}{at} ({inside})")


class NoSuchRun(NotFound):
    """A word that names nothing in the store; it may be an experiment that was never run."""

    def __init__(self, word: str, rows: Sequence[ResolveRow], *, hint: tuple[str, ...]) -> None:
        super().__init__(f"no run, ref or experiment is called {text.plain(word)}", hint=hint)
        self.word = word
        self.known = frozenset(row.experiment for row in rows)
        """The experiments that have runs."""


def no_such_run(word: str, rows: Sequence[ResolveRow], refs: Mapping[str, Ref]) -> NoSuchRun:
    """Return the error for a word that names nothing, with what it may mean."""
    return NoSuchRun(word, rows, hint=hints(word, rows, refs))


def hints(word: str, rows: Sequence[ResolveRow], refs: Mapping[str, Ref]) -> tuple[str, ...]:
    """Return what a word that names nothing may mean: an id too short, a step, a name like it."""
    if not rows:
        return ("python train.py +exp=baseline",)
    length = text.id_length(row.id for row in rows)
    if STEP.fullmatch(word) and word.isdecimal():
        at = newest_of([row for row in rows if int(word) in row.checkpoints] or rows)
        return (f"a step stands behind its run: {at.id[:length]}@{word}",)
    begins = sorted(row.id for row in rows if row.id.startswith(word))
    if begins and len(word) < MIN_PREFIX:
        shown = ", ".join(run[:length] for run in begins[:MAX_NAMES])
        return (f"an id takes {MIN_PREFIX} characters or more: {shown}",)
    return (nearest(word, rows, refs) or "expdb ls",)


def nearest(word: str, rows: Sequence[ResolveRow], refs: Mapping[str, Ref]) -> str:
    """Return `nearest: exp01 (2 runs), best_lr (tag)`; empty where nothing is near."""
    runs = Counter(row.experiment for row in rows)
    names = {name: f"{number} run{'' if number == 1 else 's'}" for name, number in runs.items()}
    names.update({row.name: "1 variant" for row in rows if row.variant})
    names.update({name: ref.kind for name, ref in refs.items()})
    found = close(word, names)
    if not found:
        return ""
    return "nearest: " + ", ".join(f"{text.plain(name)} ({names[name]})" for name in found)


def close(word: str, names: Collection[str]) -> list[str]:
    """Return up to three names that look like `word`: those that it begins, then the nearest."""
    ordered = sorted(names)
    begins = [name for name in ordered if len(word) > 1 and name.startswith(word)]
    near = difflib.get_close_matches(word[:200], ordered, n=MAX_NAMES, cutoff=0.6)
    return list(dict.fromkeys([*begins, *near]))[:MAX_NAMES]


def lines(rows: Sequence[ResolveRow], id_length: int) -> tuple[str, ...]:
    """Return one line a run: id, name, state, value, age."""
    now_ms = int(time.time() * 1000)
    names = [text.plain(row.name) for row in rows]
    width = max(map(text.cells, names), default=0)
    decimals = text.decimals_for(row.value for row in rows)
    values = [text.metric(row.value, decimals, absent="") for row in rows]
    value_width = max(map(len, values), default=0)
    out = []
    for row, name, value in zip(rows, names, values, strict=True):
        pad = " " * (width - text.cells(name))
        look = text.STATE_GLYPHS[row.state]
        age = text.age(row.created_at_ms, now_ms)
        state = f"{look.glyph} {row.state:<9}"
        out.append(f"{row.id[:id_length]}  {name}{pad}  {state} {value:>{value_width}}  {age}")
    return tuple(out)


def too_many_variants(word: str, pool: Sequence[ResolveRow], id_length: int) -> NoReturn:
    """Raise: an experiment that was run only with overrides, of several kinds.

    Raises:
        Ambiguous: always.
    """
    by_name: dict[str, list[ResolveRow]] = {}
    for row in pool:
        by_name.setdefault(row.name, []).append(row)
    newest = [newest_of(rows) for _, rows in sorted(by_name.items())]
    raise Ambiguous(
        f"{text.plain(word)} was run only with overrides, in {len(newest)} variants",
        details=lines(newest, id_length),
        hint=f"quote one: '{text.plain(newest[0].name)}'",
    )


def too_short(word: str, found: Sequence[ResolveRow]) -> NoReturn:
    """Raise: a prefix of several ids.

    Raises:
        Ambiguous: always.
    """
    ordered = sorted(found, key=lambda row: row.id)
    first = ordered[0].id
    length = next(
        n for n in range(len(word), 11) if sum(row.id[:n] == first[:n] for row in found) == 1
    )
    more = length - len(word)
    enough = "one more character is" if more == 1 else f"{more} more characters are"
    raise Ambiguous(
        f"{word} begins {len(found)} run ids",
        details=lines(ordered, len(first)),
        hint=f"{enough} enough: {first[:length]}",
    )
