"""A store: its folder, its id and its format."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from expdb.errors import BadInput, Corrupt, NotFound, Unsupported
from expdb.model import FORMAT, NEEDS
from expdb.store.files import WORDS, create_bytes, encode_json, read_json
from expdb.store.files import reason as reason  # the name by which the layers above know it
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
    def why_not(self) -> str:
        """Why it cannot be written, in plain words; for a store that is not `writable`."""
        try:
            is_frozen = bool(os.statvfs(self.layout.meta).f_flag & os.ST_RDONLY)
        except OSError:
            is_frozen = False
        return WORDS[errno.EROFS if is_frozen else errno.EACCES]

    @property
    def name(self) -> str:
        """The store as people are told of it: relative to the current folder if that is shorter."""
        return _short(self.root)


def open_store(root: Path, *, create: bool = False) -> Store:
    """Open the store in the folder `root`, making it first with `create`.

    Raises:
        NotFound: there is none.
        Unsupported: a newer expdb wrote it.
        Corrupt: store.json is damaged, or the store cannot be made.
        BadInput: it would be made in the top folder of a git repository; its path is not UTF-8.
    """
    root = root.absolute()
    try:
        str(root).encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"the path of the store {_short(root)!a} is not UTF-8",
            hint="another place: expdb --store DIR, or in training expdb.store=DIR",
        ) from None
    layout = StoreLayout(root)
    try:
        data = read_json(layout.store_json)
    except (FileNotFoundError, NotADirectoryError):
        if not create:
            raise NotFound(
                f"there is no store in {_short(root)}",
                hint="make one: expdb init      or name one: expdb --store DIR ls",
            ) from None
        _create(layout)
        data = read_json(layout.store_json)
    found, store_id = data.get("format"), data.get("id")
    if isinstance(found, int) and found > FORMAT:
        raise Unsupported(
            f"the store {_short(root)} has format {found}; this expdb {NEEDS} reads formats up to"
            f" {FORMAT}",
            hint=f"it needs expdb {data.get('needs', 'of a later version')} or newer:"
            " pip install -U expdb-ml; nothing was changed",
        )
    if not isinstance(found, int) or not isinstance(store_id, str):
        raise Corrupt(
            f"store.json of {_short(root)} is damaged", hint=f"the file: {layout.store_json}"
        )
    return Store(root, store_id)


def _create(layout: StoreLayout) -> None:
    another = "another place: python train.py ... expdb.store=DIR"
    try:
        if os.path.lexists(
            layout.root / ".git"
        ):  # its .gitignore would hide all of the user's files
            raise BadInput(
                f"{_short(layout.root)} is the top folder of a git repository,"
                " not a place for a store",
                hint=another,
            )
        for folder in (layout.meta, layout.refs, layout.ops, layout.locks):
            folder.mkdir(parents=True, exist_ok=True)
        _create_once(layout.root / ".gitignore", b"*\n")
        body = {"format": FORMAT, "needs": NEEDS, "id": new_id()}
        _create_once(layout.store_json, encode_json(body))
    except OSError as error:
        raise Corrupt(
            f"cannot write to the store {_short(layout.root)}: {reason(error)}", hint=another
        ) from error


def _create_once(path: Path, data: bytes) -> None:
    try:
        create_bytes(path, data)
    except FileExistsError:
        pass  # the user's own, or made by another process in this second: theirs is as good


def _short(path: Path) -> str:
    try:
        relative = os.path.relpath(path)
    except FileNotFoundError:  # the current folder was removed
        return str(path)
    return relative if len(relative) < len(str(path)) else str(path)
