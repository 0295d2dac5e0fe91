"""Which runs are siblings: one config and code under one name, with different seeds.

Invariant: a difference between siblings is chance, and nothing that somebody did.
"""

from __future__ import annotations

from collections.abc import Sequence

from expdb import digest
from expdb.model import Run


def is_sibling(
    run: Run,
    *,
    seed: int | None,
    canonical: str,
    tree: str | None,
    ignore: Sequence[str],
    seed_key: str,
) -> bool:
    """Tell whether a run differs in its seed alone from another one of this config and tree.

    Args:
        run: a stored run.
        seed: of the other run, as are `canonical` (its config) and `tree` (None where its code is
            not pinned: of two such runs nobody knows that their code differs).
        ignore: the keys that do not count today.
        seed_key: the key of the seed.
    """
    if seed is None or run.seed is None or run.seed == seed or run.pin.tree != tree:
        return False
    try:
        return not digest.differing(run.canonical, canonical, ignore=ignore, seed_key=seed_key)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False  # a damaged config is not known to be the same
