"""Which checkpoints of a run others need: those that a ref, a tag, or another run's start names."""

from __future__ import annotations

from expdb.errors import ExpdbError
from expdb.store.layout import RunLayout
from expdb.store.refs import read_refs
from expdb.store.runs import read_identity, run_dirs
from expdb.store.store import Store


def protected_steps(store: Store, run: str) -> set[int]:
    """Return the steps of `run` that must stay.

    Raises:
        Corrupt: a ref is damaged, so that it cannot be known.
    """
    named = (ref.step for ref in read_refs(store.layout).values() if ref.run == run)
    steps = {step for step in named if step is not None}
    for other, folder, _ in run_dirs(store.root):
        if other == run:
            continue
        try:
            identity = read_identity(RunLayout(folder))
        except ExpdbError:
            continue  # a run without a readable identity cannot be started again from here
        for name in ("fork", "parent"):
            start = identity.get(name)
            if isinstance(start, dict) and start.get("run") == run:
                step = start.get("step")
                if isinstance(step, int):
                    steps.add(step)
    return steps
