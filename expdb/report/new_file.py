"""Files that a command writes for the user: new, whole, and never inside the store.

Invariant: a file appears under its name whole or not at all; one that is there is replaced only
when that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from expdb.errors import BadInput, Refused
from expdb.store.files import temp_path
from expdb.store.store import Store, reason
from expdb.text import plain


def require_free(path: Path, store: Store, *, force: bool) -> None:
    """Refuse a place that cannot be written to, or must not be.

    Raises:
        Refused: a file is there, and `force` was not given; or the place is in the store.
        BadInput: the folder does not exist, or a folder stands there.
    """
    where = plain(str(path))
    resolved = path.resolve()
    require_outside(path, store)
    if resolved.is_dir():
        raise BadInput(f"{where} is a folder")
    if not resolved.parent.is_dir():
        raise BadInput(f"the folder of {where} does not exist")
    if not force and resolved.exists():
        raise Refused(f"{where} is there already", hint="replace it: the same with --force")


def require_outside(path: Path, store: Store) -> None:
    """Refuse a place in the store.

    Raises:
        Refused: it is one.
    """
    if path.resolve().is_relative_to(store.root.resolve()):
        raise Refused(f"{plain(str(path))} lies in the store, which holds runs only")


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that gets its name when the block ends well.

    Raises:
        BadInput: it cannot be written.
    """
    resolved = path.resolve()
    temp = temp_path(resolved)
    try:
        with temp.open("xb") as file:
            yield file
        temp.replace(resolved)
    except OSError as error:
        raise BadInput(f"{plain(str(path))} cannot be written: {reason(error)}") from error
    finally:
        temp.unlink(missing_ok=True)
