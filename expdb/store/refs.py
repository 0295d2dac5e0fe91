"""Refs and tags: one small JSON file each, `.expdb/refs/<encoded name>.json`.

    {"format": 1, "needs": "0.1.0", "name": "baseline", "kind": "ref",
     "run": "k3f9x2m7qd", "step": null, "op": "b0v4k8s2m1"}

Invariant: a ref moves only under `<file>.lock`, only if it still equals what the mover saw, and
only with an op, which is written first: `fsck` can rebuild every ref from the ops. A tag is made
and removed, never moved.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from expdb.errors import BadInput, Conflict, Corrupt, Unsupported
from expdb.model import FORMAT, NEEDS, Ref, RunAt
from expdb.store import files
from expdb.store.ids import is_id
from expdb.store.layout import StoreLayout

if TYPE_CHECKING:
    from expdb.model import Op

KEYWORDS = frozenset({"head", "best", "last", "prev", "parent", "all", "none"})
"""Words of the RUN grammar, in any case of letters."""


def check_name(name: str) -> str:
    """Return `name` if a ref or a tag may have it.

    Raises:
        BadInput: it is empty, a keyword, an id, begins with a dash, or holds `:`, `@`, a space or a
            control character.
    """
    if not name:
        raise BadInput("a name is empty")
    if name.lower() in KEYWORDS:
        raise BadInput(f"{name} cannot be a name: it is a word of the RUN grammar")
    if is_id(name):
        raise BadInput(f"{name} cannot be a name: it has the form of a run id")
    if name.startswith("-"):
        raise BadInput(f"{name} cannot be a name: it begins with a dash, like an option")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BadInput(f"the name {name[:80]!a} is not UTF-8 text") from None
    for bad in name:
        if bad not in ":@" and bad.isprintable() and not bad.isspace():
            continue
        shown = bad if bad in ":@" else "a space" if bad == " " else f"\\x{ord(bad):02x}"
        raise BadInput(f"a name cannot hold {shown}", hint="letters, digits and . _ - + / are fine")
    return name


def read_refs(layout: StoreLayout, *, problems: list[str] | None = None) -> dict[str, Ref]:
    """Return every local ref and tag by its true name.

    A damaged file is named in `problems`, and the rest is returned; without such a list it raises.

    Raises:
        Corrupt: a file is damaged, and no `problems` was given.
        Unsupported: a file was written by a newer expdb.
    """
    refs: dict[str, Ref] = {}
    try:
        paths = sorted(path for path in layout.refs.iterdir() if path.name.endswith(".json"))
    except FileNotFoundError:
        return refs
    for path in paths:
        if path.name.startswith(".tmp-"):
            continue
        try:
            ref = _read(path)
        except FileNotFoundError:  # removed by another process since the listing
            continue
        except Corrupt as error:
            if problems is None:
                raise
            problems.append(f"the ref file {path.name} is damaged: {error.message}")
            continue
        refs[ref.name] = ref
    return refs


def read_ref_files(folder: Path) -> list[tuple[Path, Ref]]:
    """Return (path, ref) of every ref file that reads, in a store's folder of them or another."""
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.endswith(".json") and not path.name.startswith("."):
            try:
                found.append((path, _read(path)))
            except (Corrupt, Unsupported, FileNotFoundError):
                continue  # named by who reads the refs of the store
    return found


def read_ref_file(path: Path) -> Ref:
    """Return the ref in a file, which need not be of this store.

    Raises:
        Corrupt, Unsupported, FileNotFoundError: it holds none.
    """
    return _read(path)


def read_ref(layout: StoreLayout, name: str) -> Ref | None:
    """Return one ref, or None where there is none.

    Raises:
        Corrupt: its file is damaged.
    """
    try:
        return _read(layout.ref(name))
    except FileNotFoundError:
        return None


def move_ref(
    layout: StoreLayout,
    name: str,
    kind: Literal["ref", "tag"],
    *,
    before: RunAt | None,
    after: RunAt | None,
    op: Op,
) -> None:
    """Move `name` from `before` to `after` (None: does not exist) and write `op`, the record of it.

    Safe with any number of processes: of two that saw the same value, one wins.

    Raises:
        BadInput: the name cannot be one.
        Conflict: it is elsewhere than `before`, or it is a tag, or another process is moving it.
    """
    from expdb.store.ops import write_op

    check_name(name)
    path = layout.ref(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.exclusive(path.with_name(f"{path.name}.lock"), what=f"the ref {name}"):
        now = read_ref(layout, name)
        if now is not None and now.kind != kind:
            raise Conflict(f"{name} is a {now.kind}, not a {kind}")
        at = None if now is None else RunAt(run=now.run, step=now.step)
        if kind == "tag" and at is not None and after is not None:
            raise Conflict(
                f"the tag {name} exists: {say(at)}; a tag never moves", hint="take another name"
            )
        if at != before:
            raise Conflict(
                f"{name} was moved meanwhile: it is at {say(at)}, not at {say(before)};"
                " nothing written",
                hint="look again: expdb ops",
            )
        write_op(layout, op)
        if after is None:
            path.unlink(missing_ok=True)
            files.fsync_dir(path.parent)
            return
        kept = files.read_json(path) if now is not None else {}
        known = {"format": FORMAT, "needs": NEEDS, "name": name, "kind": kind}
        files.write_json(path, kept | known | {"run": after.run, "step": after.step, "op": op.id})


def say(at: RunAt | None) -> str:
    """Return `run`, `run@step` or `none`."""
    if at is None:
        return "none"
    return at.run if at.step is None else f"{at.run}@{at.step}"


def _read(path: Path) -> Ref:
    data = files.read_json(path)
    number = data.get("format")
    if isinstance(number, int) and number > FORMAT:
        raise Unsupported(
            f"the ref file {path.name} has format {number}; this expdb reads up to {FORMAT}",
            hint=f"it needs expdb {data.get('needs', '?')} or newer",
        )
    if not _is_ref(data):
        raise Corrupt(f"{path.name} holds no ref", hint=f"the file: {path}")
    return Ref(**{key: data[key] for key in ("name", "kind", "run", "step", "op")})


def _is_ref(data: dict[str, Any]) -> bool:
    step = data.get("step", "")
    return (
        isinstance(data.get("name"), str)
        and bool(data["name"])
        and data.get("kind") in ("ref", "tag")
        and isinstance(data.get("run"), str)
        and is_id(data["run"])
        and (step is None or (isinstance(step, int) and not isinstance(step, bool)))
        and isinstance(data.get("op"), str)
    )
