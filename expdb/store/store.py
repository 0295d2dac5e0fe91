"""A store: its folder, its id and its format."""

from __future__ import annotations

import os
from pathlib import Path

from expdb.errors import Corrupt, NotFound, Unsupported
from expdb.model import FORMAT, NEEDS
from expdb.store.files import create_bytes, encode_json, read_json
from expdb.store.ids import new_id
from expdb.store.layout import StoreLayout


class Store:
    """An opened store; opening checks the format and reads nothing else."""

    def __init__(self, root: Path, store_id: str) -> None:
        self.root = root
        self.id = store_id
        self.layout = StoreLayout(root)

    @property
    def writable(self) -> bool:
        """Whether this process may write to the store."""
        return os.access(self.root, os.W_OK) and os.access(self.layout.meta, os.W_OK)

    @property
    def name(self) -> str:
        """The store as people are told of it: relative to the current folder where that is shorter."""
        relative = os.path.relpath(self.root)
        return relative if len(relative) < len(str(self.root)) else str(self.root)


def open_store(root: Path, *, create: bool = False) -> Store:
    """Open the store in the folder `root`, making it first with `create`.

    Raises:
        NotFound: there is none.
        Unsupported: a newer expdb wrote it.
        Corrupt: store.json is damaged, or the store cannot be made.
    """
    root = root.absolute()
    layout = StoreLayout(root)
    if create and not layout.store_json.exists():
        _create(layout)
    try:
        data = read_json(layout.store_json)
    except FileNotFoundError:
        raise NotFound(
            f"there is no store in {_short(root)}",
            hint="make one: python train.py +exp=baseline      or name one: expdb --store DIR ls",
        ) from None
    except PermissionError:
        raise Corrupt(f"cannot read the store {_short(root)}: no permission") from None
    found = data.get("format")
    if not isinstance(found, int) or "id" not in data:
        raise Corrupt(f"store.json of {_short(root)} is damaged", hint=f"the file: {layout.store_json}")
    if found > FORMAT:
        raise Unsupported(
            f"the store {_short(root)} has format {found}; this expdb {NEEDS} reads formats up to"
            f" {FORMAT}",
            hint=f"it needs expdb {data.get('needs', 'of a later version')} or newer:"
            " pip install -U expdb-ml; nothing was changed",
        )
    return Store(root, str(data["id"]))


def _create(layout: StoreLayout) -> None:
    try:
        for folder in (layout.meta, layout.refs, layout.ops, layout.locks):
            folder.mkdir(parents=True, exist_ok=True)
        ignore = layout.root / ".gitignore"
        if not ignore.exists():
            _create_once(ignore, b"*\n")
        body = {"format": FORMAT, "needs": NEEDS, "id": new_id()}
        _create_once(layout.store_json, encode_json(body))
    except OSError as error:
        raise Corrupt(
            f"cannot write to the store {_short(layout.root)}: {reason(error)}",
            hint="another place: python train.py ... expdb.store=DIR",
        ) from error


def _create_once(path: Path, data: bytes) -> None:
    try:
        create_bytes(path, data)
    except FileExistsError:
        pass  # made by another process in this second: theirs is as good


def reason(error: OSError) -> str:
    """Return an I/O error in plain words."""
    import errno

    words = {
        errno.EACCES: "no permission",
        errno.EPERM: "no permission",
        errno.EROFS: "the file system is read-only",
        errno.ENOSPC: "no space left",
        errno.EDQUOT: "the quota is used up",
        errno.ENOTDIR: "a part of the path is a file",
    }
    return words.get(error.errno or 0, error.strerror or str(error))


def _short(path: Path) -> str:
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)
