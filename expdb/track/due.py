"""What the rules of a run ask for, from the alert to whoever trains.

    a finding -> actions of its rule -> due -> the next border between two updates

`Loop` does what is due. In a loop of one's own, between two updates, on rank 0:

    for due in run.actions.take():
        if due.action.name == "lower_lr":
            state.scale_lr(due.action["by"])
            run.acted(due, "learning rate halved")

Invariant: the table of actions is the same on all ranks; what is due is told once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from expdb.monitor.actions import SKIP_STEP, Action
from expdb.monitor.finding import Finding
from expdb.monitor.rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """One action of one rule, because of an alert."""

    place: int
    """Where it stands in the table."""
    rule: str
    action: Action
    step: int = 0
    """The step at which the rule fired; known on rank 0."""
    opened: int = 0
    """The step at which the alert opened; known on rank 0."""


class Actions:
    """The actions of all rules, and which of them are due; any thread may add to these."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.table = tuple((rule.name, action) for rule in rules for action in rule.actions)
        self.skipping = frozenset(name for name, one in self.table if one.name == SKIP_STEP)
        """Rules that have an update skipped."""
        self.restoring = frozenset(
            name
            for name, one in self.table
            if one.name == "early_stop" and one["restore"] == "best"
        )
        """Rules that bring back the best weights."""
        rewinds = [int(one["back"]) for _, one in self.table if one.name == "rewind"]
        self.backs = frozenset(rewinds)
        """How far rewinds go back."""
        self._due: deque[Due] = deque()

    def found(self, finding: Finding) -> None:
        """Note what an alert asks for: when it opens, or when it is critical for the first time."""
        for place, (rule, action) in enumerate(self.table):
            is_open = finding.state == "open" and action.at == "open"
            is_grave = finding.state in ("open", "worse") and finding.severity == "critical"
            if rule == finding.rule and (is_open or (action.at == "critical" and is_grave)):
                self._due.append(
                    Due(
                        place=place, rule=rule, action=action, step=finding.step,
                        opened=finding.opened,
                    )
                )  # fmt: skip

    def take(self) -> list[Due]:
        """Return what is due since the last call, in the order of the table, each once."""
        found: dict[int, Due] = {}
        while self._due:
            one = self._due.popleft()
            found.setdefault(one.place, one)
        return [found[place] for place in sorted(found)]

    def clear(self) -> None:
        """Forget what is due: training went back to before it."""
        self._due.clear()


NO_ACTIONS = Actions()
