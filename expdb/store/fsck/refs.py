"""Checks of refs and ops, and refs rebuilt from ops.

The newest op that names a ref says where it is: an op is written before its ref is moved. A ref
whose own op is not among those that can be read is newer than all that is known, and stays.

Invariant: an op file is never touched, whatever it holds: it may be all that is known of a work
tree that is half rolled back.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from expdb.errors import BadInput, Conflict, Corrupt, Unsupported
from expdb.model import FORMAT, NEEDS, Op, Ref, RunAt
from expdb.store import files, ops, refs
from expdb.store.fsck.report import Checked, Finding, relative
from expdb.store.fsck.trash import Trash
from expdb.store.ids import is_id
from expdb.store.layout import StoreLayout
from expdb.store.trash import entries
from expdb.text import plain

AGAIN_S = 0.05
"""How long a ref that is just being moved may differ from its op."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Where the ops say that a ref is."""

    kind: str
    at: RunAt | None
    """None: it was removed."""
    op: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """One ref that is not what its op says."""

    name: str
    path: Path
    what: str
    is_missing: bool
    expected: Expected | None = None
    """None: no op names it, so that there is nothing to rebuild it from."""
    belongs_at: Path | None = None
    """Where a ref in a file of another name belongs."""


def expected_refs(found: Iterable[Op]) -> dict[str, Expected]:
    """Return where the refs are by the ops, oldest first."""
    out: dict[str, Expected] = {}
    for op in found:
        name, kind = op.after.get("ref"), op.after.get("kind")
        if op.phase != "whole" or not isinstance(name, str) or kind not in ("ref", "tag"):
            continue
        run, step = op.after.get("run"), op.after.get("step")
        if run is not None and not (isinstance(run, str) and is_id(run)):
            continue
        at = None if run is None else RunAt(run=run, step=step if isinstance(step, int) else None)
        out[name] = Expected(kind=kind, at=at, op=op.id)
    return out


def check_refs(layout: StoreLayout, runs: Collection[str]) -> Checked:
    """Return all that is wrong with refs and ops; `runs` are the ids that the store has."""
    out = Checked()
    problems: list[str] = []
    try:
        found = ops.read_ops(layout, problems=problems)
        there = refs.read_refs(layout, problems=[])
    except Unsupported as error:
        out.findings.append(Finding(kind="newer", what=error.message, path=".expdb"))
        return out
    out.counts.ops, out.counts.refs = len(found), len(there)
    out.counts.files = len(found) + len(problems) + len(_ref_files(layout))
    _note_ops(layout, found, problems, out)
    wrong = wrong_refs(layout)
    if wrong:
        time.sleep(AGAIN_S)
        wrong = wrong_refs(layout)
    for item in wrong:
        out.findings.append(
            Finding(
                kind="missing" if item.is_missing else "damaged",
                what=item.what,
                path=relative(item.path, layout.root),
                ref=item.name,
                can_mend=True,
            )
        )
    named = {item.name for item in wrong}
    for name, ref in sorted(there.items()):
        if ref.run not in runs and name not in named:
            where = "not in the store"
            if any(one.run == ref.run for one in entries(layout)):
                where = f"in the trash: expdb rm --restore {ref.run}"
            what = f"names run {ref.run}, which is {where}"
            path = relative(layout.ref(name), layout.root)
            out.findings.append(Finding(kind="missing", what=what, path=path, ref=name))
    return out


def wrong_refs(layout: StoreLayout) -> list[Wrong]:
    """Return the refs that are not what the ops say, by name.

    Raises:
        Unsupported: a newer expdb wrote a ref or an op.
    """
    there: dict[str, Ref] = {}
    bad: list[Wrong] = []
    for path in _ref_files(layout):
        found = _read(layout, path)
        if isinstance(found, Ref):
            there[found.name] = found
        elif found is not None:
            bad.append(found)
    # Read after the refs: a ref is moved behind its op.
    known = ops.read_ops(layout, problems=[])
    ids = {op.id for op in known}
    expected = expected_refs(known)
    out = []
    for item in bad:
        by_name = {_place(layout, name): name for name in expected}
        name = by_name.get(item.path, item.name)
        want = expected.get(name) if item.path in by_name else None
        out.append(replace(item, name=name, expected=want))
    taken = {item.path for item in bad}
    for name, want in expected.items():
        place = _place(layout, name)
        ref = there.get(name)
        if place is None or place in taken or (ref is not None and ref.op not in ids):
            continue
        now = None if ref is None else RunAt(run=ref.run, step=ref.step)
        if now == want.at and (ref is None or (ref.kind, ref.op) == (want.kind, want.op)):
            continue
        is_at = "is gone" if ref is None else f"is at {refs.say(now)}"
        what = f"{is_at}; its last op {want.op} says {refs.say(want.at)}"
        out.append(Wrong(name=name, path=place, what=what, is_missing=ref is None, expected=want))
    return sorted(out, key=lambda item: item.name)


