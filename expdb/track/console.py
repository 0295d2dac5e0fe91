"""What a training run says: whole lines on stderr and in the attempt's log.txt, a bar below them on
a terminal.

Invariant: every line is whole in itself, so that `grep ' eval '` works; without a terminal there is
no bar, no colour and no cursor move. Names are shown as plain text. A terminal or a log that is
gone stops nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from io import FileIO, StringIO
from pathlib import Path
from typing import TextIO

from expdb import text
from expdb.model import Objective
from expdb.redact import Redactor
from expdb.signs import use_ascii
from expdb.track.bar import Progress, bar

REDRAW_S = 0.1
LABELLED = 11
WIDEST, PIPED = 120, 100


class Console:
    """The voice of one run on rank 0; the other ranks get one that is quiet."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        mode: str = "auto",
        hints: bool = True,
        log_path: Path | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        # Python has no stderr at all when the process was started with it closed.
        self._stream = stream or sys.stderr or StringIO()
        self._quiet = mode == "quiet"
        self._hints = hints and os.environ.get("EXPDB_HINTS", "") != "0"
        self._redactor = redactor or Redactor()
        dumb = os.environ.get("TERM", "") in ("", "dumb")
        self._has_bar = mode == "auto" and self._stream.isatty() and not dumb
        self._ascii = use_ascii(self._stream, os.environ)
        self._log = log_path.open("ab", buffering=0) if log_path is not None else None
        self._is_cut = False
        """Whether a full disk cut off the last line of the log."""
        self._drawn = ""
        self._drawn_at = 0.0
        self._progress: Progress | None = None
        self._data: list[str] = []
        self._is_opening = False
        """Between the opening lines and the first line about a step: a blank line is due."""
        self.experiment, self.run = "", ""
        self.max_steps = 0
        self.print_every: int | None = None
        """Steps between two lines about training; None: about 100 lines in all."""
        self.objective: Objective | None = None
        self.base_name = ""
        self.base_values: Mapping[int, float] = {}
        """Step -> the objective of the run that this one is measured against."""
        self._latest: Callable[[], Mapping[str, tuple[int, float]]] = dict

    def log_to(self, path: Path) -> None:
        """Go on in another log, that of a further attempt."""
        old, self._log, self._is_cut = self._log, path.open("ab", buffering=0), False
        if old is not None:
            old.close()

    def introduce(
        self,
        lines: Iterable[str],
        *,
        experiment: str,
        run: str,
        objective: Objective | None,
        base_name: str,
        base_values: Mapping[int, float],
        latest: Callable[[], Mapping[str, tuple[int, float]]],
    ) -> None:
        """Say what starts, and keep what later lines are measured against."""
        self.experiment, self.run, self.objective = text.plain(experiment), run, objective
        self.base_name, self.base_values, self._latest = base_name, base_values, latest
        for line in lines:
            self.line(line)
        self._is_opening = True

    def data(self, name: str, dataset: str, num_bytes: int | None) -> None:
        """Say what data are read: one line for those that are named before the first step."""
        size = f"{num_bytes:,} " if num_bytes is not None else ""
        if self._data and self._data[0] == dataset:
            self._data.append(f"{size}{name}")
        else:
            self._say_data()
            self._data = [dataset, f"{size}{name}"]

    def _say_data(self) -> None:
        if not self._data:
            return
        (dataset, *parts), self._data = self._data, []
        unit = " bytes" if parts[-1][0].isdigit() else ""
        self.line(f"  data       {dataset}, {' and '.join(parts)}{unit}")

    def _end_opening(self) -> None:
        self._say_data()
        if self._is_opening:
            self._is_opening = False
            self.line("")

    def line(self, line: str, *, only_log: bool = False) -> None:
        """Print one line above the bar, and write it to the log."""
        self._say_data()
        line = text.plain(self._redactor.text(line))
        if self._log is not None:
            self._keep(self._log, line)
        shown = not self._quiet or line.startswith(("warning:", "error:"))
        if shown and not only_log:
            self._erase()
            self._write((text.to_ascii(line) if self._ascii else line) + "\n")
            self._draw(force=True)

    def _keep(self, log: FileIO, line: str) -> None:
        """Write a line to the log; on a full disk it only prints, and later ones are written."""
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        try:
            self._is_cut = log.write(b"\n" + data if self._is_cut else data) < len(data)
        except OSError:
            pass

    def warning(self, message: str) -> None:
        """Print a warning."""
        self.line(f"warning: {message}")

    def hint(self, message: str) -> None:
        """Print a hint."""
        if self._hints:
            self.line(f"hint: {message}")

    def labelled(self, label: str, command: str) -> None:
        """Print a next command with its label."""
        if self._hints:
            self.line(f"{label + ':':<{LABELLED}}{command}")

    def blank(self) -> None:
        """Print an empty line."""
        self.line("")

    def step(
        self,
        step: int,
        max_steps: int,
        *,
        loss: float | None = None,
        lr: float | None = None,
        tokens_per_s: float | None = None,
        eta_s: float | None = None,
        wait_pct: float | None = None,
    ) -> None:
        """Say how far training is: the bar on a terminal, else a line now and then."""
        self.max_steps = max_steps
        self._end_opening()
        self._progress = Progress(
            step=step,
            max_steps=max_steps,
            loss=loss,
            tokens_per_s=tokens_per_s,
            eta_s=eta_s,
            wait_pct=wait_pct,
        )
        every = self.print_every or max(10, max_steps // 100)
        # At the end other lines follow, but whoever asked for an interval counts on each of it.
        if step and step % every == 0 and (step < max_steps or self.print_every):
            self._train_line(self._progress, lr)
        self._draw()

    @property
    def is_busy(self) -> bool:
        """Whether something happens between two steps: an evaluation, a save, a pause."""
        return self._progress is not None and bool(self._progress.phase)

    def phase(self, what: str | None) -> None:
        """Say what happens between two steps (`evaluating 3/8`); None ends it."""
        old = self._progress or Progress(step=0, max_steps=self.max_steps)
        self._progress = replace(old, phase=what or "")
        if old.max_steps:
            self._draw(force=True)

    def evaluated(self, step: int) -> None:
        """Print the eval line of a step: the objective against its base, then other values that
        fit.
        """
        found = {
            key: value
            for key, (at, value) in self._latest().items()
            if at == step and key.startswith(("val/", "eval/"))
        }
        if not found:
            return
        key = self.objective.metric if self.objective is not None else next(iter(found))
        parts: list[str] = []
        if key in found:
            parts.append(f"{key} {text.metric(found[key], 3)}")
            if step in self.base_values:
                delta = found[key] - self.base_values[step]
                sign = text.signed(delta, 3) if round(delta, 3) else "0.000"
                parts.append(f"vs {self.base_name} {sign:>6}")
        # Perplexity is exp of the loss beside it, and a standard error is read in tables, not in
        # passing.
        left = [
            f"{name} {text.metric(value, 3)}"
            for name, value in found.items()
            if name != key and not name.endswith(("_stderr", "/ppl", "/chance", "/n"))
        ]
        self.step_line(step, "eval", "   ".join([*parts, *self._fitting(parts, left)]))

    def _fitting(self, before: Sequence[str], parts: Sequence[str]) -> list[str]:
        """Return the parts that fit on the line behind `before`; the rest are counted."""
        room = self._width() - self._margin() - 2 - sum(text.cells(part) + 3 for part in before)
        for count in range(len(parts), 0, -1):
            rest = [f"+{len(parts) - count} more"] if count < len(parts) else []
            shown = [*parts[:count], *rest]
            if sum(text.cells(part) + 3 for part in shown) - 3 <= room:
                return shown
        return [f"+{len(parts)} more"] if parts else []

    def _width(self) -> int:
        if not self._stream.isatty():
            return PIPED
        return min(WIDEST, shutil.get_terminal_size((80, 24)).columns)

    def _margin(self) -> int:
        """The cells before the text of a step's line, its kind left out of account."""
        return 2 + len("step ") + max(3, len(str(self.max_steps))) + 3 + len("train ")

    def saved(self, step: int, num_bytes: int, removed: Sequence[int] = (), keep: str = "") -> None:
        """Print that a checkpoint stands, and which ones went."""
        what = f"checkpoint, {text.size(num_bytes)}"
        if removed:
            steps = ", ".join(str(item) for item in removed)
            what += f"; step {steps} removed ({keep})"
        self.step_line(step, "saved", what)

    def warn(self, step: int, message: str, runbook: str = "", *, severity: str = "warn") -> None:
        """Print what a rule found, how severe it is, and what to do about it."""
        self.step_line(step, severity, message)
        if runbook:
            self.line(f"{'':{self._margin() + 1}}runbook: {runbook}")

    def step_line(self, step: int, kind: str, rest: str, *, only_log: bool = False) -> None:
        """Print one line about a step."""
        self._end_opening()
        digits = max(3, len(str(self.max_steps)))
        self.line(f"  step {step:>{digits}}   {kind:<6} {rest}".rstrip(), only_log=only_log)

    def close_bar(self) -> None:
        """Take the bar away; lines still print."""
        self._erase()
        self._progress = None

    def close(self) -> None:
        """Take the bar away and close the log."""
        self.close_bar()
        self._say_data()
        log, self._log = self._log, None
        try:
            if log is not None:
                log.close()
        except OSError:
            pass  # as in `line`: what could not be written is in the journal

    def _train_line(self, progress: Progress, lr: float | None) -> None:
        parts = []
        if progress.loss is not None:
            parts.append(f"loss {text.metric(progress.loss, 3)}")
        rate = f"{text.short_rate(progress.tokens_per_s)} tok/s" if progress.tokens_per_s else ""
        if lr is not None:
            rate = f"lr {text.learning_rate(lr):<8}  {rate}".rstrip()
        parts += [rate] if rate else []
        if progress.wait_pct is not None and progress.wait_pct > 10:
            parts.append(f"wait {progress.wait_pct:.0f} %")
        parts.append(f"eta {text.eta(progress.eta_s)}")
        self.step_line(progress.step, "train", "   ".join(parts), only_log=self._has_bar)

    def _draw(self, *, force: bool = False) -> None:
        if not self._has_bar or self._quiet or self._progress is None:
            return
        now = time.monotonic()
        if not force and now - self._drawn_at < REDRAW_S:
            return
        width = shutil.get_terminal_size((80, 24)).columns - 1
        line = bar(
            self._progress,
            experiment=self.experiment,
            run=self.run,
            width=width,
            ascii=self._ascii,
        )
        if line != self._drawn:
            self._write(f"\r{line}\x1b[K")
            self._drawn, self._drawn_at = line, now

    def _erase(self) -> None:
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = ""

    def _write(self, data: str) -> None:
        try:
            self._stream.write(data)
            self._stream.flush()
        except (OSError, ValueError):
            # The terminal is gone (a closed SSH session): training goes on, and log.txt has every
            # line.
            self._quiet, self._has_bar = True, False
