"""`expdb note`."""

from __future__ import annotations

import sys

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context, Swapped
from expdb.errors import BadInput


@click.command(cls=VerbCommand)
@click.argument("run")
@click.argument("text", nargs=-1)
@options.quiet_as("the id of the run, where TEXT is added")
@options.as_json
@click.pass_obj
def note(context: Context, run: str, text: tuple[str, ...], quiet: bool, as_json: bool) -> None:
    """Add TEXT to the notes of RUN, or print them; `-` reads the text from stdin."""
    from expdb.report import json, naming
    from expdb.text import plain

    out = context.out
    with context.reader(warn_unfinished=not text) as reader:
        resolved = context.resolve(reader, run, swapped=_swapped(run, text))
        if not text:
            found = reader.run(resolved.run)
            if as_json:
                out.json(json.document(run=found.id, notes=list(found.notes)))
            elif found.notes:
                out.lines(naming.note_lines(found.notes), page=True)
            else:
                out.talk(f"{out.talk_style.run(found.id)} {plain(found.name)} has no note")
            return
        from expdb.actions.note import add_note
        from expdb.redact import Redactor

        done = add_note(
            reader,
            resolved,
            _stdin() if text == ("-",) else " ".join(text),
            worktree=context.worktree,
            redactor=Redactor(environment=context.env),
        )
        if as_json:
            out.json(naming.json_of_mark(done))
        elif quiet:
            out.lines([done.runs[0].id])
        else:
            for line in naming.render_mark(done, out.talk_style):
                out.talk(line)


def _swapped(run: str, text: tuple[str, ...]) -> Swapped | None:
    """Return the command that was meant if the run stands last."""
    if not text:
        return None
    return text[-1], ("expdb note", text[-1], " ".join([run, *text[:-1]]))


def _stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise BadInput("the note on stdin is no UTF-8 text") from None
