"""`expdb rm --restore`: runs out of the trash, and the undo of either move.

Invariant: a run that is in the store is never written over.
"""

from __future__ import annotations

from collections.abc import Sequence

from expdb import text
from expdb.actions.results import RemoveResult
from expdb.actions.rm import put_all, trash_op
from expdb.actions.unfinished import require_finished
from expdb.actions.writing import writing
from expdb.errors import Ambiguous, BadInput, NotFound, Refused
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Op
from expdb.store import ops, trash
from expdb.store.resolve import MIN_PREFIX
from expdb.store.runs import find_run_dir
from expdb.store.store import Store
from expdb.store.trash import Trashed


def restore(
    reader: Reader, words: Sequence[str] = (), *, worktree: WorkTree | None = None
) -> RemoveResult:
    """Bring runs back from the trash, and write one op: those named, else all that went last.

    A word is a run, by the beginning of its id or by its name, or an op of `rm`.

    Raises:
        NotFound: nothing in the trash is called so, or it is empty.
        Ambiguous: several runs are.
        Refused: a run of that id is in the store, or an op of this work tree was cut off.
    """
    store = reader.store
    if worktree is not None:
        require_finished(worktree, store)
    there = trash.entries(store.layout)
    if not there:
        raise NotFound("the trash is empty", hint="expdb ls")
    found = _named(there, words) if words else [one for one in there if one.op == there[0].op]
    cells = reader.id_length
    one = f"{text.short_id(found[0].run, cells)} {found[0].name}"
    what = f"rm --restore {one}" if len(found) == 1 else f"rm --restore of {len(found):,} runs"
    op = trash_op("restore", what, [one.run for one in found], into=False, worktree=worktree)
    kept = take_all(store, found, op)
    return RemoveResult(
        op=op.id,
        into=False,
        kept=kept,
        runs=tuple((one.run, one.name) for one in found),
        bytes=sum(one.bytes for one in found),
    )


def undo_removal(reader: Reader, op: Op, worktree: WorkTree | None) -> tuple[Op, str]:
    """Take back an `rm` or an `rm --restore`; return the undo's op, and what was done in words.

    Raises:
        Refused: nothing of it can be taken back, or something stands in its way.
    """
    store = reader.store
    back = bool(op.after["trash"])
    runs = [str(run) for run in (*op.before["trash"], *op.after["trash"])]
    there: dict[str, Trashed] = {}
    for one in trash.entries(store.layout):  # of several of one id that which this op moved
        if one.op == op.id or one.run not in there:
            there[one.run] = one
    here = [run for run in runs if run not in there and _is_here(store, run)]
    if not here and not any(run in there for run in runs):
        raise Refused(
            f"what op {op.id} moved is neither in the trash nor in the store", hint="expdb ops"
        )
    moved = [run for run in runs if run in there] if back else here
    undo = trash_op(
        "undo", f"undo of {op.id[:4]}", moved, into=not back, worktree=worktree, undoes=op.id
    )
    if not back:
        put_all(store, moved, undo, worktree, id_cells=reader.id_length)
        again = "" if op.kind == "pull" else " again"
        return undo, f"{_runs(len(moved))} in the trash{again}"
    kept = take_all(store, [there[run] for run in moved], undo)
    return undo, ", ".join(
        f"{_runs(number)} {what}"
        for number, what in (
            (len(moved) - len(kept), "restored"),
            (len(kept), "in the store again already, byte for byte"),
        )
        if number
    )


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number:,} runs"


def take_all(store: Store, found: Sequence[Trashed], op: Op) -> tuple[str, ...]:
    """Write an op, and move its runs out of the trash; return those that the store has already.

    Of these the copy in the trash, which is the same byte for byte, is dropped.

    Raises:
        Refused: another run of one of the ids is in the store; nothing was written.
        Corrupt: the store cannot be written.
    """
    with writing(store):
        kept = tuple(one.run for one in found if _is_here_too(store, one))
        ops.write_op(store.layout, op)
        for one in found:
            if one.run in kept:
                trash.drop(store.layout, one)
            else:
                trash.take_out(store.layout, one)
    return kept


def _is_here_too(store: Store, entry: Trashed) -> bool:
    """Tell whether the store has a run of the trash again.

    Raises:
        Refused: it has another one of that id.
    """
    try:
        folder = find_run_dir(store.root, entry.run)
    except NotFound:
        return False
    where = trash.difference(store.layout, entry, folder)
    if where:
        raise Refused(
            f"run {entry.run} is in the store again, and its {text.plain(where)} is not that of the"
            " one in the trash; nothing written",
            hint=f"to have the older one, remove the newer one first: expdb rm {entry.run}, then"
            f" expdb rm --restore {entry.op or entry.run}",
        )
    return True


def _is_here(store: Store, run: str) -> bool:
    try:
        find_run_dir(store.root, run)
    except NotFound:
        return False
    return True


def _named(there: Sequence[Trashed], words: Sequence[str]) -> list[Trashed]:
    """Return the runs of the trash that words name, each once."""
    found: dict[str, Trashed] = {}
    for word in words:
        for one in _matching(there, word):
            if found.setdefault(one.run, one) != one:
                raise Ambiguous(
                    f"{text.plain(word)} names another copy of run {one.run} than another word",
                    hint="restore one of them: expdb rm --list",
                )
    return list(found.values())


def _matching(there: Sequence[Trashed], word: str) -> list[Trashed]:
    if not word:
        raise BadInput("a run is named by a word", hint="expdb rm --list")
    is_long = len(word) >= MIN_PREFIX
    by_id = [one for one in there if is_long and one.run.startswith(word)]
    by_op = [one for one in there if is_long and one.op.startswith(word)]
    by_name = [one for one in there if one.name == word]
    if by_id or by_name:
        found = by_id or by_name
        if len(found) > 1:
            raise Ambiguous(
                f"{text.plain(word)} names {len(found):,} runs of the trash",
                details=tuple(
                    f"{one.run}  {text.plain(one.name)}  op {one.op or 'unknown'}"
                    for one in found[:20]
                ),
                hint="name one by its id, or an op: expdb rm --list",
            )
        return found
    if not by_op:
        raise NotFound(f"nothing in the trash is called {text.plain(word)}", hint="expdb rm --list")
    if len({one.op for one in by_op}) > 1:
        raise Ambiguous(f"{text.plain(word)} begins several op ids", hint="expdb rm --list")
    return by_op
