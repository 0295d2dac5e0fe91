"""A rule as data: which signal, which detector, and what to do when it fires.

    loss_spike:                       # the name that events carry
      signal: train/loss              # a metric, a pattern (`layer/*/grad_norm`), or a list of them
      detector: spike                 # one of monitor/detectors.py; its parameters stand beside it
      severity: warn                  # of its first level; a detector's second one is critical
      phase: [stable, decay]          # of the learning rate; all without it
      clear: 1                        # looks that have to be fine before it is over
      cooldown: 200                   # steps after that in which it does not open again
      cap: 100                        # lines of one run and metric
      decision: what it makes one do
      runbook: {cause: ..., checks: ..., action: ...}
      command: expdb resume {run}@{good} --lr-scale 0.5
      actions: [tag, pause]           # what is done by itself when it fires; see actions.py

Invariant: no rule without a decision and a whole runbook; what is wrong is said at the start.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from expdb.errors import BadInput
from expdb.monitor.actions import Action, actions_of
from expdb.monitor.detectors import DETECTORS, checked, parameters
from expdb.monitor.finding import Severity

PHASES: Final = ("warmup", "stable", "decay")
SEVERITIES: Final = ("info", "warn", "critical")
SHORT: Final = {"for": "for_steps"}
"""Names that may stand for a parameter."""
NUMBERS: Final = {"clear": 1, "cooldown": 200, "cap": 100}
RUNBOOK: Final = ("cause", "checks", "action")
FIELDS: Final = (
    "signal", "detector", "severity", "phase", "except", "decision", "runbook", "command",
    "actions", "on", *NUMBERS,
)  # fmt: skip
LOOK: Final = "expdb events {run}@{step}"
FILLED: Final = frozenset(["run", "good", "step"])
MAX_TEXT: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule, checked."""

    name: str
    signal: tuple[str, ...]
    detector: str
    severity: Severity
    params: Mapping[str, Any] = field(default_factory=dict)
    phase: tuple[str, ...] = ()
    excepted: tuple[str, ...] = ()
    """Patterns of metrics that it leaves alone."""
    clear: int = 1
    cooldown: int = 200
    cap: int = 100
    decision: str
    cause: str
    checks: str
    action: str
    command: str = LOOK
    actions: tuple[Action, ...] = ()
    """What is done when it fires, in this order."""

    @property
    def runbook(self) -> str:
        """Cause, checks and action in one line."""
        return f"cause: {self.cause}; check: {self.checks}; {self.action}"

    @property
    def version(self) -> str:
        """8 hex digits over all that decides whether it fires and how it is said."""
        decides = [
            self.name, self.signal, self.detector, sorted(self.params.items()), self.severity,
            self.phase, self.excepted, self.clear, self.cooldown, self.cap,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:8]

    @property
    def named(self) -> frozenset[str]:
        """The metrics that it names, those that its detector looks at beside included."""
        texts = {**parameters(self.detector), **self.params}.values()
        return frozenset([*self.signal, *(one for one in texts if isinstance(one, str))])

    def takes(self, key: str) -> bool:
        """Tell whether a metric is one that this rule is about."""
        return any(_matches(one, key) for one in self.signal) and not any(
            _matches(one, key) for one in self.excepted
        )


def rule_of(name: str, body: Mapping[str, Any], where: str) -> Rule:
    """Return the rule that a mapping declares; `where` is its place in the config.

    Raises:
        BadInput: a field is unknown, missing, or of another type.
    """
    detector = body.get("detector")
    if not isinstance(detector, str) or detector not in DETECTORS:
        raise _unknown(f"{where}.detector is {detector!r:.60}", str(detector), list(DETECTORS))
    known = parameters(detector)
    params: dict[str, Any] = {}
    for key, value in body.items():
        if key in FIELDS:
            continue
        param = SHORT.get(key, key)
        if param not in known:
            names = [*FIELDS, *known]
            raise _unknown(f"no part of a {detector} rule is called {where}.{key}", key, names)
        params[param] = checked(detector, param, value, f"{where}.{key}")
    severity = body.get("severity", "warn")
    if severity not in SEVERITIES:
        raise _unknown(f"{where}.severity is {severity!r:.60}", str(severity), SEVERITIES)
    phase = _texts(body, "phase", where)
    for one in phase:
        if one not in PHASES:
            raise _unknown(f"{where}.phase has {one!r:.60}", one, PHASES)
    signal = _texts(body, "signal", where)
    if not signal:
        raise BadInput(f"{where} has no signal", hint="signal: train/loss")
    runbook = body.get("runbook")
    if not isinstance(runbook, Mapping):
        raise BadInput(f"{where} has no runbook", hint="runbook: {cause: , checks: , action: }")
    for one in runbook:
        if one not in RUNBOOK:
            raise _unknown(f"no part of a runbook is called {where}.runbook.{one}", one, RUNBOOK)
    return Rule(
        name=name,
        signal=signal,
        detector=detector,
        severity=severity,
        params=params,
        phase=phase,
        excepted=_texts(body, "except", where),
        decision=_text(body, "decision", where),
        cause=_text(runbook, "cause", f"{where}.runbook"),
        checks=_text(runbook, "checks", f"{where}.runbook"),
        action=_text(runbook, "action", f"{where}.runbook"),
        command=_command(body, where),
        actions=actions_of(
            body.get("actions"),
            f"{where}.actions",
            signal=signal,
            knows_best=hasattr(DETECTORS[detector], "best_step"),
        ),
        **{one: _whole(body, one, default, where) for one, default in NUMBERS.items()},
    )


def _matches(pattern: str, key: str) -> bool:
    if "*" not in pattern:
        return pattern == key
    return re.fullmatch(".+".join(map(re.escape, pattern.split("*"))), key, re.DOTALL) is not None


def _text(body: Mapping[str, Any], name: str, where: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadInput(f"{where} has no {name}", hint="a rule says what to do when it fires")
    if len(value) > MAX_TEXT:
        raise BadInput(f"{where}.{name} has {len(value):,} characters; {MAX_TEXT:,} are enough")
    return " ".join(value.split())


def _texts(body: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    value = body.get(name)
    if value is None:
        return ()
    found: Sequence[Any] = (value,) if isinstance(value, str) else value
    if not isinstance(found, Sequence) or not all(isinstance(one, str) and one for one in found):
        raise BadInput(f"{where}.{name} is {value!r:.60}, not a text or a list of texts")
    return tuple(found)


def _whole(body: Mapping[str, Any], name: str, default: int, where: str) -> int:
    value = body.get(name, default)
    least = 0 if name == "cooldown" else 1
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadInput(f"{where}.{name} is {value!r:.60}, not a whole number of at least {least}")
    return value


def _command(body: Mapping[str, Any], where: str) -> str:
    value = body.get("command", LOOK)
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        raise BadInput(f"{where}.command is {value!r:.60}, not one line")
    names = set(re.findall(r"\{([^{}]*)\}", value))
    if names - FILLED:
        raise BadInput(
            f"{where}.command has {{{min(names - FILLED)}}}", hint="known: {run} {good} {step}"
        )
    return value


def _unknown(message: str, name: str, known: Sequence[str]) -> BadInput:
    near = get_close_matches(str(name), list(known), n=1)
    return BadInput(message, hint=f"nearest: {near[0]}" if near else f"known: {' '.join(known)}")
