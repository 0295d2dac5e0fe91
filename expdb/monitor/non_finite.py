"""The rule `non_finite`: a watched value became NaN or infinite.

Needed on its own because NaN compares false with every threshold. It fires once when a key leaves
the finite numbers, and again only after the key has come back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import Finding

WATCHED = ("train/loss", "train/grad_norm")
RUNBOOK = (
    "cause: learning rate, overflow, or a bad batch; look at the steps before; go back to a"
    " checkpoint and lower optim.lr or skip the batches"
)


class NonFinite:
    """Watches keys for NaN and infinities."""

    def __init__(self, keys: tuple[str, ...] = WATCHED) -> None:
        self._keys = keys
        self._since: dict[str, int] = {}

    def update(self, step: int, values: Mapping[str, float]) -> list[Finding]:
        """Return a finding for each key that is not finite and was so before."""
        out: list[Finding] = []
        for key in self._keys:
            value = values.get(key)
            if value is None:
                continue
            if math.isfinite(value):
                self._since.pop(key, None)
            elif key not in self._since:
                self._since[key] = step
                out.append(
                    Finding(
                        step=step,
                        severity="critical",
                        rule="non_finite",
                        message=f"{key} is {'NaN' if math.isnan(value) else 'infinite'}",
                        runbook=RUNBOOK,
                    )
                )
        return out

    def state_dict(self) -> dict[str, Any]:
        """Return which keys are not finite, and since when."""
        return {"since": dict(self._since)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._since = {str(key): int(step) for key, step in state["since"].items()}
