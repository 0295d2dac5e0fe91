"""`expdb label`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.chosen import chosen
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context


@click.command(cls=VerbCommand)
@click.argument("runs", nargs=-1, metavar="[RUN...] [WORD]")
@click.option("-d", "--delete", metavar="WORD", help="Take WORD off the runs.")
@options.where
@options.since
@options.study
@options.quiet_as("ids of runs, or labels, one a line")
@options.as_json
@click.pass_obj
def label(
    context: Context,
    runs: tuple[str, ...],
    delete: str | None,
    where: tuple[str, ...],
    since: str | None,
    study: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Put the label WORD on runs, named or selected; without arguments list all labels.

    With one RUN alone its labels are printed. `-w 'label = WORD'` selects by it.
    """
    is_selected = bool(where or since or study)
    if not runs and not is_selected and delete is None:
        _list(context, as_json=as_json, quiet=quiet)
        return
    if len(runs) == 1 and not is_selected and delete is None:
        _of_run(context, runs[0], as_json=as_json, quiet=quiet)
        return
    from expdb.actions.label import set_label
    from expdb.redact import Redactor
    from expdb.report import naming

    if delete is None and not runs:
        raise click.UsageError("it wants a WORD")
    word, named = (delete, runs) if delete is not None else (runs[-1], runs[:-1])
    out = context.out
    with context.reader(warn_unfinished=False) as reader:
        done = set_label(
            reader,
            chosen(
                context,
                reader,
                named,
                where=where,
                since=since,
                study=study,
                swapped=(word, ("expdb label", word, *named)) if delete is None else None,
            ),
            word,
            worktree=context.worktree,
            remove=delete is not None,
            redactor=Redactor(environment=context.env),
        )
        if as_json:
            out.json(naming.json_of_mark(done))
        elif quiet:
            out.lines([run.id for run in done.runs])
        else:
            for line in naming.render_mark(done, out.talk_style):
                out.talk(line)


def _list(context: Context, *, as_json: bool, quiet: bool) -> None:
    from expdb.actions.label import label_counts
    from expdb.report import json, naming
    from expdb.text import plain

    out = context.out
    with context.reader() as reader:
        counts = label_counts(reader)
    if as_json:
        labels = [{"label": word, "runs": number} for word, number in counts]
        out.json(json.document(labels=labels))
    elif quiet:
        out.lines([plain(word) for word, _ in counts])
    elif counts:
        out.lines(naming.render_labels(counts, out.style), page=True)
    else:
        out.talk("no labels")
        out.hint("put one on a run: expdb label RUN WORD")


def _of_run(context: Context, word: str, *, as_json: bool, quiet: bool) -> None:
    from expdb.report import json
    from expdb.text import plain

    out = context.out
    with context.reader() as reader:
        run = reader.run(context.resolve(reader, word).run)
    if as_json:
        out.json(json.document(run=run.id, labels=list(run.labels)))
    elif quiet or run.labels:
        out.lines([plain(found) for found in run.labels])
    else:
        out.talk(f"{out.talk_style.run(run.id)} {plain(run.name)} has no label")
