"""Ops: one immutable JSON file each, `.expdb/ops/<yyyymm>/<utc us>-<id>.json`.

Invariant: an op file is created whole and never changed. File names sort by time and grow: a clock
that was set back does not put an op before one that exists. A change of a work tree is two ops,
begin and end or abort; from before the first to after the second `<git dir>/expdb/UNFINISHED`
names it, and whoever writes holds `<git dir>/expdb/lock`:

    {"format": 1, "op": id, "store": absolute root, "kind", "what", "created_at_ms"}
"""

from __future__ import annotations

import getpass
import os
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from expdb.errors import Corrupt, Refused, Unsupported
from expdb.model import FORMAT, NEEDS, Op
from expdb.store import files, owner
from expdb.store.ids import is_id
from expdb.store.layout import StoreLayout
from expdb.store.locate import MARKER as MARKER

PHASES = ("whole", "begin", "end", "abort")


class StoreGone(Refused):
    """The store that holds an op which was cut off in this work tree is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The op of a work tree that has begun and not ended."""

    op: str
    store: str
    kind: str
    what: str
    created_at_ms: int


def now_ms() -> int:
    """Return the time as ops record it."""
    return time.time_ns() // 1_000_000


def who() -> str:
    """Return the user's login name, or empty where there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""


def host() -> str:
    """Return the name of this host."""
    return socket.gethostname()


def write_op(layout: StoreLayout, op: Op) -> Path:
    """Create the file of `op`; it is durable on return.

    Raises:
        FileExistsError: an op of that id and time exists.
    """
    stamp_us = max(time.time_ns() // 1000, _newest_us(layout) + 1)
    month = datetime.fromtimestamp(stamp_us / 1e6, UTC).strftime("%Y%m")
    path = layout.ops / month / f"{stamp_us}-{op.id}.json"
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        files.fsync_dir(layout.ops)
    files.create_bytes(path, files.encode_json(_encode(op)))
    return path


def read_ops(layout: StoreLayout, *, problems: list[str] | None = None) -> list[Op]:
    """Return every op, oldest first; a damaged file is named in `problems` and skipped.

    Raises:
        Corrupt: a file is damaged, and no `problems` was given.
        Unsupported: an op was written by a newer expdb.
    """
    found = []
    for path in _op_paths(layout):
        try:
            found.append(_read(path))
        except FileNotFoundError:
            continue
        except Corrupt as error:
            if problems is None:
                raise
            problems.append(f"the op file {path.name} is damaged: {error.message}")
    return found


def read_op_file(path: Path) -> Op:
    """Return the op in a file, which need not be of this store.

    Raises:
        Corrupt, Unsupported, FileNotFoundError: it holds none.
    """
    return _read(path)


def mark_unfinished(git_dir: Path, marker: Marker) -> None:
    """Create the mark of an op of this work tree.

    Raises:
        FileExistsError: another op is under way in this work tree, or was cut off.
    """
    path = marker_path(git_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {name: getattr(marker, name) for name in Marker.__dataclass_fields__}
    files.create_bytes(path, files.encode_json({"format": FORMAT, **body}))


def clear_unfinished(git_dir: Path, op: str) -> None:
    """Remove the mark of `op`, and no other."""
    path = marker_path(git_dir)
    try:
        if files.read_json(path).get("op") == op:
            _remove_marker(path, op)
    except FileNotFoundError:
        pass


def marker_path(git_dir: Path) -> Path:
    """Return the file of the mark."""
    return git_dir / "expdb" / MARKER


def lock_path(git_dir: Path) -> Path:
    """Return the lock that is held by whoever changes this work tree."""
    return git_dir / "expdb" / "lock"


def is_held(git_dir: Path) -> bool:
    """Tell whether a process that may be alive is changing this work tree now."""
    try:
        return not owner.is_dead(files.read_json(lock_path(git_dir)))
    except (FileNotFoundError, NotADirectoryError):
        return False


def read_marker(git_dir: Path) -> Marker | None:
    """Return the mark of this work tree, or None.

    Raises:
        Corrupt: the file is damaged.
    """
    path = marker_path(git_dir)
    try:
        data = files.read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    op, store = data.get("op"), data.get("store")
    if not isinstance(op, str) or not isinstance(store, str):
        raise Corrupt(f"{path.name} names no op", hint=f"the file: {path}")
    return Marker(
        op=op,
        store=store,
        kind=str(data.get("kind", "")),
        what=str(data.get("what", "")),
        created_at_ms=int(data.get("created_at_ms", 0)),
    )


def find_unfinished(git_dir: Path, layout: StoreLayout, *, holding: bool = False) -> Op | None:
    """Return the begin-op that was cut off, or is under way, in this work tree.

    None costs one failed `open`. A mark whose op never began (nothing was written), or has ended,
    is removed. An op under way whose begin is not yet written has empty `before` and `after`.
    `holding` says that the caller has the lock.

    Raises:
        Corrupt: the mark, or the op it names, is damaged.
        StoreGone: its store is not there, so that nobody can say what it did.
    """
    marker = read_marker(git_dir)
    if marker is None:
        return None
    begin, ended = find_phases(layout, marker.op)
    known = marker.store == str(layout.root.resolve())
    if begin is None and not ended and not known:  # another store, or this one before it was moved
        other = StoreLayout(Path(marker.store))
        known = other.store_json.exists()
        begin, ended = find_phases(other, marker.op)
    if ended or (begin is None and known and (holding or not is_held(git_dir))):
        clear_unfinished(git_dir, marker.op)
        return None
    if begin is not None:
        return begin
    if not known:
        raise StoreGone(
            f"{marker.what or marker.kind} was cut off in this work tree, and the store that knows"
            f" how far it came is not there: {marker.store}",
            hint=(
                "bring it back; or, if it was moved: expdb --store DIR rollback --continue",
                f"leave the files as they are:         rm {marker_path(git_dir)}",
            ),
        )
    return Op(
        id=marker.op,
        kind=marker.kind,
        phase="begin",
        created_at_ms=marker.created_at_ms,
        what=marker.what,
        work_tree=str(git_dir),
    )


def layout_of(op: str, git_dir: Path, layout: StoreLayout) -> StoreLayout:
    """Return the store that holds the begin-op of the mark: `layout`, else the one it names."""
    marker = read_marker(git_dir)
    if marker is None or marker.op != op or find_phases(layout, op)[0] is not None:
        return layout
    other = StoreLayout(Path(marker.store))
    return other if find_phases(other, op)[0] is not None else layout


def find_phases(layout: StoreLayout, op: str) -> tuple[Op | None, bool]:
    """Return the begin-op of that id, and whether an end or an abort of it exists."""
    # An end comes after its begin, so that the search from the newest may stop at the begin.
    for path in reversed(_op_paths(layout)):
        if path.name.endswith(f"-{op}.json"):
            return _read(path), False
        try:
            found = _read(path)
        except (Corrupt, FileNotFoundError):  # of another op; `fsck` names it
            continue
        if found.phase in ("end", "abort") and op in found.parents:
            return None, True
    return None, False


def _op_paths(layout: StoreLayout) -> list[Path]:
    try:
        months = sorted(path for path in layout.ops.iterdir() if path.name.isdigit())
    except FileNotFoundError:
        return []
    paths: list[Path] = []
    for month in months:
        names = (path for path in month.iterdir() if path.name.endswith(".json"))
        paths += sorted((path for path in names if not path.name.startswith(".")), key=_sort_key)
    return paths


def _sort_key(path: Path) -> tuple[int, str]:
    stamp, _, rest = path.name.partition("-")
    return (int(stamp) if stamp.isdigit() else 0, rest)


def _newest_us(layout: StoreLayout) -> int:
    try:
        newest = max((path for path in layout.ops.iterdir() if path.name.isdigit()), default=None)
    except FileNotFoundError:
        return 0
    if newest is None:
        return 0
    return max((_sort_key(path)[0] for path in newest.iterdir()), default=0)


def _remove_marker(path: Path, op: str) -> None:
    # The mark may have been replaced since it was read: move it away, put back another's.
    aside = path.with_name(f".tmp-{MARKER}-{os.urandom(4).hex()}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return
    if files.read_json(aside).get("op") != op:
        os.link(aside, path)
    aside.unlink()
    files.fsync_dir(path.parent)


def _encode(op: Op) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "needs": NEEDS,
        "id": op.id,
        "kind": op.kind,
        "phase": op.phase,
        "created_at_ms": op.created_at_ms,
        "parents": list(op.parents),
        "what": op.what,
        "before": dict(op.before),
        "after": dict(op.after),
        "undoes": op.undoes,
        "who": op.who,
        "host": op.host,
        "work_tree": op.work_tree,
    }


def _read(path: Path) -> Op:
    data = files.read_json(path)
    number = data.get("format")
    if isinstance(number, int) and number > FORMAT:
        raise Unsupported(
            f"the op file {path.name} has format {number}; this expdb reads formats up to {FORMAT}",
            hint=f"it needs expdb {data.get('needs', '?')} or newer",
        )
    texts = [data.get(key) for key in ("id", "kind", "what", "who", "host", "work_tree")]
    parents, before, after = data.get("parents"), data.get("before"), data.get("after")
    fits = (
        all(isinstance(text, str) for text in texts)
        and is_id(str(data["id"]))
        and data.get("phase") in PHASES
        and isinstance(data.get("created_at_ms"), int)
        and isinstance(parents, list)
        and isinstance(before, dict)
        and isinstance(after, dict)
        and isinstance(data.get("undoes"), str | None)
    )
    if not fits:
        raise Corrupt(f"{path.name} holds no op", hint=f"the file: {path}")
    fields = {key: value for key, value in data.items() if key in Op.__dataclass_fields__}
    return Op(**cast("dict[str, Any]", fields | {"parents": tuple(parents or ())}))
