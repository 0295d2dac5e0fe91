"""`expdb import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context

if TYPE_CHECKING:
    from expdb.importers.results import ImportedFile


@click.command("import", cls=VerbCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "json", "parquet", "log", "trainer_state", "tensorboard"]),
    help="Else by the name, or by how the file begins.",
)
@click.option("--pattern", metavar="NAME", help="How a log is read: nanogpt, llmc, pairs.")
@click.option("--regex", metavar="RE", help="Your own: named groups, step is one, __ stands for /.")
@click.option("--step", metavar="NAME", help="The column with the step.")
@click.option("--exp", "experiment", metavar="NAME", help="The experiment; else the file's name.")
@click.option(
    "--seed", type=options.Whole(), metavar="N", help="The seed; else what the file's name says."
)
@click.option("--config", metavar="K=V", multiple=True, help="A config key; may be repeated.")
@click.option(
    "--objective", metavar="METRIC[:max]", help="What rank orders by; lower is better, or :max."
)
@click.option("--rename", metavar="OLD=NEW", multiple=True, help="Another name for a metric.")
@options.quiet_as("the ids of new runs, one a line")
@options.as_json
@click.pass_obj
def import_(
    context: Context,
    files: tuple[str, ...],
    form: str | None,
    pattern: str | None,
    regex: str | None,
    step: str | None,
    experiment: str | None,
    seed: int | None,
    config: tuple[str, ...],
    objective: str | None,
    rename: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Make runs of FILES that another program wrote, or of an export.

    CSV and Parquet are wide (a column a metric) or long (key, step, value); JSON lines have one
    object a step. A file that was imported before is passed over.
    """
    if pattern and regex:
        raise click.UsageError("--pattern and --regex exclude each other")
    if (pattern or regex) and form not in (None, "log"):
        raise click.UsageError("--pattern and --regex read a log")
    from expdb.importers.wanted import wanted_of
    from expdb.importers.writing import import_file
    from expdb.report import imported as report

    wanted = wanted_of(
        format=form,
        pattern=pattern,
        regex=regex,
        step=step,
        experiment=experiment,
        seed=seed,
        config=config,
        objective=objective,
        names=rename,
    )
    out = context.out
    store = context.open_store()
    if context.worktree is not None:
        from expdb.actions.unfinished import require_finished

        require_finished(context.worktree, store)
    done: list[ImportedFile] = []
    for name in files:
        found = import_file(store, Path(name), wanted)
        done.append(found)
        if quiet:
            out.lines([run.id for run in found.runs])
        elif not as_json:
            for line in report.lines(found, out.talk_style):
                out.talk(line)
        if hint := report.again(found):
            out.hint(hint)
    if as_json:
        out.json(report.document_of(done))