def rebuild_refs(layout: StoreLayout, trash: Trash) -> None:
    """Write every ref that is wrong as its last op says; one that no op knows goes to the trash."""
    for _ in range(2):  # a ref that got its own file back may be another than its op says
        try:
            wrong = wrong_refs(layout)
        except Unsupported:
            return
        for item in wrong:
            lock = item.path.with_name(f"{item.path.name}.lock")
            try:
                with files.exclusive(lock, what=f"the ref {item.name}"):
                    _rebuild(layout, item, trash)
            except Conflict:
                continue  # it is being moved at this moment


def _rebuild(layout: StoreLayout, item: Wrong, trash: Trash) -> None:
    again = next((one for one in wrong_refs(layout) if one.path == item.path), None)
    if again is None:
        return
    want = again.expected
    if again.belongs_at is not None and not again.belongs_at.exists():
        item.path.rename(again.belongs_at)
        files.fsync_dir(layout.refs)
    elif want is None or want.at is None:
        trash.move(item.path)
    else:
        trash.copy(item.path)
        known = {"format": FORMAT, "needs": NEEDS, "name": again.name, "kind": want.kind}
        at = {"run": want.at.run, "step": want.at.step, "op": want.op}
        files.write_json(item.path, known | at)


def _read(layout: StoreLayout, path: Path) -> Ref | Wrong | None:
    """Return the ref in a file, what is wrong with it, or None where it is gone meanwhile."""
    name = path.name.removesuffix(".json")
    belongs_at = None
    try:
        told = files.read_json(path).get("name")
        place = _place(layout, told)
        if place == path:
            return refs.read_ref(layout, str(told))
        what = f"{path.name} holds no ref"
        if place is not None:
            what = f"{path.name} is not where the ref {plain(str(told))} belongs"
            belongs_at = place
    except Corrupt as error:
        what = error.message
    except FileNotFoundError:
        return None
    return Wrong(name=name, path=path, what=what, is_missing=False, belongs_at=belongs_at)


def _place(layout: StoreLayout, name: object) -> Path | None:
    """Return the file of a ref; None for what cannot be a name."""
    try:
        return layout.ref(name) if isinstance(name, str) else None
    except BadInput:
        return None


def _note_ops(layout: StoreLayout, found: list[Op], problems: list[str], out: Checked) -> None:
    paths = {path.name: path for path in layout.ops.glob("*/*.json")}
    for line in problems:
        name = line.removeprefix("the op file ").partition(" is damaged: ")[0]
        path = paths.get(name, layout.ops / name)
        what = line.partition(" is damaged: ")[2] or line
        out.findings.append(Finding(kind="damaged", what=what, path=relative(path, layout.root)))
    ended = {parent for op in found if op.phase in ("end", "abort") for parent in op.parents}
    for op in found:
        if op.phase == "begin" and op.id not in ended and _is_cut_off(op):
            place = next((p for n, p in paths.items() if n.endswith(f"-{op.id}.json")), layout.ops)
            what = f"{op.what or op.kind} stopped before its end: expdb rollback --continue"
            path_of = relative(place, layout.root)
            out.findings.append(Finding(kind="unfinished", what=what, path=path_of))


def _is_cut_off(op: Op) -> bool:
    """Tell whether the work tree of an op still waits for its end, and nobody is at it."""
    git_dir = Path(op.work_tree)
    try:
        marker = ops.read_marker(git_dir)
        return marker is not None and marker.op == op.id and not ops.is_held(git_dir)
    except (Corrupt, OSError):
        return False  # the verbs of that work tree say so


def _ref_files(layout: StoreLayout) -> list[Path]:
    try:
        paths = sorted(path for path in layout.refs.iterdir() if path.name.endswith(".json"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for path in paths if not path.name.startswith(".tmp-")]
