"""`expdb events RUN --ack`: somebody has seen these events, and they no longer count as open.

An event is acknowledged as severe as it is; one that grows worse later is open again.
"""

from __future__ import annotations

from collections.abc import Sequence

from expdb.actions.marks import mark
from expdb.actions.naming import named
from expdb.actions.results import AckResult
from expdb.actions.unfinished import require_finished
from expdb.errors import NotFound
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Event, Run
from expdb.text import plain


def acknowledge(
    reader: Reader,
    run: str,
    events: Sequence[Event],
    *,
    worktree: WorkTree | None = None,
) -> AckResult:
    """Acknowledge events of a run, and write one op; none where all of them were already.

    Raises:
        Refused: an op of this work tree was cut off.
        NotFound: the run is gone.
    """
    if worktree is not None:
        require_finished(worktree, reader.store)
    found = reader.run(run)
    asked = {event.mark for event in events}
    same = [one for one in found.events if one.mark in asked and one.is_acknowledged]
    opened = [one for one in found.events if one.mark in asked and not one.is_acknowledged]
    op = None
    if opened:
        marks = tuple(dict.fromkeys(one.mark for one in opened))
        what = f"{plain(opened[0].rule)} at {opened[0].step}"
        if len(opened) > 1:
            what = f"{len(opened):,} events"
        op = mark(
            reader.store,
            kind="ack",
            text="\n".join(marks),
            runs=[found.id],
            what=f"ack {what} of {named(found, reader.id_length)}",
            worktree=worktree,
        ).id
    return AckResult(run=found, events=tuple(opened), num_same=len(same), op=op)


def to_acknowledge(run: Run, step: int | None, id_cells: int) -> tuple[Event, ...]:
    """Return the events of a run at a step, or all of its warnings and critical ones.

    Raises:
        NotFound: there is none.
    """
    if step is not None:
        found = tuple(event for event in run.events if event.step == step)
    else:
        found = tuple(event for event in run.events if event.severity != "info")
    if not found:
        name = named(run, id_cells)
        what = "no event" if step is not None else "no warning and no critical event"
        where = "" if step is None else f" at step {step}"
        raise NotFound(f"{name} has {what}{where}", hint=f"expdb events {run.id}")
    return found
