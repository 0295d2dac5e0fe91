"""`expdb note`: lines of text on one run."""

from __future__ import annotations

from expdb.actions.marks import mark
from expdb.actions.naming import named
from expdb.actions.results import MarkResult
from expdb.actions.unfinished import require_finished
from expdb.errors import BadInput
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.redact import Redactor
from expdb.store.resolve import Resolved
from expdb.text import cut_end, plain

MAX_BYTES = 64 * 1024
SHOWN_CELLS = 40


def add_note(
    reader: Reader,
    resolved: Resolved,
    text: str,
    *,
    worktree: WorkTree | None = None,
    redactor: Redactor | None = None,
) -> MarkResult:
    """Add a note to a run without secrets that can be told, and write one op.

    Raises:
        BadInput: the note is empty, too long, or no text.
        Refused: an op of this work tree was cut off.
    """
    said = (redactor or Redactor()).text(_checked(text))
    if worktree is not None:
        require_finished(worktree, reader.store)
    run = reader.run(resolved.run)
    shown = cut_end(plain(said.split("\n")[0]), SHOWN_CELLS)
    op = mark(
        reader.store,
        kind="note",
        text=said,
        runs=[run.id],
        what=f"note on {named(run, reader.id_length)}: {shown}",
        worktree=worktree,
    )
    return MarkResult(kind="note", text=said, removed=False, runs=(run,), same=(), op=op.id)


def _checked(text: str) -> str:
    text = text.strip()
    if not text:
        raise BadInput("a note is empty", hint="expdb note RUN TEXT, or - to read it from stdin")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadInput("the note is not UTF-8 text") from None
    if size > MAX_BYTES:
        raise BadInput(
            f"a note of {size:,} bytes is too long; it can have {MAX_BYTES:,}",
            hint="keep the text in a file of the repository, and name that",
        )
    return text
