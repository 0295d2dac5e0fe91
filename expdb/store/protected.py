"""Which checkpoints of a run others need: those that a ref, a tag, or another run's start names."""

from __future__ import annotations

from collections import defaultdict

from expdb.errors import ExpdbError
from expdb.store.layout import RunLayout
from expdb.store.refs import read_refs
from expdb.store.runs import read_identity, run_dirs
from expdb.store.store import Store

Needed = dict[str, dict[int, str]]
"""Run -> step -> who needs it, in words: `tag v1`, `fork of k3f9x2m7qd`."""


def needed_steps(store: Store) -> Needed:
    """Return the checkpoints that must stay, of all runs.

    Raises:
        Corrupt: a ref is damaged, so that it cannot be known.
    """
    found: Needed = defaultdict(dict)
    for other, folder, _ in run_dirs(store.root):
        try:
            identity = read_identity(RunLayout(folder))
        except ExpdbError:
            continue  # a run without a readable identity cannot be started again from here
        for name in ("parent", "fork"):
            start = identity.get(name)
            if isinstance(start, dict) and start.get("run") != other:
                run, step = start.get("run"), start.get("step")
                if isinstance(run, str) and isinstance(step, int):
                    found[run][step] = f"{name} of {other}"
    for ref in read_refs(store.layout).values():
        if ref.step is not None:
            found[ref.run][ref.step] = f"{ref.kind} {ref.name}"
    return found


def protected_steps(store: Store, run: str) -> set[int]:
    """Return the steps of `run` that must stay.

    Raises:
        Corrupt: a ref is damaged, so that it cannot be known.
    """
    return set(needed_steps(store).get(run, {}))
