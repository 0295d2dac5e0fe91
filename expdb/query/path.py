"""`path`: where on disk a part of a run is.

Invariant: a path that is returned exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from expdb import text
from expdb.errors import BadInput, NotFound
from expdb.index.reader import Reader
from expdb.query.usable import USABLE
from expdb.store.attempts import numbers
from expdb.store.layout import RunLayout
from expdb.store.resolve import Resolved

Finder = Callable[[Reader, RunLayout, Resolved], Path]


def run_path(reader: Reader, resolved: Resolved, what: str | None = None) -> Path:
    """Return the path of a part of a run: run, config, points, checkpoint, log.

    Without `what` it is the checkpoint where a step was named, else the run's folder.

    Raises:
        BadInput: no part is called so.
        NotFound: the run has no such part.
    """
    layout = RunLayout(reader.run_dir(resolved.run))
    name = what or ("run" if resolved.step is None else "checkpoint")
    if name not in PARTS:
        raise BadInput(
            f"no part of a run is called {text.plain(name)}", hint=f"parts: {' '.join(PARTS)}"
        )
    path = PARTS[name](reader, layout, resolved)
    if not path.exists():
        raise NotFound(
            f"{resolved.run} has no {text.plain(name)} yet", hint=f"expdb show {resolved.run}"
        )
    return path


def _run(_reader: Reader, layout: RunLayout, _resolved: Resolved) -> Path:
    return layout.root


def _config(_reader: Reader, layout: RunLayout, _resolved: Resolved) -> Path:
    return layout.config_yaml if layout.config_yaml.exists() else layout.config_json


def _points(_reader: Reader, layout: RunLayout, _resolved: Resolved) -> Path:
    return layout.points


def _checkpoint(reader: Reader, layout: RunLayout, resolved: Resolved) -> Path:
    if resolved.step is not None:
        return layout.checkpoint(resolved.step)
    sql = f"SELECT max(c.step) FROM checkpoints c WHERE c.run = ? AND {USABLE}"
    last = reader.rows(sql, [resolved.run])[0][0]
    if last is None:
        raise NotFound(f"{resolved.run} has no checkpoint", hint=f"expdb show {resolved.run}")
    return layout.checkpoint(last)


def _log(_reader: Reader, layout: RunLayout, _resolved: Resolved) -> Path:
    return layout.attempt(max(numbers(layout), default=1)) / "log.txt"


PARTS: Final[Mapping[str, Finder]] = {
    "run": _run,
    "config": _config,
    "points": _points,
    "checkpoint": _checkpoint,
    "log": _log,
}
