"""`expdb probe data`: is validation text in training text; a split of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode

if TYPE_CHECKING:
    from expdb.actions.probe.declared_data import DeclaredData


@click.command(cls=VerbCommand)
@click.argument("run", required=False)
@click.option(
    "--train",
    metavar="PATH",
    type=options.FilePath(),
    multiple=True,
    help="Training text; again: more of it.",
)
@click.option(
    "--val",
    metavar="PATH",
    type=options.FilePath(),
    multiple=True,
    help="Validation text; again: more of it.",
)
@click.option("--field", metavar="NAME", help="Which field of a JSON line is the text (text).")
@click.option(
    "--words",
    metavar="N",
    type=options.Whole(2, 1000),
    default=13,
    help="How long a run of words counts (13).",
)
@click.option(
    "--split",
    metavar="FILE",
    type=options.FilePath(),
    help="Divide a .jsonl file instead, into --out.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=options.FilePath(),
    help="Where train.jsonl, val.jsonl and split.json go.",
)
@click.option("--by", metavar="KEY", help="Keep the proportions of this field on both sides.")
@click.option(
    "--share",
    metavar="X",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="The share of validation (0.1).",
)
@click.option("--seed", metavar="N", type=options.Whole(0, 2**63), help="Which items (0).")
@options.as_json
@click.pass_obj
def data(
    context: Context,
    run: str | None,
    train: tuple[str, ...],
    val: tuple[str, ...],
    field: str | None,
    words: int,
    split: str | None,
    out: str | None,
    by: str | None,
    share: float | None,
    seed: int | None,
    as_json: bool,
) -> int:
    """Say how much of the validation text is in the training text.

    Documents are lines of .jsonl files, and blocks between blank lines (else
    lines) of others. With RUN: the data that it says it read, where they are
    files that are still here. Exit 1: some of it is.

    With --split a file is divided so that each value of --by has its share on
    both sides, give or take less than one item; the seed is kept beside them.
    """
    if split is not None:
        if run or train or val or field or out is None:
            raise click.UsageError("--split FILE wants --out DIR, and takes no RUN, --train, --val")
        return _split(context, split, out, by, 0.1 if share is None else share, seed or 0, as_json)
    if out is not None or by is not None or share is not None or seed is not None:
        raise click.UsageError("--out, --by, --share and --seed go with --split FILE")
    if bool(train) != bool(val):
        raise click.UsageError("--train PATH and --val PATH go together")
    if not run and not train:
        raise click.UsageError("data wants RUN, or --train PATH and --val PATH, or --split FILE")
    return _check(context, run, train, val, field, words, as_json)


def _check(
    context: Context,
    run: str | None,
    train: tuple[str, ...],
    val: tuple[str, ...],
    field: str | None,
    words: int,
    as_json: bool,
) -> int:
    from expdb.actions.probe.declared_data import sides_of
    from expdb.actions.probe.documents import documents, files_of
    from expdb.actions.probe.overlap import overlap
    from expdb.report import probe_data as report

    name, declared = _declared(context, run) if run else (None, ())
    here = context.directory
    if train:
        sides = files_of(train, here=here, what="--train"), files_of(val, here=here, what="--val")
    else:
        sides = sides_of(declared)
    found = None
    if all(sides):
        found = overlap(documents(sides[0], field=field), documents(sides[1], field=field), n=words)
    if as_json:
        context.out.json(report.json_of_data(name, declared, found))
    else:
        lines = report.render_declared(declared)
        lines += report.render_overlap(found, context.out.style) if found is not None else []
        context.out.lines(lines)
        if found is None:
            context.out.hint("nothing is here to compare; name it: --train PATH --val PATH")
    return ExitCode.CONDITION_FALSE if found is not None and found.num_found else ExitCode.OK


def _declared(context: Context, run: str) -> tuple[str, tuple[DeclaredData, ...]]:
    from expdb.actions.probe.declared_data import declared_data
    from expdb.errors import Refused
    from expdb.text import plain

    with context.reader() as reader:
        found = reader.run(context.resolve(reader, run).run)
    data = declared_data(found, context.places)
    if not data:
        raise Refused(
            f"{plain(found.name)} says nothing of its data",
            hint="in the script: run.use_data('train', PATH)",
        )
    return f"{found.id} {found.name}", data


def _split(
    context: Context, file: str, out: str, by: str | None, share: float, seed: int, as_json: bool
) -> int:
    from expdb.actions.probe.documents import files_of, given
    from expdb.actions.probe.split import split
    from expdb.report import probe_data as report

    here = context.directory
    [path, *_] = files_of([file], here=here, what="--split")
    made = split(path, given(out, here), by=by, share=share, seed=seed)
    if as_json:
        context.out.json(report.json_of_split(made))
    else:
        context.out.lines(report.render_split(made, context.out.style))
    return ExitCode.OK
