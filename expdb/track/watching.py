"""The rules of a run in the training process: they see each value that rank 0 logs.

Invariant: what they find depends on the recorded points alone, so that a replay finds the same;
what only this process knows (batches, checkpoints) is added to the event beside it. Their state
goes into every checkpoint, and what an attempt went on from stands in its monitor.json.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from expdb.errors import Corrupt
from expdb.model import Attempt
from expdb.monitor.engine import Monitor
from expdb.monitor.finding import Finding
from expdb.monitor.rule import LOOK, Rule
from expdb.redact import Redactor
from expdb.store import checkpoints as folders
from expdb.store.files import plain
from expdb.store.layout import RunLayout
from expdb.store.monitored import Monitored, write_monitored
from expdb.track.console import Console
from expdb.track.due import Actions

if TYPE_CHECKING:
    from expdb.track.loop_state import LoopState

STEPS_KEPT: Final = 256
"""Steps whose batches are known: values on a device arrive a few steps late."""


class Watching:
    """Feeds the rules of one attempt, and makes events of what they find; `say` takes them."""

    def __init__(
        self,
        layout: RunLayout,
        attempt: Attempt,
        rules: Sequence[Rule],
        settings: Mapping[str, Any],
        redactor: Redactor,
        console: Console,
        say: Callable[..., None],
        actions: Actions,
    ) -> None:
        self._layout, self._attempt, self._say = layout, attempt.number, say
        self._actions = actions
        self._console = console
        self._resumed_from = attempt.resumed_from or 0
        self._monitor = Monitor(rules)
        self._rules = {rule.name: rule for rule in rules}
        section = settings["monitor"]
        self._section = None if section in ({}, None, True) else _redacted(section, redactor)
        self._lock = threading.Lock()
        self._batches: deque[tuple[int, int, int]] = deque(maxlen=STEPS_KEPT)

    def begin(self, state: Mapping[str, Any] | None = None) -> None:
        """Say in monitor.json what the rules stand on.

        Raises:
            OSError: it cannot be written.
        """
        if state is not None or self._section is not None:
            made = Monitored(section=self._section, state=state)
            write_monitored(self._layout, self._attempt, made)

    def go_on(self, loop: LoopState) -> None:
        """Go on from what a checkpoint kept, if it kept anything.

        Raises:
            OSError: monitor.json cannot be written.
        """
        saved, loop.monitor = loop.monitor, None
        if saved is None:
            return
        state = json.loads(saved)
        with self._lock:
            self._monitor.load_state_dict(state)
        self.begin(state)

    @contextmanager
    def kept_in(self, loop: LoopState) -> Iterator[None]:
        """Have where the rules stand in a state while it is saved; two are compared without it."""
        with self._lock:
            loop.monitor = json.dumps(self._monitor.state_dict(), allow_nan=False)
        try:
            yield
        finally:
            loop.monitor = None

    def took(self, step: int, first: int, last: int) -> None:
        """Learn which micro-batches an update was made of, counted from 0."""
        self._batches.append((step, first, last))

    def see(self, step: int, keys: tuple[str, ...], values: Sequence[float], time_ms: int) -> None:
        """Let the rules look at the values of one call."""
        with self._lock:
            found = self._monitor.update(step, keys, values, time_ms)
        for one in found:
            self._tell(one)

    def would_skip(self, step: int, keys: tuple[str, ...], values: Sequence[float]) -> bool:
        """Tell whether a rule with skip_step fires over an update that is not taken yet."""
        now_ms = time.time_ns() // 1_000_000
        with self._lock:
            return self._monitor.would_fire(self._actions.skipping, step, keys, values, now_ms)

    def best_steps(self, rule: str = "") -> set[int]:
        """Return the best evaluations, of rules that may bring them back, or of one of them."""
        if not self._actions.restoring:
            return set()
        with self._lock:
            return self._monitor.best_steps({rule} if rule else self._actions.restoring)

    def look_at_clock(self) -> None:
        """Say that a step is overdue; not while the loop is busy between two steps."""
        now_ms = time.time_ns() // 1_000_000
        with self._lock:
            found = self._monitor.overdue(now_ms, is_busy=self._console.is_busy)
        for one in found:
            self._tell(one)

    def _tell(self, found: Finding) -> None:
        rule = self._rules[found.rule]
        facts = self._facts(found, rule)
        runbook = f"{rule.runbook}; {facts['command']}" if "command" in facts else ""
        said = found.step, found.severity, found.rule, found.message, runbook
        # A line is for what somebody has to look at; what is worth knowing stands in `events`.
        self._say(*said, facts=facts, is_quiet=rule.severity == "info")
        self._actions.found(found)

    def _facts(self, found: Finding, rule: Rule) -> dict[str, Any]:
        """Return what an event holds beside what every line of one has."""
        facts = found.facts(self._attempt)
        if found.state in ("open", "worse"):
            good = self._good_before(found.opened)
            batches = next((list(one[1:]) for one in self._batches if one[0] == found.step), None)
            command = rule.command if good is not None or "{good}" not in rule.command else LOOK
            facts |= {
                "decision": rule.decision,
                "runbook": {"cause": rule.cause, "checks": rule.checks, "action": rule.action},
                "command": command.format(run=self._layout.id[:4], good=good, step=found.opened),
                "good": good,
                "batches": batches,
            }
        made: dict[str, Any] = plain(facts)
        return made

    def _good_before(self, step: int) -> int | None:
        """Return the last checkpoint before a step that this attempt stands on."""
        for one in reversed(folders.steps(self._layout)):
            if one >= step:
                continue
            try:
                own = folders.read_manifest(self._layout, one).attempt == self._attempt
            except (Corrupt, OSError):
                continue
            if own or one <= self._resumed_from:
                return one
        return None


def _redacted(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, Mapping):
        return {str(key): _redacted(item, redactor) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item, redactor) for item in value]
    return value
