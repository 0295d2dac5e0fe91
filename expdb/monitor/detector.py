"""What every detector is: pure, streaming, with a state that a checkpoint can hold.

Invariant: the same code runs live and in replay, on host values only; it never touches RNG,
gradients or tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One firing of a rule."""

    step: int
    severity: Literal["info", "warn", "critical"]
    rule: str
    message: str
    runbook: str
    """Cause, check, action in one line."""


class Detector(Protocol):
    """A rule over the values of one step after another."""

    def update(self, step: int, values: Mapping[str, float]) -> list[Finding]:
        """Take the values of one step and return what they show; steps only grow."""

    def state_dict(self) -> dict[str, Any]:
        """Return plain data from which `load_state_dict` goes on exactly."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
