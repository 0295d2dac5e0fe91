"""What a run in one place has beyond the same run in another: the plan of an update.

Invariant: nothing is written here. Sealed files are the same on both sides or the plan is refused
as a whole; a run that went on grew by attempts, checkpoints, evaluations, media, artifacts and
lines, and by nothing else. Only one of the two sides can have gone on.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from expdb.errors import Refused
from expdb.store import checkpoints
from expdb.store.files import read_regular
from expdb.store.layout import RunLayout
from expdb.store.parts import PartEntry, read_list
from expdb.store.run_files import Files, are_same, begins_with
from expdb.store.run_parted import Sides, parted, require_one_life
from expdb.text import plain

Kind = Literal["sealed", "part", "list", "checkpoint", "lines", "log", "derived", "other"]

KINDS: Final[tuple[tuple[re.Pattern[str], Kind], ...]] = (
    (re.compile(r"run\.json|artifacts/.+|evals/.+|media/.+"), "sealed"),
    (re.compile(r"attempts/\d+/(pin|owner|monitor|rank-\d+\.owner)\.json"), "sealed"),
    (re.compile(r"points/.+"), "part"),
    (re.compile(r"attempts/\d+/rank-\d+\.json"), "list"),
    (re.compile(r"checkpoints/step=\d+/.+"), "checkpoint"),
    (re.compile(r"(marks|events|artifacts)\.jsonl"), "lines"),
    (re.compile(r"attempts/\d+/log\.txt"), "log"),
    (re.compile(r"(status|series)\.json|curves\.parquet"), "derived"),
    (re.compile(r"attempts/\d+/(live|rank-\d+\.series)\.json"), "derived"),
)  # fmt: skip
ATTEMPT: Final = re.compile(r"attempts/([1-9]\d*)/.+")
CHECKPOINT: Final = re.compile(r"checkpoints/step=(\d{1,18})/.+")


@dataclass(slots=True)
class Update:
    """What an update brings; paths are those below the run folder."""

    files: list[str] = field(default_factory=list)
    """New files that nothing names before others are there."""
    parts: list[str] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    lines: dict[str, bytes] = field(default_factory=dict)
    """File -> the lines to append."""
    logs: list[str] = field(default_factory=list)
    is_ahead: bool = False
    """It went on here: status and summaries come along."""
    is_behind: bool = False
    """It went on there."""
    kept: list[str] = field(default_factory=list)
    """Files that are not expdb's and differ: they stay as they are there."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to bring."""
        brought = (self.files, self.parts, self.checkpoints, self.attempts, self.lists)
        return not (any(brought) or self.lines or self.logs)


def kind_of(path: str) -> Kind:
    """Return how a file of a run may change."""
    return next((kind for pattern, kind in KINDS if pattern.fullmatch(path)), "other")


def plan_update(
    src: RunLayout,
    dst: RunLayout,
    ours: Files,
    theirs: Files,
    *,
    wants_old_checkpoints: bool,
    sides: Sides,
) -> Update:
    """Return what `src` has beyond `dst`, with the files of both as they were listed.

    `wants_old_checkpoints` brings those of attempts that `dst` knows too: else they were removed
    there.

    Raises:
        Refused: sealed content differs, or both sides went on; names the file.
        Corrupt: a list or a manifest cannot be read; OSError: as any file.
    """
    out = Update()
    known = _attempts(theirs)
    mine = _attempts(ours)
    out.attempts = sorted(mine - known)
    missing_there = known - mine
    require_one_life(src, dst, ours, theirs, mine & known, sides)
    by_kind: dict[Kind, list[str]] = {}
    for path in ours:
        if path in theirs or not _is_of(path, out.attempts):
            by_kind.setdefault(kind_of(path), []).append(path)
    _check_sealed(src, dst, ours, theirs, by_kind.get("sealed", ()), out)
    is_less = _compare_lists(src, dst, ours, theirs, out)
    _compare_parts(src, dst, ours, theirs, out)
    _compare_checkpoints(
        src, dst, ours, theirs, out, lambda attempt: wants_old_checkpoints or attempt not in known
    )
    for path in by_kind.get("lines", ()):
        found = _missing_lines(src, dst, path, is_there=path in theirs)
        if found:
            out.lines[path] = found
    _compare_rest(src, dst, ours, theirs, by_kind, out)
    out.is_ahead = bool(out.attempts or out.lists)
    out.is_behind = bool(missing_there or is_less)
    if out.is_ahead and out.is_behind:
        raise parted(src, dst, max(mine, default=1), max(known, default=1), sides)
    return out


def _attempts(found: Iterable[str]) -> set[int]:
    return {int(match[1]) for path in found if (match := ATTEMPT.fullmatch(path))}


def _is_of(path: str, attempts: Iterable[int]) -> bool:
    match = ATTEMPT.fullmatch(path)
    return match is not None and int(match[1]) in attempts


def _differs(path: str) -> Refused:
    return Refused(f"{plain(path)} is not the same in both places")


def _check_sealed(
    src: RunLayout, dst: RunLayout, ours: Files, theirs: Files, paths: Iterable[str], out: Update
) -> None:
    for path in paths:
        if path not in theirs:
            out.files.append(path)
        elif not are_same(src.root / path, dst.root / path, ours[path], theirs[path]):
            raise _differs(path)


