"""`expdb ctl`: what a run was asked, and what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expdb.report import json
from expdb.report.style import Style
from expdb.report.words import label, step_of
from expdb.text import duration, plain

if TYPE_CHECKING:
    from expdb.actions.results import ControlResult

WORDS = {
    "save": "to save a checkpoint",
    "eval": "to evaluate",
    "pause": "to pause",
    "go": "to go on",
    "stop": "to save and stop",
}


def asked_line(result: ControlResult, style: Style) -> str:
    """Return what was asked, and where the run stood."""
    at = step_of(result.run.last_step, result.run.max_steps)
    where = f" (step {at})" if at else ""
    return f"asked {label(result.run, style)} {WORDS[result.verb]}{where}"


def answer_line(result: ControlResult, style: Style, *, waited: bool) -> str:
    """Return what the run did about it, or that it has not answered."""
    if result.done_at_ms is not None:
        later = duration(max(0, result.done_at_ms - result.asked_at_ms) / 1000)
        step = "" if result.done_step is None else f" at step {result.done_step}"
        word = style.paint("done", "green") if result.ok else style.paint("not done", "yellow")
        return f"{word}{step}, {later} later: {plain(result.outcome)}"
    if result.ended:
        return f"it ended before it answered: {plain(result.ended)}"
    if waited:
        return "no answer yet; the run looks between two updates"
    return "it will answer between two updates"


def json_of_control(result: ControlResult) -> json.Data:
    """Return `ctl`; `done` is null where the run has not answered."""
    done = None
    if result.done_at_ms is not None:
        done = {
            "at": json.utc(result.done_at_ms),
            "step": result.done_step,
            "ok": result.ok,
            "outcome": result.outcome,
        }
    return json.document(
        run=result.run.id,
        attempt=result.attempt,
        verb=result.verb,
        asked_at=json.utc(result.asked_at_ms),
        state=result.run.state.value,
        done=done,
    )
