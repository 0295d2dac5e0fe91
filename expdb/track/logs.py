"""What is logged beside points: evaluations, media, notes, events, artifacts.

Shared by the handle of a run and by a process that attached itself to one.

Invariant: what a call logged is on disk when it returns, or waits in memory and is said; only a
histogram of a tensor on a device is on disk a few calls later.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from expdb.errors import BadInput
from expdb.redact import Redactor
from expdb.store.artifacts import add_artifact, sources
from expdb.store.layout import RunLayout
from expdb.store.marks import add_event, add_mark
from expdb.store.media_recorder import MediaRecorder
from expdb.store.records import SEVERITIES
from expdb.track import hist, media
from expdb.track.console import Console
from expdb.track.evals import new_eval
from expdb.track.scalars import DeviceQueue, on_device, whole_step
from expdb.track.side import SideFiles


class Logs(ABC):
    """The logging methods of a run but `log`."""

    layout: RunLayout
    attempt: int
    step: int
    console: Console
    _side: SideFiles
    _media: MediaRecorder
    _queue: DeviceQueue
    _redactor: Redactor

    @abstractmethod
    def log(
        self, metrics: Mapping[str, Any], step: int | None = None, *, all_ranks: bool = False
    ) -> None:
        """Record values at a step."""

    @abstractmethod
    def _require_open(self) -> None:
        """Refuse what comes after the end."""

    @abstractmethod
    def _changed(self, *, is_event: bool = False) -> None:
        """Make it known that there is something new beside the points."""

    @abstractmethod
    def _say_trouble(self, message: str) -> None:
        """Say what is wrong with the store, once."""

    def _where(self, key: Any, step: int | None) -> tuple[str, int, str]:
        self._require_open()
        if self._queue.pending:
            self._queue.drain()
        name = media.checked_key(key)
        at = self.step if step is None else whole_step(step)
        return name, at, f"{name[:60]} at step {at}"

    def _add(self, kind: str, key: str, step: int, body: media.Body) -> None:
        fields, blob = body
        self._media.add(kind, key, step, time.time_ns() // 1_000_000, fields, blob)

    def log_text(self, key: str, text: str, step: int | None = None) -> None:
        """Keep a text of the run, such as a sample: up to 16 MB.

        Raises:
            BadInput: it is no text, or too long, or the key is empty.
        """
        name, at, where = self._where(key, step)
        self._add("text", name, at, media.text_body(text, self._redactor, where=where))

    def log_hist(
        self, key: str, values: Any, step: int | None = None, *, bins: int = hist.DEFAULT_BINS
    ) -> None:
        """Keep the histogram of an array or tensor, in `bins` equal bins; of any dtype and device.

        NaN and infinities are counted apart. A tensor on an accelerator is counted there, without
        a sync; of a sharded one the part of this rank is counted.

        Raises:
            BadInput: it is empty, or no array of real numbers.
        """
        name, at, where = self._where(key, step)
        flat = media.flat_values(values, bins, where=where)
        if not on_device(flat):
            self._add("hist", name, at, (hist.on_host(flat, bins), b""))
            return
        now = time.time_ns() // 1_000_000

        def then(row: list[float]) -> None:
            self._media.add("hist", name, at, now, hist.from_row(row))

        self._queue.put_row(hist.on_device(flat, bins), then)

    def log_table(
        self, key: str, rows: Any = None, step: int | None = None, *, columns: Any = None
    ) -> None:
        """Keep a table: rows as mappings, rows as lists with the names in `columns`, or columns by
        name.

        Raises:
            BadInput: it is none of these, a cell is no plain value, or it has over 16 MB.
        """
        name, at, where = self._where(key, step)
        self._add("table", name, at, media.table_body(rows, columns, self._redactor, where=where))

    def log_image(
        self, key: str, image: Any, step: int | None = None, *, caption: str = ""
    ) -> None:
        """Keep an image: an array HxW or HxWxC (uint8, bool, floats from 0 to 1), the bytes of a
        PNG or JPEG file, or a path to one.

        Raises:
            BadInput: it is none of these, or has over 16 MB.
        """
        name, at, where = self._where(key, step)
        self._add("image", name, at, media.image_body(image, caption, self._redactor, where=where))

    def log_eval(
        self,
        task: str,
        metrics: Mapping[str, Any],
        *,
        step: int | None = None,
        n: int | None = None,
        shots: int | None = None,
        scorer: str = "",
        items: Any = None,
    ) -> None:
        """Record one evaluation of the weights at a step; also writes `eval/<task>/<metric>`
        points.

        `items` is what was scored, as a path, rows, or a digest (`sha256:...`): two evals are
        comparable when it is equal.

        Raises:
            BadInput: the task is empty, or a value is no number.
        """
        self._require_open()
        at = self.step if step is None else whole_step(step)
        found = new_eval(task, metrics, step=at, n=n, shots=shots, scorer=scorer, items=items)
        self._side.write("an evaluation", lambda: found.write(self.layout))
        self.log({f"eval/{task}/{name}": value for name, value in found.values.items()}, step=at)
        self._changed()

    def note(self, message: str) -> None:
        """Add a line of text to the run."""
        self._require_open()
        said = self._redactor.text(message)
        self._side.write("a note", lambda: add_mark(self.layout, "note", said))
        self._changed()

    def alert(self, text: str, *, level: str = "warn", step: int | None = None) -> None:
        """Record an event of the script's own, and say it; `level` is info, warn or critical.

        Raises:
            BadInput: another level.
        """
        if level not in SEVERITIES:
            raise BadInput(f"the level of an alert is {level!r:.40}", hint="info, warn or critical")
        self._require_open()
        self.event(self.step if step is None else whole_step(step), level, "alert", str(text))

    def event(
        self,
        step: int,
        severity: str,
        rule: str,
        message: str,
        runbook: str = "",
        *,
        facts: Mapping[str, Any] | None = None,
        is_quiet: bool = False,
        is_told: bool = False,
    ) -> None:
        """Record what a rule found, and say it unless `is_quiet`; `facts` is what else its line
        holds, and of an alert that is neither open nor over nothing is said, but with `is_told`.
        """
        self._require_open()
        said = self._redactor.text(message)
        write = partial(add_event, self.layout, step, severity, rule, said, facts)
        self._side.write("an event", write)
        self._changed(is_event=True)
        if is_quiet or not (facts is None or facts.get("state") or is_told):
            return  # for the record alone
        if severity == "info":
            self.console.step_line(step, "info", f"{rule}: {message}")
        else:
            self.console.warn(step, f"{rule}: {message}", runbook, severity=severity)

    def artifact(self, path: str | os.PathLike[str], *, name: str | None = None) -> None:
        """Copy a file, or a folder with all in it, into the run; `name` is that of the path unless
        given.

        The same name with other content is another version of it. Contents are copied as they are:
        no secret is looked for in them.

        Raises:
            BadInput: there is no such path, or something in it is neither file nor folder, or a
                link that leads out of it.
        """
        self._require_open()
        source = Path(path)
        found = sources(source)
        called = self._redactor.known(name if name is not None else source.resolve().name)
        refused: list[BadInput] = []

        def copy() -> None:
            try:
                add_artifact(self.layout, called, found, attempt=self.attempt)
            except BadInput as error:
                refused.append(error)
                if returned:  # it waited, and its files are gone meanwhile
                    self._say_trouble(f"store: {error.message}; it is not kept")

        returned = False
        self._side.write(f"the artifact {called}", copy)
        returned = True
        if refused:
            raise refused[0]
        self._changed()