def _compare_lists(src: RunLayout, dst: RunLayout, ours: Files, theirs: Files, out: Update) -> bool:
    """Find the lists of parts to bring; tell whether one of `dst` has more."""
    is_less = False
    for path in sorted({*ours, *theirs}):
        if kind_of(path) != "list":
            continue
        mine = read_list(src.root / path) if path in ours else ()
        other = read_list(dst.root / path) if path in theirs else ()
        if _frames(mine) == _frames(other):
            if sum(one.num_points for one in mine) != sum(one.num_points for one in other):
                raise _differs(path)
        elif set(mine) > set(other):
            if not _is_of(path, out.attempts):
                out.lists.append(path)
        elif set(mine) < set(other):
            is_less = True
        else:
            raise _differs(path)
    return is_less


def _frames(entries: Iterable[PartEntry]) -> list[tuple[int, int]]:
    """Return the ranges of frames that parts have, those that follow each other as one."""
    found: list[tuple[int, int]] = []
    for one in entries:
        if found and found[-1][1] + 1 == one.first_seq:
            found[-1] = (found[-1][0], one.last_seq)
        else:
            found.append((one.first_seq, one.last_seq))
    return found


def _compare_parts(src: RunLayout, dst: RunLayout, ours: Files, theirs: Files, out: Update) -> None:
    """Find the parts that the new lists name, or those of `dst` that are missing there; compare
    those that both sides have.
    """
    wanted: set[str] = set()
    for path in theirs:
        if kind_of(path) == "list":
            wanted |= {f"points/{one.file}" for one in read_list(dst.root / path)}
    for path in ours:
        if kind_of(path) == "list" and (path in out.lists or _is_of(path, out.attempts)):
            wanted |= {f"points/{one.file}" for one in read_list(src.root / path)}
    for path in ours:
        if kind_of(path) != "part":
            continue
        if path in theirs:
            if not are_same(src.root / path, dst.root / path, ours[path], theirs[path]):
                raise _differs(path)
        elif path in wanted:
            out.parts.append(path)


def _compare_checkpoints(
    src: RunLayout,
    dst: RunLayout,
    ours: Files,
    theirs: Files,
    out: Update,
    is_wanted: Callable[[int], bool],
) -> None:
    new = set(out.attempts)
    for step in sorted(_steps(ours)):
        mine = [path for path in ours if _step_of(path) == step]
        if step not in _steps(theirs):
            if is_wanted(_attempt_of(src, step)):
                out.checkpoints.append(step)
            continue
        manifest = f"checkpoints/step={step}/{checkpoints.MANIFEST}"
        if _is_equal(src, dst, manifest, ours, theirs):
            # The manifest has the sums: sizes are enough.
            wrong = next((p for p in mine if p in theirs and ours[p].size != theirs[p].size), None)
            out.files += [path for path in mine if path not in theirs]
        elif _attempt_of(src, step) in new:
            out.checkpoints.append(step)  # a later attempt has saved this step again
            continue
        elif _attempt_of(dst, step) not in _attempts(ours):
            continue
        else:
            wrong = manifest
        if wrong is not None:
            raise _differs(wrong)


def _steps(found: Iterable[str]) -> set[int]:
    return {step for path in found if (step := _step_of(path)) is not None}


def _step_of(path: str) -> int | None:
    match = CHECKPOINT.fullmatch(path)
    return None if match is None else int(match[1])


def _attempt_of(layout: RunLayout, step: int) -> int:
    return checkpoints.read_manifest(layout, step).attempt


def _is_equal(src: RunLayout, dst: RunLayout, path: str, ours: Files, theirs: Files) -> bool:
    if path not in ours or path not in theirs:
        return path not in ours and path not in theirs
    return are_same(src.root / path, dst.root / path, ours[path], theirs[path])


def _missing_lines(src: RunLayout, dst: RunLayout, path: str, *, is_there: bool) -> bytes:
    """Return the whole lines of one file that another lacks, in their order.

    A line that is no JSON object is left where it is, unless the other place has none at all.
    """
    mine = read_regular(src.root / path)
    if not is_there:
        return mine
    there = Counter(read_regular(dst.root / path).split(b"\n"))
    found = []
    for line in mine.split(b"\n"):
        if there[line]:
            there[line] -= 1
        elif _is_object(line):
            found.append(line + b"\n")
    return b"".join(found)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _compare_rest(
    src: RunLayout,
    dst: RunLayout,
    ours: Files,
    theirs: Files,
    by_kind: dict[Kind, list[str]],
    out: Update,
) -> None:
    for path in by_kind.get("log", ()):
        if path not in theirs:
            out.files.append(path)
        elif not are_same(src.root / path, dst.root / path, ours[path], theirs[path]):
            less = min(ours[path].size, theirs[path].size)
            if not begins_with(src.root / path, dst.root / path, less):
                out.kept.append(path)
            elif ours[path].size > less:
                out.logs.append(path)
    for path in by_kind.get("other", ()):
        if path not in theirs:
            out.files.append(path)
        elif not are_same(src.root / path, dst.root / path, ours[path], theirs[path]):
            out.kept.append(path)
    out.files += [
        path
        for path in by_kind.get("derived", ())
        if path not in theirs and path.startswith("attempts/")
    ]
