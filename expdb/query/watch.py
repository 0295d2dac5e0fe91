"""All runs of a store as they go on: new events, and runs that ended, died or take no step.

    status.json of every run -> those that live or changed -> lines of their events, their state

Invariant: of a run at rest only the time of its status.json is looked at. Nothing is written; each
thing is found once, and a run that lives is asked at every look.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from expdb.errors import Corrupt, ExpdbError
from expdb.model import RunState
from expdb.notify.fate import notice_of_end, notice_of_silence
from expdb.notify.item import Item
from expdb.notify.source import Source
from expdb.query.silence import Silence
from expdb.store import attempts as attempt_files
from expdb.store.folders import names_in, run_folder, run_in, scan_stamps
from expdb.store.layout import RunLayout
from expdb.store.records import OVER, SEVERITIES
from expdb.store.runs import read_identity, read_run, state_now
from expdb.store.status import read_status

STALLED_S: Final = 300.0
"""The shortest silence that is named; ten times the usual step, where that is longer."""
UNSAID: Final = (RunState.CRASHED, RunState.LOST)
UNDECIDED: Final = "running"
"""The stored state of a run that lives or died without a word."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A run that was over when the watch began."""

    num_bytes: int
    """Of its events."""
    attempt: int

    def has(self, item: Item) -> bool:
        """Tell whether something was there by then."""
        if item.notice:
            return int(item.notice.split("-")[1]) <= self.attempt
        return item.at <= self.num_bytes


class Watched:
    """One run that is followed."""

    def __init__(self, run_dir: Path, root: Path, name: str, *, shortest_s: float) -> None:
        self.source = Source(RunLayout(run_dir), name)
        self._root, self._dir = root, run_dir
        self._silence = Silence(run_dir, root, shortest_s=shortest_s)
        self._num_shown = 0
        self.is_open = True
        """Whether it has to be looked at though nothing changed."""
        self._was_live = False

    def look(self) -> None:
        """Take in its events and what became of it."""
        self.source.read()
        layout = self.source.layout
        try:
            state, why = state_now(self._dir, store_root=self._root)
            status = read_status(layout)
        except (FileNotFoundError, ExpdbError):
            self.is_open = False  # removed, or damaged: other verbs say so
            return
        attempt = (attempt_files.numbers(layout) or [1])[-1]
        step, run, name = status.last_step, self.source.run, self.source.name
        self.is_open = state.is_live or state is RunState.LOST
        if state is RunState.RUNNING:
            self._look_for_silence(attempt)
        elif not state.is_live:
            # Who saw it live learns of its end now, whenever its last sign was.
            at_ms = 0 if self._was_live else status.ended_at_ms or _last_sign_ms(layout, attempt)
            step = self._last_step() if state in UNSAID else step
            made = notice_of_end(
                run, name, state.value, why, attempt=attempt, step=step, at_ms=at_ms
            )
            self.source.notice(made)
        self._was_live = state.is_live

    def fresh(self, rest: Rest | None = None) -> list[Item]:
        """Return what was found since the last call; of a run that was at rest before, what is no
        part of that.
        """
        found = self.source.items[self._num_shown :]
        self._num_shown = len(self.source.items)
        return found if rest is None else [one for one in found if not rest.has(one)]

    def _last_step(self) -> int | None:
        """Return the last step of a run that did not say it: its points are asked."""
        try:
            return read_run(self._dir, store_root=self._root).last_step
        except ExpdbError:
            return None

    def _look_for_silence(self, attempt: int) -> None:
        silent_s = self._silence.look(attempt)
        if silent_s is None or self._is_said():
            return
        made = notice_of_silence(
            self.source.run, self.source.name, attempt=attempt, step=self._last_step(),
            silent_s=silent_s, usual_s=self._silence.usual_s,
            last_ms=round(self._silence.last_s * 1000),
        )  # fmt: skip
        self.source.notice(made)

    def _is_said(self) -> bool:
        """Tell whether the run's own watchdog has said it."""
        stalls = [one for one in self.source.items if one.rule == "stall"]
        return bool(stalls) and stalls[-1].state != OVER


class StoreWatch:
    """All runs of a store."""

    def __init__(self, root: Path, *, since_ms: int, shortest_s: float = STALLED_S) -> None:
        self._root, self._since_ms, self._shortest_s = root, since_ms, shortest_s
        self._stamps: dict[str, str] = {}
        self._watched: dict[str, Watched] = {}
        self._at_rest: dict[str, Rest] = {}
        self._is_first = True

    @property
    def num_runs(self) -> int:
        """How many runs there are."""
        return len(self._stamps)

    @property
    def num_live(self) -> int:
        """How many are looked at each time."""
        return sum(one.is_open for one in self._watched.values())

    @property
    def followed(self) -> list[Watched]:
        """The runs that are followed."""
        return list(self._watched.values())

    def look(self) -> list[Item]:
        """Look at the store, and return what is new, in the order of runs.

        What the first look finds is no news to who watches from now on.
        """
        stamps: dict[str, str] = {}
        found: list[Item] = []
        every = ((folder, stamp) for folder, held in scan_stamps(self._root) for stamp in held)
        for experiment, stamp in every:
            run = run_in(stamp)
            stamps[run] = stamp
            known = self._watched.get(run)
            if self._stamps.get(run) != stamp:
                known = known or self._begin(run, Path(run_folder(experiment, run)))
            elif known is not None and not known.is_open:
                continue
            if known is not None:
                known.look()
                fresh = known.fresh(self._at_rest.pop(run, None))
                found += [] if self._is_first else fresh
        for run in self._watched.keys() - stamps.keys():
            del self._watched[run]  # in the trash
        self._stamps, self._is_first = stamps, False
        return found

    def _begin(self, run: str, folder: Path) -> Watched | None:
        """Follow a run, if there may be something to tell of it."""
        layout = RunLayout(folder)
        if self._is_first and not self._may_matter(run, layout):
            return None
        try:
            said = read_identity(layout)
        except ExpdbError:
            return None
        name = f"{said.get('experiment', '')}{said.get('variant') or ''}"
        made = Watched(folder, self._root, name, shortest_s=self._shortest_s)
        self._watched[run] = made
        return made

    def _may_matter(self, run: str, layout: RunLayout) -> bool:
        """Tell whether a run that was there before lives, died without a word, or had news since
        the moment that is asked for; else it is at rest.
        """
        try:
            status = read_status(layout)
        except (FileNotFoundError, Corrupt):
            return True
        times = _times_ms(layout.status_json, layout.events)
        if status.state == UNDECIDED or any(at >= self._since_ms for at in times):
            return True
        try:
            num_bytes = layout.events.stat().st_size
        except OSError:
            num_bytes = 0
        self._at_rest[run] = Rest(num_bytes, status.attempt)
        return False


def _last_sign_ms(layout: RunLayout, attempt: int) -> int:
    """Return when an attempt last wrote, by the clock that stamps the store's files; what others
    write when it is dead does not count.
    """
    folder = layout.attempt(attempt)
    journals = [folder / name for name in names_in(folder) if name.endswith(".wal")]
    files = (layout.events, folder / "live.json", folder / "log.txt", *journals)
    return max(_times_ms(*files), default=0)


def _times_ms(*paths: Path) -> Iterator[int]:
    for path in paths:
        try:
            yield os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116 - of every run
        except OSError:
            continue


def shown(items: Iterable[Item], at_least: str | None) -> list[Item]:
    """Return those that are at least so severe; None: all."""
    if at_least is None:
        return list(items)
    least = SEVERITIES.index(at_least)
    return [one for one in items if SEVERITIES.index(one.severity) >= least]
