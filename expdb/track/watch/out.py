"""Where samples go: into the run, at once from the host, or when a device's copy has arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from expdb.errors import BadInput
from expdb.track.forensics import RULE

if TYPE_CHECKING:
    from expdb.track.watch.row import Row


class Sink(Protocol):
    """What a run does for its watch."""

    console: Any

    def log(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record values at a step."""

    def log_text(self, key: str, text: str, step: int | None = None) -> None:
        """Keep a text."""

    def log_image(self, key: str, image: Any, step: int | None = None) -> None:
        """Keep an image."""

    def add_hist(self, key: str, fields: dict[str, Any], step: int) -> None:
        """Keep a histogram."""

    def event(self, step: int, severity: str, rule: str, message: str) -> None:
        """Record and say something found."""


class Out:
    """The run as a watch sees it."""

    def __init__(self, run: Sink) -> None:
        self._run = run

    def say(self, message: str) -> None:
        """Say something once, as a warning."""
        self._run.console.warning(message)

    def put(self, row: Row, step: int) -> None:
        """Record a row."""
        packed = row.packed()
        self.later(
            [] if packed is None else packed, lambda found: self._log(row.values(found), step)
        )

    def later(self, numbers: Any, then: Callable[[list[float]], None]) -> None:
        """Give `then` the numbers of a float64 row: now if the host has them, else on arrival."""
        if isinstance(numbers, list):
            then(numbers)
        elif numbers.is_cuda:
            self._run._queue.put_row(numbers, then)  # type: ignore[attr-defined]
        else:
            then(numbers.tolist())

    def image(self, key: str, pixels: Any, step: int) -> None:
        """Keep a picture."""
        self._run.log_image(key, pixels, step=step)

    def histogram(self, key: str, fields: dict[str, Any], step: int) -> None:
        """Keep a histogram that is counted already."""
        self._run.add_hist(key, fields, step)

    def report(self, step: int, message: str, details: str) -> None:
        """Record what was found out, as an event and a text with all of it."""
        self._run.event(step, "info", RULE, message)
        self._run.log_text(f"{RULE}/not_finite", details, step=step)

    def _log(self, values: Mapping[str, float], step: int) -> None:
        try:
            self._run.log(values, step=step)
        except BadInput as error:
            self.say(error.message)
