"""`expdb ctl RUN VERB`: a request to a run while it trains, and its answer.

A request is no op: it changes no ref and no work tree, and the run itself records what it did.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from expdb.actions.naming import named
from expdb.actions.results import ControlResult
from expdb.actions.writing import writing
from expdb.errors import Refused
from expdb.index.reader import Reader
from expdb.model import Run, RunState
from expdb.store import attempts, control, ops
from expdb.store.control import Request
from expdb.store.layout import RunLayout
from expdb.store.resolve import Resolved
from expdb.store.runs import read_run, require_here
from expdb.text import short_id

POLL_S = 0.1


def ask(
    reader: Reader,
    resolved: Resolved,
    verb: str,
    *,
    wait_s: float = 0.0,
    on_asked: Callable[[ControlResult], None] = lambda asked: None,
) -> ControlResult:
    """Ask a live run to `save`, `eval`, `pause`, `go` or `stop`, and wait so long for its answer.

    Raises:
        BadInput: the verb is none.
        Refused: the run is not alive.
        NotFound: it was removed at this moment.
        Corrupt: the store cannot be written.
    """
    store = reader.store
    run = reader.run(resolved.run)
    if not run.state.is_alive:
        raise Refused(
            f"{named(run, reader.id_length)} is not running: it is {run.state}",
            hint=_instead(run, short_id(run.id, reader.id_length)),
        )
    layout = RunLayout(store.root / run.path)
    numbers = attempts.numbers(layout)
    require_here(layout)  # behind the look: a run that is removed meanwhile shows none
    attempt = numbers[-1]
    with writing(store):
        asked = control.request(layout, attempt, verb, who=ops.who())
    result = ControlResult(run=run, attempt=attempt, verb=verb, asked_at_ms=asked.asked_us // 1000)
    on_asked(result)
    return _answered(reader, layout, asked, result, wait_s=wait_s)


def _answered(
    reader: Reader, layout: RunLayout, asked: Request, result: ControlResult, *, wait_s: float
) -> ControlResult:
    until = time.monotonic() + wait_s
    while True:
        found = control.answer(layout, asked)
        if found is not None:
            return replace(
                result,
                done_at_ms=found.done_at_ms,
                done_step=found.step,
                ok=found.ok,
                outcome=found.outcome,
            )
        left = until - time.monotonic()
        if left <= 0:
            return result
        require_here(layout)
        now = read_run(layout.root, store_root=reader.store.root)
        if not now.state.is_alive and control.answer(layout, asked) is None:
            why = f"{now.state}" + (f": {now.reason}" if now.reason else "")
            return replace(result, run=now, ended=why)
        time.sleep(min(POLL_S, left))


def _instead(run: Run, who: str) -> str:
    if run.state is RunState.FINISHED:
        return f"look at it: expdb show {who}"
    return f"take it up again: expdb resume {who}"
