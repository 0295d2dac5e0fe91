"""The folder of a remote: what lies where in it, and whether it is the one that was meant.

    DIR/
    ├── remote.json                          {"format", "needs", "remote": id}
    ├── exp=<experiment>/run=<id>/           runs as in a store
    ├── packages/<sha256>.json               the sets of packages that these runs name
    ├── stores/<store id>/refs/<ref>.json    refs of each store that pushes, as they are there
    ├── stores/<store id>/ops/<yyyymm>/      its ops
    ├── code/<utc us>-<random>/              objects.pack and pack.json: the code of runs
    └── locks/

Invariant: what stands under its true name is whole; temporary names start with `.tmp-`. Everything
in it was written by others: a name of it makes no path before it was checked.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from expdb.errors import Corrupt, ExpdbError, NotFound, Refused, Unsupported
from expdb.model import FORMAT, NEEDS
from expdb.store import files
from expdb.store.folders import RUN_DIR
from expdb.store.ids import is_id, new_id
from expdb.store.layout import StoreLayout, is_passed_over
from expdb.store.remotes import Remote

MARK: Final = "remote.json"
EXPERIMENT: Final = "exp="
OLD_S: Final = 86_400.0
"""Younger temporary files may be in use, also where a clock is wrong by hours."""


class Place:
    """The paths of one remote; `name` is what people call it."""

    __slots__ = ("id", "name", "root", "runs")

    def __init__(self, root: Path, *, name: str, id: str) -> None:
        self.root, self.name, self.id = root, name, id
        self.runs = StoreLayout(root)
        """Runs lie as in a store."""

    @property
    def packages(self) -> Path:
        """The folder of sets of packages."""
        return self.root / "packages"

    @property
    def stores(self) -> Path:
        """The folder of what each store says: its refs and ops."""
        return self.root / "stores"

    @property
    def code(self) -> Path:
        """The folder of packs."""
        return self.root / "code"

    def lock(self, name: str) -> Path:
        """Return the path of a lock."""
        return self.root / "locks" / f"{name}.lock"


def make_place(path: Path, store_root: Path) -> str:
    """Make a remote of an empty folder, unless it is one; return its id.

    Raises:
        NotFound: there is no such folder.
        Refused: it is in the store, around it, or is something else; nothing was written.
        Corrupt: it cannot be written; Unsupported: a newer expdb made it.
    """
    require_apart(path, store_root)
    found = _read_mark(path)
    if found is not None:
        return found
    others = [name for name in _names(path) if not is_passed_over(name)]
    others = [name for name in others if not name.startswith(f".tmp-{MARK}")]
    if others:
        raise Refused(
            f"{path} is no remote, and not empty: {len(others):,} other files are in it",
            hint=f"a folder of its own: mkdir {path / 'expdb'}",
        )
    made = new_id()
    body = {"format": FORMAT, "needs": NEEDS, "remote": made}
    try:
        files.create_bytes(path / MARK, files.encode_json(body))
    except FileExistsError:
        return _read_mark(path) or made
    except OSError as error:
        raise Corrupt(
            f"cannot write to {path}: {files.reason(error)}", hint=f"look: ls -ld {path}"
        ) from error
    return made


def open_place(remote: Remote) -> Place:
    """Return the folder of a remote, after a look whether it is there and is the same.

    Raises:
        NotFound: there is no such folder.
        Refused: it is another one now, or no remote any more.
        Corrupt: it cannot be read; Unsupported: a newer expdb made it.
    """
    found = _read_mark(remote.path)
    again = f"expdb remote rm {remote.name}, then expdb remote add {remote.name} DIR"
    if found is None:
        raise Refused(
            f"the remote {remote.name} is not in {remote.path}: {MARK} is missing there",
            hint=f"is it mounted? If it is another one now: {again}",
        )
    if found != remote.id:
        raise Refused(f"another remote is in {remote.path} now, {found}", hint=again)
    return Place(remote.path, name=remote.name, id=found)


def require_apart(path: Path, store_root: Path) -> None:
    """Refuse a remote that lies in the store, or around it.

    Raises:
        Refused: it does.
    """
    place, root = Path(os.path.realpath(path)), Path(os.path.realpath(store_root))
    if place.is_relative_to(root) or root.is_relative_to(place):
        where = "in the store" if place.is_relative_to(root) else "around the store"
        raise Refused(f"{path} lies {where} itself", hint="a folder elsewhere, on another disk")


def runs_in(place: Place, problems: list[str] | None = None) -> Iterator[tuple[str, Path]]:
    """Yield (id, folder) of every run of a remote that is a real folder in a real folder; what
    cannot be looked into is named in `problems`.
    """
    for experiment in sorted(_names(place.root)):
        above = place.root / experiment
        if experiment.startswith(EXPERIMENT) and is_folder(above):
            try:
                names = sorted(_names(above))
            except Corrupt as error:
                if problems is not None:
                    problems.append(error.message)
                continue
            for name in names:
                match = RUN_DIR.fullmatch(name)
                if match is not None:
                    yield match[1], above / name


def is_folder(path: Path) -> bool:
    """Tell whether a path is a folder itself, not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def require_folder(path: Path) -> None:
    """Make a folder of a remote unless it is there.

    Raises:
        Refused: something else is in its place, as a link.
        OSError: it cannot be made.
    """
    try:
        files.make_dir(path)
    except FileExistsError:
        pass
    if not is_folder(path):
        raise Refused(f"{path} is no folder of the remote: a link, or a file")


