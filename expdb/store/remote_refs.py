"""Refs and ops of stores that share a remote: written there by each, mirrored here of the others.

    DIR/stores/<store id>/refs/<ref>.json  ops/<yyyymm>/<utc us>-<id>.json
    .expdb/refs/remotes/<remote>/<store id>/<ref>.json   of the others, as they were last pulled
    .expdb/refs/remotes/<remote>/<store id>/ops/<yyyymm>/...

Invariant: no ref of this store moves, and no op of another store is taken for one of this: those of
others are never undone here, and no ref is rebuilt from them. An op that is there never changes.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from expdb.errors import ExpdbError
from expdb.model import Ref
from expdb.store import ops, refs
from expdb.store.files import fsync_dir, read_regular, reason, write_bytes
from expdb.store.ids import PATTERN, is_id
from expdb.store.layout import StoreLayout, decode_name, encode_name
from expdb.store.remote_place import Place, is_folder, require_folder
from expdb.text import plain

FOLDER: Final = "remotes"
MONTH: Final = re.compile(r"[0-9]{6}")
OP: Final = re.compile(rf"[0-9]{{1,20}}-({PATTERN.pattern})\.json")
SHORT: Final = 4


@dataclass(slots=True)
class Mirrored:
    """What became of refs and ops."""

    refs: int = 0
    """New, moved or removed."""
    ops: int = 0
    refused: list[str] = field(default_factory=list)
    """What was not taken, with the reason."""


def push_refs(layout: StoreLayout, store_id: str, place: Place, runs: Collection[str]) -> Mirrored:
    """Write the refs of this store whose runs the remote has, and all its ops.

    Raises:
        Refused: a link stands where a folder has to be.
        OSError: the remote cannot be written.
    """
    out = Mirrored()
    home = place.stores / store_id
    for folder in (place.stores, home, home / "refs", home / "ops"):
        require_folder(folder)
    wanted = {path.name: path for path, ref in refs.read_ref_files(layout.refs) if ref.run in runs}
    out.refs = _mirror(wanted, home / "refs")
    for month in _months(layout.ops):
        new = [
            path
            for path in _op_files(month)
            if not (home / "ops" / month.name / path.name).is_file()
        ]
        if new:
            require_folder(home / "ops" / month.name)
        for path in new:
            _copy(path, home / "ops" / month.name / path.name)
            out.ops += 1
    return out


def pull_refs(layout: StoreLayout, store_id: str, place: Place) -> Mirrored:
    """Mirror the refs and ops of the other stores of a remote.

    Raises:
        OSError: this store cannot be written.
    """
    out = Mirrored()
    home = mirror_of(layout, place.name)
    others = {path.name: path for path in _folders(place.stores) if is_id(path.name)}
    others.pop(store_id, None)
    for name, path in others.items():
        target = home / name
        target.mkdir(parents=True, exist_ok=True)
        sound = dict(_sound_refs(path / "refs", f"stores/{name}/refs", out))
        out.refs += _mirror(sound, target)
        for month in _months(path / "ops"):
            _pull_ops(month, target / "ops" / month.name, f"stores/{name}/ops", out)
    for gone in _folders(home):
        if gone.name not in others and is_folder(place.root):
            out.refs += sum(1 for _ in gone.glob("*.json"))
            shutil.rmtree(gone)
    return out


def mirror_of(layout: StoreLayout, remote: str) -> Path:
    """Return the folder of what is known of a remote."""
    return layout.refs / FOLDER / encode_name(remote)


def pulled_remotes(layout: StoreLayout) -> list[str]:
    """Return the remotes of which a pull found refs; costs one failed look where there are none."""
    names = (decode_name(name) for name in _names(layout.refs / FOLDER))
    return [name for name in names if name is not None]


def forget_refs(layout: StoreLayout, remote: str) -> None:
    """Remove what is known of a remote; nothing in it was made here."""
    shutil.rmtree(mirror_of(layout, remote), ignore_errors=True)


def remote_refs(layout: StoreLayout, remote: str) -> list[tuple[str, Ref]]:
    """Return (store id, ref) of every ref of others that the last pull found."""
    found = []
    for folder in _folders(mirror_of(layout, remote)):
        for _, ref in refs.read_ref_files(folder):
            found.append((folder.name, ref))
    return found


def named_refs(layout: StoreLayout, remotes: Collection[str]) -> dict[str, Ref]:
    """Return the refs of others by the words that name them: `<remote>/<ref>` where all stores
    that have it agree, and `<remote>/<store>/<ref>` always, the store by the beginning of its id.
    """
    out: dict[str, Ref] = {}
    for remote in remotes:
        found = remote_refs(layout, remote)
        at: dict[str, set[tuple[str, int | None]]] = defaultdict(set)
        for _, ref in found:
            at[ref.name].add((ref.run, ref.step))
        for store, ref in found:
            names = [f"{remote}/{short_store(store, found)}/{ref.name}"]
            names += [f"{remote}/{ref.name}"] if len(at[ref.name]) == 1 else []
            out.update((name, replace(ref, name=name)) for name in names)
    return out


def short_store(store: str, found: Collection[tuple[str, Ref]]) -> str:
    """Return the beginning of the id of a store that no other of them has."""
    others = {other for other, _ in found if other != store}
    length = SHORT
    while any(other.startswith(store[:length]) for other in others):
        length += 1
    return store[:length]


def _sound_refs(folder: Path, where: str, out: Mirrored) -> Iterator[tuple[str, Path]]:
    """Yield (file name, path) of refs that may be taken; others are named."""
    for name in _names(folder):
        path = folder / name
        if name.startswith("."):
            continue
        try:
            ref = refs.read_ref_file(path)
            refs.check_name(ref.name)
            if name != f"{encode_name(ref.name)}.json":
                raise ValueError("it has another name inside")
        except (ExpdbError, OSError, ValueError) as error:
            out.refused.append(f"{where}/{plain(name)}: {_why(error)}")
            continue
        yield name, path


def _pull_ops(month: Path, target: Path, where: str, out: Mirrored) -> None:
    for path in _op_files(month):
        match = OP.fullmatch(path.name)
        try:
            op = ops.read_op_file(path)
            if match is None or op.id != match[1]:
                raise ValueError("it has another id inside")
            new = target / path.name
            if not new.is_file():
                target.mkdir(parents=True, exist_ok=True)
                _copy(path, new)
                out.ops += 1
            elif read_regular(new) != read_regular(path):
                raise ValueError("it was another when it was pulled, and an op never changes")
        except (ExpdbError, ValueError) as error:
            out.refused.append(f"{where}/{month.name}/{plain(path.name)}: {_why(error)}")


def _why(error: Exception) -> str:
    if isinstance(error, ExpdbError):
        return error.message
    return reason(error) if isinstance(error, OSError) else str(error)


def _mirror(wanted: dict[str, Path], folder: Path) -> int:
    """Let a folder hold the wanted ref files and no others; return how many changed."""
    changed = 0
    for name, path in wanted.items():
        data, here = read_regular(path), folder / name
        try:
            is_same = read_regular(here) == data
        except OSError:
            is_same = False
        if not is_same:
            write_bytes(here, data)
            changed += 1
    for name in _names(folder):
        if name.endswith(".json") and name not in wanted:
            (folder / name).unlink()
            changed += 1
    return changed


def _copy(path: Path, target: Path) -> None:
    write_bytes(target, read_regular(path))
    fsync_dir(target.parent)


def _months(folder: Path) -> list[Path]:
    return [path for path in _folders(folder) if MONTH.fullmatch(path.name)]


def _op_files(month: Path) -> list[Path]:
    return [month / name for name in _names(month) if OP.fullmatch(name)]


def _folders(folder: Path) -> list[Path]:
    """Return the real folders in a folder, sorted."""
    return [path for path in (folder / name for name in _names(folder)) if is_folder(path)]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names only
    except (FileNotFoundError, NotADirectoryError):
        return []
