"""Tells, once for each spell, where the first number that is not finite came from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from expdb.track.forensics import Forensics, Report

if TYPE_CHECKING:
    from expdb.track.watch.out import Out


class Training(Protocol):
    """What a witness has to know of the engine of a loop."""

    state: Any
    accum: int
    device: Any

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of the forward pass."""


class Witness:
    """Looks at loss and gradient norm of each update, where they are."""

    def __init__(self, out: Out, models: Mapping[str, Any], engine: Training) -> None:
        self._out, self._engine = out, engine
        self.forensics = Forensics(models, engine.autocast, lambda: engine.state.scaler)

    def check(self, step: int, nll: Any, grad_norm: Any, *, skips: bool) -> None:
        """Look before the optimizers step, if the numbers are the host's."""
        if isinstance(nll, float) and isinstance(grad_norm, float):
            self._look(step, nll, 0.0 if skips else grad_norm, at_once=True)

    def arrived(self, step: int, loss: float, grad_norm: float) -> None:
        """Look some updates later, where the numbers were a device's."""
        if self._engine.device.type != "cpu":
            skips = self._engine.state.scaler is not None
            self._look(step, loss, 0.0 if skips else grad_norm, at_once=False)

    def _look(self, step: int, loss: float, grad_norm: float, *, at_once: bool) -> None:
        for key, value in (("train/loss", loss), ("train/grad_norm", grad_norm)):
            if not math.isfinite(value):
                what = f"{key} is {'NaN' if math.isnan(value) else 'infinite'}"
                report = self.forensics.report(
                    step, what, num_micro=self._engine.accum, at_once=at_once
                )
                if report is not None:
                    self._tell(report)
                return
        self.forensics.looks_good()

    def _tell(self, report: Report) -> None:
        self._out.report(report.step, report.message(), report.as_json())