def clear_old(place: Place, store_id: str) -> None:
    """Remove temporary files that kills left beside the small files that every store writes."""
    own = place.stores / store_id
    folders = (place.root, place.packages, place.root / "locks", own / "refs", own / "ops")
    months = [own / "ops" / name for name in _names(own / "ops")]
    now = time.time()
    for path in (path for folder in (*folders, *months) for path in folder.glob(".tmp-*")):
        try:
            seen = os.lstat(path)
            if stat.S_ISREG(seen.st_mode) and now - seen.st_mtime > OLD_S:
                path.unlink()
        except OSError:
            continue


@contextmanager
def reading_from(place: Place) -> Iterator[None]:
    """Turn an I/O error of the block that is about a file of the remote into one line.

    Raises:
        Corrupt: the remote cannot be read.
    """
    try:
        yield
    except OSError as error:
        if not str(error.filename or "").startswith(f"{place.root}/"):
            raise
        raise Corrupt(
            f"the remote {place.name} cannot be read: {files.reason(error)}",
            hint=f"what arrived stays; it goes on with: expdb pull {place.name}",
        ) from error


@contextmanager
def writing_to(place: Place, store_root: Path) -> Iterator[None]:
    """Turn an I/O error of the block into one line.

    Raises:
        Corrupt: the remote cannot be written, or the store in `store_root` cannot be read.
    """
    try:
        yield
    except OSError as error:
        if str(error.filename or "").startswith(f"{store_root}/"):
            raise Corrupt(
                f"the store cannot be read: {files.reason(error)}", hint="expdb fsck"
            ) from error
        raise Corrupt(
            f"cannot write to the remote {place.name}: {files.reason(error)}",
            hint=f"what arrived stays; it goes on with: expdb push {place.name}",
        ) from error


def _read_mark(path: Path) -> str | None:
    """Return the id of the remote in a folder; None where it is none."""
    try:
        is_there = stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - the error tells more
    except FileNotFoundError as error:
        raise NotFound(f"there is no folder {path}", hint=f"make it: mkdir -p {path}") from error
    except OSError as error:
        raise Corrupt(
            f"{path} cannot be used: {files.reason(error)}", hint=f"look: ls -ld {path}"
        ) from error
    if not is_there:
        raise Refused(f"{path} is a file, not a folder", hint="a remote is a folder")
    try:
        data = files.read_json(path / MARK)
    except FileNotFoundError:
        return None
    except ExpdbError as error:
        raise Corrupt(
            f"{path} is no sound remote: {error.message}", hint=f"the file: {path / MARK}"
        ) from error
    number, found = data.get("format"), data.get("remote")
    if isinstance(number, int) and number > FORMAT:
        raise Unsupported(
            f"the remote in {path} has format {number}; this expdb reads formats up to {FORMAT}",
            hint=f"it needs expdb {data.get('needs', '?')} or newer",
        )
    if not isinstance(found, str) or not is_id(found):
        raise Corrupt(f"{MARK} in {path} is damaged", hint=f"the file: {path / MARK}")
    return found


def _names(path: Path) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - names only
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Corrupt(
            f"{path} cannot be read: {files.reason(error)}", hint=f"look: ls -ld {path}"
        ) from error
