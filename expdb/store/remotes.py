"""The remotes of a store: names of folders elsewhere that runs are pushed to and pulled from.

    .expdb/remotes.json   {"format", "needs", "remotes": {name: {"path", "id"}}}

Invariant: a path is absolute; `id` is that of the remote when it was named, so that another folder
under the same path (a disk that is not mounted) is never taken for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from expdb.errors import BadInput, Corrupt, NotFound, Refused, Unsupported
from expdb.model import FORMAT, NEEDS
from expdb.store import files
from expdb.store.ids import is_id
from expdb.store.layout import MAX_BYTES, StoreLayout
from expdb.store.refs import check_name

FILE: Final = "remotes.json"
ADD: Final = "expdb remote add NAME DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """One remote of a store."""

    name: str
    path: Path
    id: str


def check_remote_name(name: str) -> str:
    """Return `name` if a remote may have it.

    Raises:
        BadInput: no ref could be called so, or it holds a slash, or is too long.
    """
    check_name(name)
    if "/" in name or name.startswith("."):
        raise BadInput(
            f"{name[:80]} cannot be a remote: it holds a slash, or begins with a dot",
            hint="letters, digits and . _ - are fine",
        )
    if len(name.encode()) > MAX_BYTES:
        raise BadInput(f"the name of a remote has at most {MAX_BYTES} bytes")
    return name


def read_remotes(layout: StoreLayout) -> dict[str, Remote]:
    """Return the remotes by name, sorted.

    Raises:
        Corrupt: the file is damaged.
        Unsupported: a newer expdb wrote it.
    """
    path = layout.meta / FILE
    try:
        data = files.read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    number, found = data.get("format"), data.get("remotes")
    if isinstance(number, int) and number > FORMAT:
        raise Unsupported(
            f"{FILE} has format {number}; this expdb reads formats up to {FORMAT}",
            hint=f"it needs expdb {data.get('needs', '?')} or newer",
        )
    remotes: dict[str, Remote] = {}
    for name, item in sorted(found.items()) if isinstance(found, dict) else ():
        known = item if isinstance(item, dict) else {}
        place, remote_id = known.get("path"), known.get("id")
        if not (isinstance(place, str) and isinstance(remote_id, str)):
            raise Corrupt(f"{FILE} is damaged at `{name[:80]!a}`", hint=f"the file: {path}")
        remotes[name] = Remote(name=name, path=Path(place), id=remote_id)
    if not isinstance(found, dict):
        raise Corrupt(f"{FILE} is damaged at `remotes`", hint=f"the file: {path}")
    return remotes


def find_remote(layout: StoreLayout, name: str | None = None) -> Remote:
    """Return the remote called `name`; without a name the only one there is.

    Raises:
        NotFound: there is none called so, none at all, or several and no name.
    """
    remotes = read_remotes(layout)
    if name is not None and name in remotes:
        return remotes[name]
    if not remotes:
        raise NotFound("this store has no remote", hint=f"name a folder: {ADD}")
    said = ", ".join(remotes)
    if name is not None:
        raise NotFound(f"no remote is called {name[:80]}", hint=f"there is: {said}")
    if len(remotes) > 1:
        raise NotFound(f"which of {len(remotes)} remotes?", hint=f"one of: {said}")
    return next(iter(remotes.values()))


def add_remote(layout: StoreLayout, remote: Remote) -> None:
    """Keep a remote under its name.

    Raises:
        Refused: another folder has that name.
        Conflict: another process is at it.
    """
    with files.exclusive(layout.locks / "remotes.lock", what="the list of remotes"):
        there = read_remotes(layout)
        known = there.get(remote.name)
        if known is not None and known != remote:
            raise Refused(
                f"the remote {remote.name} is {known.path} already; nothing written",
                hint=f"take another name, or: expdb remote rm {remote.name}",
            )
        _write(layout, {**there, remote.name: remote})


def drop_remote(layout: StoreLayout, name: str) -> Remote:
    """Forget a remote, and return it; its folder stays as it is.

    Raises:
        NotFound: there is none.
        Conflict: another process is at it.
    """
    with files.exclusive(layout.locks / "remotes.lock", what="the list of remotes"):
        gone = find_remote(layout, name)
        there = read_remotes(layout)
        del there[name]
        _write(layout, there)
    return gone


def _write(layout: StoreLayout, remotes: dict[str, Remote]) -> None:
    body = {
        name: {"path": str(one.path), "id": one.id if is_id(one.id) else ""}
        for name, one in sorted(remotes.items())
    }
    files.write_json(layout.meta / FILE, {"format": FORMAT, "needs": NEEDS, "remotes": body})
