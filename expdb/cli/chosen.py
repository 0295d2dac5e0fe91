"""The runs that a verb is about: named by words, or selected by a filter."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from expdb.cli.context import Context, Swapped
from expdb.errors import NotFound

if TYPE_CHECKING:
    from expdb.index.reader import Reader


def chosen(
    context: Context,
    reader: Reader,
    words: Sequence[str],
    *,
    where: Sequence[str] = (),
    since: str | None = None,
    study: str | None = None,
    swapped: Swapped | None = None,
) -> list[str]:
    """Return the ids of the runs, each once; a word may name several by `:all`.

    `swapped` is as in `Context.resolve`.

    Raises:
        UsageError: runs are named and selected, or neither.
        NotFound: nothing is selected, or a word names no run.
    """
    if bool(words) == bool(where or since or study):
        both = "RUN and -w, --since, --study exclude each other" if words else "it wants RUN or -w"
        raise click.UsageError(both)
    if words:
        return _named(context, reader, words, swapped)
    from expdb.query.select import Selection, selected

    now_ms = context.out.style.now_ms
    found = selected(reader, Selection(where=where, since=since, study=study), now_ms=now_ms)
    if not found:
        asked = [("-w", one) for one in where]
        asked += [(name, one) for name, one in (("--since", since), ("--study", study)) if one]
        said = " ".join(f"{name} {shlex.quote(one)}" for name, one in asked)
        raise NotFound("the filter selects no run", hint=f"look first: expdb ls {said}")
    return found


def _named(
    context: Context, reader: Reader, words: Sequence[str], swapped: Swapped | None
) -> list[str]:
    from expdb.query.lookup import lookup_all
    from expdb.store.runword import parse

    found: dict[str, None] = {}
    for word in words:
        if "all" not in parse(word).selectors:
            found[context.resolve(reader, word, swapped=swapped).run] = None
            continue
        for one in lookup_all(reader, word, head=context.head()):
            context.out.resolution(one.said)
            found[one.run] = None
    return list(found)
