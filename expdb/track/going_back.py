"""Where a rewind goes, and which data it leaves out.

The data that the run took between the checkpoint and now are the suspects: they are left out, and
more of them if the rule says so. A further try from the same checkpoint also leaves out what the
tries before it did.

Invariant: looking changes nothing; tries are counted over the pins of the run's attempts, so that
no death in between gives one for free.
"""

from __future__ import annotations

from collections.abc import Sequence

from expdb.errors import NotFound, Refused
from expdb.model import Attempt
from expdb.model_run import left_by
from expdb.store.attempts import resumed_steps
from expdb.store.checkpoints import read_manifests
from expdb.store.going_on import require_step
from expdb.store.layout import RunLayout
from expdb.store.runs import read_run
from expdb.store.store import Store
from expdb.track.due import Due
from expdb.track.intervene import Intervention, of_attempt
from expdb.track.resume import last_good


def planned(
    store: Store, layout: RunLayout, due: Due, now: int, *, can_skip: bool
) -> tuple[int, Intervention]:
    """Return the checkpoint that a rewind at step `now` goes back to, and what is changed there.

    Raises:
        Refused, NotFound: there is no such checkpoint, its tries are used up, or a later one has
            to stay as it is.
    """
    action, run = due.action, read_run(layout.root, store_root=store.root)
    tried = [one for one in run.attempts if _rule_of(one) == due.rule]
    if len(tried) >= action["tries"]:
        raise Refused(f"{len(tried):,} of {action['tries']:,} tries are used up")
    most = due.opened - int(action["back"])
    good, _ = last_good(layout, most=most)
    started = next((one.resumed_from for one in reversed(run.attempts)), None)
    if started and good < started and _rule_of(run.attempts[-1]):
        good = started  # what came of the try before is no place to go back to: from there again
    if not good:
        raise NotFound(f"there is no good checkpoint up to step {most}")
    require_step(store, run, good)
    skip = 0
    if action["skip"]:
        skip = _left_out(run.attempts, good) + max(int(action["skip"]), now - good)
    change = Intervention(
        skip_batches=skip if can_skip else 0,
        lr_scale=float(action["lr_scale"]),
        rewind={"rule": due.rule, "step": due.opened, "from": now, "try": len(tried) + 1},
    )
    return good, change


def anchors(layout: RunLayout, back: int) -> set[int]:
    """Return the checkpoints that have to stay so that one at least `back` steps old is there.

    Two at most: the newest that is old enough, and the one that will be so next.
    """
    resumed = resumed_steps(layout)
    there = [one.step for one in read_manifests(layout) if left_by(one, resumed) is None]
    newest = max(there, default=0)
    old = max((step for step in there if step <= newest - back), default=-1)
    after = min((step for step in there if step > old), default=-1)
    return {old, after} - {-1}


def words(change: Intervention, good: int, tries: int) -> str:
    """Return the line about a rewind that is done."""
    known = change.rewind
    return (
        f"{known['rule']} at {known['step']}: went back from step {known['from']} to {good},"
        f" try {known['try']} of {tries}"
    )


def _rule_of(attempt: Attempt) -> str:
    known = attempt.intervention.get("rewind")
    return str(known.get("rule", "")) if isinstance(known, dict) else ""


def _left_out(attempts: Sequence[Attempt], good: int) -> int:
    """Return how many updates' data were left out on the way from a checkpoint to now."""
    out = 0
    for place, one in enumerate(attempts):
        start = one.resumed_from or 0
        later = (other.resumed_from for other in attempts[place + 1 :])
        if start >= good and all(at is None or at > start for at in later):
            out += of_attempt(one).skip_batches
    return out
