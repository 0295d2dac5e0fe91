"""`expdb label`: a word on any number of runs, for filters and for people."""

from __future__ import annotations

from collections.abc import Sequence

from expdb.actions.marks import mark
from expdb.actions.naming import named
from expdb.actions.results import MarkResult
from expdb.actions.unfinished import require_finished
from expdb.errors import BadInput, NotFound
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.redact import Redactor
from expdb.text import plain

MAX_LETTERS = 1_000


def label_counts(reader: Reader) -> list[tuple[str, int]]:
    """Return every label with the number of runs that have it, by label."""
    sql = "SELECT label, count(*) FROM (SELECT unnest(labels) AS label FROM runs) GROUP BY label"
    return [(str(word), int(number)) for word, number in sorted(reader.rows(sql))]


def set_label(
    reader: Reader,
    runs: Sequence[str],
    word: str,
    *,
    worktree: WorkTree | None = None,
    remove: bool = False,
    redactor: Redactor | None = None,
) -> MarkResult:
    """Put a label on runs, or with `remove` take it off; one op, none where nothing changes.

    Raises:
        BadInput: it cannot be a label.
        NotFound: none of the runs has the label that is to go.
        Refused: an op of this work tree was cut off.
    """
    word = (redactor or Redactor()).text(check_label(word))
    if worktree is not None:
        require_finished(worktree, reader.store)
    found = [reader.run(run) for run in runs]
    changed = [run for run in found if (word in run.labels) == remove]
    if remove and not changed:
        lacks = f"none of {len(found):,} runs has the label {plain(word)}"
        if len(found) == 1:
            lacks = f"{named(found[0], reader.id_length)} has no label {plain(word)}"
        raise NotFound(lacks, hint="all labels: expdb label")
    op = None
    if changed:
        one = named(changed[0], reader.id_length)
        where = one if len(changed) == 1 else f"{len(changed):,} runs"
        op = mark(
            reader.store,
            kind="label",
            text=word,
            runs=[run.id for run in changed],
            what=f"label {word} {'off' if remove else 'on'} {where}",
            worktree=worktree,
            remove=remove,
        ).id
    return MarkResult(
        kind="label",
        text=word,
        removed=remove,
        runs=tuple(changed),
        same=tuple(run for run in found if run not in changed),
        op=op,
    )


def check_label(word: str) -> str:
    """Return `word` if it can be a label.

    Raises:
        BadInput: it is empty, too long, begins with a dash, is no text, or holds a space or a
            control character.
    """
    if not word:
        raise BadInput("a label is empty")
    if len(word) > MAX_LETTERS:
        raise BadInput(f"a label of {len(word):,} letters is too long", hint="longer: expdb note")
    if word.startswith("-"):
        raise BadInput(f"{plain(word)} cannot be a label: it begins with a dash, like an option")
    try:
        word.encode()
    except UnicodeEncodeError:
        raise BadInput(f"the label {word[:80]!a} is not UTF-8 text") from None
    if not word.isprintable() or any(letter.isspace() for letter in word):
        raise BadInput(
            f"{plain(word)} cannot be a label: it holds a space or a control character",
            hint="more than a word: expdb note RUN TEXT",
        )
    return word
