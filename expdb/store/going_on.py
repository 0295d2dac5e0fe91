"""Which step of a run it can be taken up from."""

from __future__ import annotations

from expdb import text
from expdb.errors import NotFound, Refused
from expdb.model import Run
from expdb.store.checkpoints import damage, next_good
from expdb.store.layout import RunLayout
from expdb.store.protected import needed_steps
from expdb.store.store import Store


def require_step(store: Store, run: Run, step: int) -> None:
    """Refuse a step that a run cannot be taken up from; looking writes nothing.

    Raises:
        NotFound: it has no checkpoint there.
        Refused: the checkpoint is damaged, or is one that a later attempt has left behind, or a
            later one is kept for a tag, a ref or a fork: the run would write another in its place.
    """
    layout = RunLayout(store.root / run.path)
    who = f"{run.id[:4]} {text.plain(run.name)}"
    there = [item.step for item in run.usable]
    has = f"it has {', '.join(map(str, there))}" if there else "it has none"
    hint = f"expdb resume {run.id[:4]}@{there[-1]}" if there else f"expdb show {run.id[:4]}"
    found = next((item for item in run.checkpoints if item.step == step), None)
    if found is None:
        raise NotFound(f"{who} has no checkpoint {step}; {has}", hint=hint)
    left = run.left(found)
    if left is not None:
        raise Refused(
            f"checkpoint {step} of {who} was left behind: attempt {left} went on from an earlier"
            f" step; {has}",
            hint=hint,
        )
    problem = damage(layout, step)
    if problem:
        others = [one for one in there if one != step]
        good = next_good(layout, step) if others else None
        rest = f"it also has {', '.join(map(str, others))}" if others else "it has no other"
        raise Refused(
            f"checkpoint {step} of {who} is damaged: {problem}; {rest}",
            hint=hint if good is None else f"expdb resume {run.id[:4]}@{good}",
        )
    later = {item.step for item in run.usable if item.step > step}
    needed = needed_steps(store).get(run.id, {}) if later else {}
    for other in sorted(later & set(needed)):
        raise Refused(
            f"checkpoint {other} of {who} is kept for {text.plain(needed[other])};"
            f" from step {step} the run would write another in its place",
            hint=f"a new run from there leaves it alone: expdb.fork={run.id[:4]}@{step}",
        )
