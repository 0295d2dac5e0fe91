"""What each verb that writes to the store says when the store cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from expdb.errors import Corrupt
from expdb.store.store import Store, reason


@contextmanager
def writing(store: Store) -> Iterator[None]:
    """Turn an I/O error of the block into one line.

    Raises:
        Corrupt: the store cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise Corrupt(
            f"cannot write to the store {store.name}: {reason(error)}",
            hint="what was done: expdb ops",
        ) from error
