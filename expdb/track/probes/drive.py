"""The updates of a probe: a loop gives these to the script instead of a training.

Invariant: the script does what it always does with an update; nothing is evaluated or saved, and
the process ends with status 0 when the last one is done and what was found is written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expdb.errors import BadInput
from expdb.store.probing import write_found, write_progress
from expdb.track.probes import loader, lr_range, memory, throughput

if TYPE_CHECKING:
    from expdb.track.probes.seen import Probed
    from expdb.track.update import Engine, Update

Measure = Callable[["Probed", Mapping[str, Any]], Generator["Update", None, dict[str, Any]]]
MEASURES: Mapping[str, Measure] = {
    "throughput": throughput.measure,
    "loader": loader.measure,
    "memory": memory.measure,
    "lr": lr_range.measure,
}


def probed(run: Any, engine: Engine, task: Mapping[str, Any]) -> Iterator[Update]:
    """Yield the updates of a probe.

    Raises:
        BadInput: the training has several ranks.
        SystemExit: all is measured, with status 0.
    """
    from expdb.track.probes.seen import Probed

    if engine.world > 1:
        raise BadInput(f"a probe looks at one process, and this training has {engine.world}")
    run.stop_at = None  # the last update of a probe is its own to tell
    engine.watch = None
    store = Path(run.store.root)
    kind = task["kind"]
    found = yield from MEASURES[kind](Probed(engine, tell=partial(write_progress, store)), task)
    write_found(store, {"kind": kind, "device": str(engine.device), "accum": engine.accum, **found})
    raise SystemExit(0)
