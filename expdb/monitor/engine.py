"""All rules of a run over what it logs, call after call; the same live and in replay.

    values of one call -> detectors of the rules that take its metrics -> alerts -> findings

Invariant: what is found depends on the calls alone (step, time, values by metric) in their order,
not on the order of the metrics in a call, nor on where a saved state was loaded in between. A value
at a step before the last one that its detector saw is passed over.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, NamedTuple

from expdb.monitor.alert import Alert, Line
from expdb.monitor.detector import FINE, FIRING, GRAVE, Detector, Reading
from expdb.monitor.detectors import DETECTORS
from expdb.monitor.finding import Finding, Severity
from expdb.monitor.phases import Phases
from expdb.monitor.rule import Rule
from expdb.monitor.saved import restored
from expdb.monitor.stall import Stall
from expdb.store.files import plain

WINDOW: Final = 16
"""Calls with a value of training that an event keeps, the one that it is about included."""
MAX_KEYS: Final = 12
"""Metrics of such a call that are kept, in the order of their names."""
KEPT: Final = ("train/", "val/", "amp/")
MAX_PLANS: Final = 1000
RATE: Final = "train/lr"


class _Slot:
    """One rule about one metric."""

    __slots__ = ("alert", "detector", "is_fresh", "key", "last_step", "rule", "version")

    def __init__(self, rule: Rule, key: str) -> None:
        self.rule, self.key, self.version = rule, key, rule.version
        self.detector: Detector = DETECTORS[rule.detector](key, **rule.params)
        self.alert = Alert(clear=rule.clear, cooldown=rule.cooldown, cap=rule.cap)
        self.last_step: int | None = None
        self.is_fresh = True

    def begin_anew(self) -> None:
        """Forget what was seen in an earlier phase."""
        if not self.is_fresh:
            self.detector = DETECTORS[self.rule.detector](self.key, **self.rule.params)
            self.is_fresh = True

    def state_dict(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "last_step": self.last_step,
            "detector": self.detector.state_dict(),
            "alert": self.alert.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.last_step, self.is_fresh = state["last_step"], False
        self.detector.load_state_dict(state["detector"])
        self.alert.load_state_dict(state["alert"])


class _Plan(NamedTuple):
    """What is to be done with calls of the same metrics."""

    slots: tuple[_Slot, ...]
    kept: tuple[tuple[str, int], ...]
    """The metrics of training in it, and where they stand."""
    rate: int
    """Where the learning rate stands; -1 where it is not there."""


class Monitor:
    """The rules of one run, and where each of their alerts stands."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._slots: dict[tuple[str, str], _Slot] = {}
        self._plans: dict[tuple[str, ...], _Plan] = {}
        self._last: deque[tuple[int, tuple[tuple[str, int], ...], Sequence[float]]] = deque(
            maxlen=WINDOW
        )
        self._phases = Phases()
        self._phase = "stable"

    def update(
        self, step: int, keys: tuple[str, ...], values: Sequence[float], time_ms: int = 0
    ) -> list[Finding]:
        """Take one call, `values` aligned with `keys`; return what the rules have to say of it."""
        plan = self._plans.get(keys)
        if plan is None:
            plan = self._planned(keys)
        if plan.rate >= 0:
            self._see_rate(float(values[plan.rate]))
        if plan.kept:
            self._last.append((step, plan.kept, values))
        found: list[Finding] = []
        if not plan.slots:
            return found
        by_key = dict(zip(keys, values, strict=True))
        for slot in plan.slots:
            if slot.last_step is not None and step < slot.last_step:
                continue
            if slot.rule.phase and self._phase not in slot.rule.phase:
                slot.begin_anew()
                continue
            slot.last_step, slot.is_fresh = step, False
            reading = slot.detector.update(step, by_key, time_ms)
            if reading is not None:
                line = slot.alert.update(step, reading)
                if line is not None:
                    found.append(self._finding(slot, step, reading, line))
        return found

    def overdue(self, now_ms: int, *, is_busy: bool = False) -> list[Finding]:
        """Return what a watchdog has to say at a moment: a step is overdue, in no replay.

        While the loop is busy with something else its time does not count.
        """
        found = []
        for slot in list(self._slots.values()):
            if isinstance(slot.detector, Stall) and slot.last_step is not None:
                if is_busy:
                    slot.detector.pardon(now_ms)
                reading = slot.detector.overdue(now_ms)
                line = slot.alert.update(slot.last_step, reading) if reading is not None else None
                if reading is not None and line is not None:
                    found.append(self._finding(slot, slot.last_step, reading, line))
        return found

    def would_fire(
        self,
        rules: Collection[str],
        step: int,
        keys: tuple[str, ...],
        values: Sequence[float],
        time_ms: int = 0,
    ) -> bool:
        """Tell whether one of the rules named fires over a call that is still to come; nothing of
        this is remembered.
        """
        plan = self._plans.get(keys) or self._planned(keys)
        phase = self._phase
        if plan.rate >= 0 and math.isfinite(values[plan.rate]):
            phase = deepcopy(self._phases).update(float(values[plan.rate]))
        by_key = dict(zip(keys, values, strict=True))
        for slot in plan.slots:
            if slot.rule.name not in rules or (slot.last_step or 0) > step:
                continue
            if slot.rule.phase and phase not in slot.rule.phase:
                continue
            reading = deepcopy(slot.detector).update(step, by_key, time_ms)
            if reading is not None and reading.level >= FIRING:
                return True
        return False

    def best_steps(self, rules: Collection[str]) -> set[int]:
        """Return the evaluations with the best mean, as the detectors of the rules named know."""
        found = {
            getattr(slot.detector, "best_step", None)
            for (rule, _), slot in list(self._slots.items())
            if rule in rules
        }
        return {step for step in found if step is not None}

    # ---------------------------------------------------------------------------------- planning

    def _planned(self, keys: tuple[str, ...]) -> _Plan:
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        there, num_slots = frozenset(keys), len(self._slots)
        for rule in self.rules:
            for key in sorted(there):
                if (rule.name, key) not in self._slots and rule.takes(key):
                    self._slots[rule.name, key] = _Slot(rule, key)
        order = {rule.name: number for number, rule in enumerate(self.rules)}
        slots = sorted(
            (slot for slot in self._slots.values() if not there.isdisjoint(slot.detector.keys)),
            key=lambda slot: (order[slot.rule.name], slot.key),
        )
        places = {key: place for place, key in enumerate(keys)}
        kept = sorted(key for key in there if key.startswith(KEPT))[:MAX_KEYS]
        plan = _Plan(tuple(slots), tuple((key, places[key]) for key in kept), places.get(RATE, -1))
        if len(self._slots) > num_slots:
            self._plans.clear()  # a new one may belong to any of them
        self._plans[keys] = plan
        return plan

    def _see_rate(self, rate: float) -> None:
        if math.isfinite(rate):
            self._phase = self._phases.update(rate)

    # ----------------------------------------------------------------------------------- findings

    def _finding(self, slot: _Slot, step: int, reading: Reading, line: Line) -> Finding:
        severity: Severity = slot.rule.severity if line.level == FIRING else "info"
        if line.level >= GRAVE:
            severity = "critical"
        message = reading.text
        if line.level == FINE and not message:
            took = step - line.opened
            message = f"{slot.key} fine again after {took:,} step{'' if took == 1 else 's'}"
        return Finding(
            step=step,
            severity=severity,
            rule=slot.rule.name,
            key=slot.key,
            state=line.state,
            message=message,
            value=float(reading.value),
            threshold=float(reading.threshold),
            version=slot.version,
            opened=line.opened,
            num=line.num,
            window=self._window() if line.state in ("open", "worse") else {},
        )

    def _window(self) -> dict[str, tuple[tuple[int, float], ...]]:
        found: dict[str, list[tuple[int, float]]] = {}
        for step, kept, values in self._last:
            for key, place in kept:
                found.setdefault(key, []).append((step, float(values[place])))
        return {key: tuple(found[key]) for key in sorted(found)}

    # -------------------------------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """Return plain data, as JSON has it, from which `load_state_dict` goes on exactly."""
        last = [
            [step, [[key, float(values[place])] for key, place in kept]]
            for step, kept, values in self._last
        ]
        slots: dict[str, dict[str, Any]] = {}
        for (rule, key), slot in sorted(self._slots.items()):
            slots.setdefault(rule, {})[key] = slot.state_dict()
        rate = None if math.isnan(self._phases.last) else self._phases.last
        state = {
            "phase": self._phase, "highest": self._phases.highest, "rate": rate, "last": last,
            "slots": slots, "rules": {rule.name: rule.version for rule in self.rules},
        }  # fmt: skip
        made: dict[str, Any] = plain(state)
        return made

    def load_state_dict(
        self, state: Mapping[str, Any], *, only: Sequence[str] | None = None
    ) -> None:
        """Go on from a saved state; rules that are not as they were when it was saved begin anew.

        With `only` that holds for the rules named, and the others stay as they are.
        """
        rate = math.nan if state["rate"] is None else float(state["rate"])
        self._phase = str(state["phase"])
        self._phases = Phases(highest=float(state["highest"]), last=rate)
        self._last.clear()
        for step, pairs in state["last"]:
            kept = tuple((str(key), place) for place, (key, _) in enumerate(pairs))
            self._last.append((int(step), kept, [restored(value) for _, value in pairs]))
        self._plans.clear()
        wanted = {rule.name: rule for rule in self.rules if only is None or rule.name in only}
        self._slots = {at: slot for at, slot in self._slots.items() if at[0] not in wanted}
        for name, rule in wanted.items():
            for key, saved in state["slots"].get(name, {}).items():
                if saved["version"] == rule.version:
                    slot = self._slots[name, key] = _Slot(rule, key)
                    slot.load_state_dict(restored(saved))

    def known_to(self, state: Mapping[str, Any]) -> list[str]:
        """Return the rules that are as they were when a state was saved."""
        then = state["rules"]
        return [rule.name for rule in self.rules if then.get(rule.name) == rule.version]
