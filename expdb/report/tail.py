"""`expdb tail`: log lines as safe text; on a terminal the last `train` line is drawn in place.

Invariant: every line is whole and ends itself: what is drawn is the line above the cursor, and is
taken away by the next lines. Without a terminal there is no cursor move.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from expdb.model import Run
from expdb.report.style import Style
from expdb.signs import STATE_GLYPHS
from expdb.text import ago, cut_end, duration, plain
from expdb.track.bar import Progress, bar

if TYPE_CHECKING:
    from expdb.query.tail import End, Told

TRAIN: Final = re.compile(r"\s*step\s+(\d{1,18})\s+train\s+(.*)")
LOSS: Final = re.compile(r"\bloss (\S+)")
RATE: Final = re.compile(r"\b(\d+(?:\.\d+)?)([kMGT]?) tok/s")
WAIT: Final = re.compile(r"\bwait (\d+) %")
CLOSING: Final = re.compile(r"(?:finished|failed|preempted|interrupted)  ")
ETA: Final = re.compile(r"\beta ((?:\d+:)?\d+:\d\d)")
UNITS: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
UP_AND_CLEAR: Final = "\x1b[1A\r\x1b[2K"


def head(run: Run, attempt: int, *, follows: bool) -> str:
    """Return which run is shown: `x5j2v8c0ke exp05_overfit, attempt 1, live`."""
    is_live = run.state.is_live
    state = "live" if is_live else run.state.value
    said = f"{run.id} {plain(run.name)}, attempt {attempt or 1}, {state}"
    return said + ("; Ctrl-C leaves the run alone" if follows and is_live else "")


def closing(run: Run, end: End, style: Style) -> str:
    """Return the last line of a run that did not write one: `crashed  exp06_moe a9m4y7h3pq ...`."""
    word = style.paint(end.state.value, STATE_GLYPHS[end.state.value].colour)
    at = "" if end.last_step is None else f"  at step {end.last_step}"
    reason = f": {style.say(end.reason)}" if end.reason else ""
    return f"{word}  {plain(run.name)} {run.id}{at}{reason}"


def next_commands(run: Run, end: End, style: Style) -> list[tuple[str, str]]:
    """Return what to do next, as (label, command)."""
    if end.state.value in ("crashed", "preempted"):
        return [("resume", f"expdb resume {style.run(run.id)}")]
    return [("look", f"expdb show {style.run(run.id)}")]


def silence(told: Told, style: Style) -> str:
    """Return the line about a silence: `no step for 5 min (usual: 0.08s); it is alive`."""
    since = ago(0, int((told.silent_s or 0.0) * 1000)).removesuffix(" ago")
    usual = "" if told.usual_s is None else f" (usual: {duration(told.usual_s)})"
    return style.paint(f"no step for {since}{usual}; it is alive", "yellow")


def lost(style: Style) -> str:
    """Return the line about a run of another host of which nothing is known."""
    return style.paint("no sign of its host for 10 min: lost, or cut off from here", "yellow")


@dataclass(slots=True)
class Screen:
    """What stands on the screen of one run that is followed."""

    run: Run
    style: Style
    in_place: bool
    """Whether the cursor can be moved."""
    _drawn: bool = field(default=False, init=False)
    _bar: str = field(default="", init=False)

    def lines(self, found: Sequence[str]) -> list[str]:
        """Return what to write for new log lines."""
        if not self.in_place:
            return [self.style.say(line) for line in found]
        kept = []
        for line in found:
            progress = self._progress(line)
            if progress is not None:
                self._bar = self._drawing(progress, line)
                continue
            kept.append(self.style.say(line))
            if CLOSING.match(line):
                self._bar = ""
        return self._over(kept)

    def notice(self, line: str) -> list[str]:
        """Return what to write for a line of our own."""
        return self._over([line]) if self.in_place else [line]

    def close(self, line: str) -> list[str]:
        """Return what to write for the last line: the bar goes, the line stays."""
        self._bar = ""
        return self.notice(line)

    def _over(self, lines: list[str]) -> list[str]:
        """Return lines that stand in the place of the bar, and the bar below them."""
        lines = [*lines, self._bar] if self._bar else lines
        if self._drawn and lines:
            lines[0] = UP_AND_CLEAR + lines[0]
        self._drawn = bool(self._bar) if lines else self._drawn
        return lines

    def _progress(self, line: str) -> Progress | None:
        """Return what a `train` line says; None of any other line."""
        match = TRAIN.fullmatch(line)
        if match is None:
            return None
        rate, wait, eta = (pattern.search(match[2]) for pattern in (RATE, WAIT, ETA))
        return Progress(
            step=int(match[1]),
            max_steps=self.run.max_steps or 0,
            loss=_number(LOSS.search(match[2])),
            tokens_per_s=float(rate[1]) * UNITS[rate[2]] if rate else None,
            eta_s=_seconds(eta[1]) if eta else None,
            wait_pct=float(wait[1]) if wait else None,
        )

    def _drawing(self, progress: Progress, line: str) -> str:
        width = self.style.width - 1
        if not progress.max_steps:
            return cut_end(self.style.say(line), width, self.style.signs.ellipsis)
        name, run = plain(self.run.name), self.style.run(self.run.id)
        return bar(progress, experiment=name, run=run, width=width, ascii=self.style.ascii)


def _number(match: re.Match[str] | None) -> float | None:
    try:
        return float(match[1].replace(",", "")) if match else None
    except ValueError:
        return None


def _seconds(clock: str) -> float:
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part)
    return float(seconds)
