"""`expdb export`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand, Wrong
from expdb.cli.context import Context
from expdb.errors import BadInput

if TYPE_CHECKING:
    from expdb.index.reader import Reader
    from expdb.query.export import Export

STDOUT = "-"


class _Target(NamedTuple):
    """Where an export goes, and in which form."""

    form: str
    out: str

    def file(self, name: str) -> Path:
        """Return the file: in a folder, or where nothing says that OUT is one, OUT itself."""
        path = Path(self.out)
        if path.is_dir() or self.out.endswith("/") or not path.suffix:
            return path / f"{name}.{self.form}"
        return path


@click.command(cls=VerbCommand)
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@options.where
@options.since
@options.study
@click.option("--csv", "to_csv", metavar="OUT", help="A table in a file or folder; - is stdout.")
@click.option("--jsonl", "to_jsonl", metavar="OUT", help="JSON lines; - is stdout.")
@click.option("--parquet", "to_parquet", metavar="OUT", help="A Parquet file.")
@click.option("--tensorboard", "to_tensorboard", metavar="DIR", help="Event files, a folder a run.")
@options.as_json
@click.option("--runs", "runs_only", is_flag=True, help="What the runs are, without their points.")
@click.option("--records", is_flag=True, help="With --jsonl: one line a step, under short names.")
@click.option("--attempts", is_flag=True, help="Also points that a later attempt superseded.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@options.quiet_as("the ids of the runs, where OUT is not stdout")
@click.pass_obj
def export(
    context: Context,
    runs: tuple[str, ...],
    where: tuple[str, ...],
    since: str | None,
    study: str | None,
    to_csv: str | None,
    to_jsonl: str | None,
    to_parquet: str | None,
    to_tensorboard: str | None,
    as_json: bool,
    runs_only: bool,
    records: bool,
    attempts: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Write points and what the runs are; without RUN or -w of all runs, oldest first.

    `expdb import` makes the same runs of it again. OUT is a file, or a folder that gets one.
    """
    said = {
        "csv": to_csv, "jsonl": to_jsonl, "parquet": to_parquet, "tensorboard": to_tensorboard,
        "json": STDOUT if as_json else None,
    }  # fmt: skip
    target = _target(said, runs)
    if records and (target.form != "jsonl" or runs_only):
        raise click.UsageError("--records goes with --jsonl, and without --runs")
    if target.form == "tensorboard" and (runs_only or attempts):
        raise click.UsageError("--tensorboard goes without --runs and --attempts")
    from expdb.query.export import Export

    with context.reader() as reader:
        ids = _chosen(context, reader, runs, where=where, since=since, study=study)
        found = Export(reader, ids, attempts=attempts)
        written = _write(
            context, reader, found, target, runs_only=runs_only, records=records, force=force
        )
    for problem in dict.fromkeys(found.problems):
        context.out.warning(problem)
    if quiet and target.out != STDOUT:
        context.out.lines(ids)
    elif not quiet:
        _say(context, found, written)


def _target(said: Mapping[str, str | None], runs: Sequence[str]) -> _Target:
    """Return the one form that is asked for, and where it goes."""
    targets = [_Target(form, out) for form, out in said.items() if out is not None]
    if len(targets) != 1:
        typed = " ".join(["expdb export", *map(shlex.quote, runs), "--csv points.csv"])
        raise Wrong(
            "export wants one of --csv OUT, --jsonl OUT, --parquet OUT, --tensorboard DIR, --json",
            hint=typed,
        )
    target = targets[0]
    if target == _Target("parquet", STDOUT):
        raise click.UsageError("--parquet wants a file or a folder")
    if target == _Target("tensorboard", STDOUT):
        raise click.UsageError("--tensorboard wants a folder")
    return target


def _chosen(
    context: Context,
    reader: Reader,
    runs: tuple[str, ...],
    *,
    where: tuple[str, ...],
    since: str | None,
    study: str | None,
) -> list[str]:
    from expdb.cli.chosen import chosen

    if runs or where or since or study:
        return chosen(context, reader, runs, where=where, since=since, study=study)
    return [row[0] for row in reader.rows("SELECT id FROM runs ORDER BY created_at_ms, id")]


def _write(
    context: Context,
    reader: Reader,
    found: Export,
    target: _Target,
    *,
    runs_only: bool,
    records: bool,
    force: bool,
) -> list[Path]:
    """Write the export, and return its files."""
    from expdb.report import export, export_parquet
    from expdb.report.new_file import new_file, require_free

    texts = _texts(found, target.form, runs_only=runs_only, records=records)
    if target.out == STDOUT:
        for text in texts():
            context.out.text(text)
        return []
    if target.form == "tensorboard":
        from expdb.report.export_tensorboard import write_runs

        write_runs(Path(target.out), found, reader.store, force=force)
        return [Path(target.out)]
    path = target.file("runs" if runs_only else "points")
    files = [path]
    if target.form == "csv" and not runs_only:
        files.append(path.with_suffix(".runs.jsonl"))
    if not path.parent.exists() and path != Path(target.out):
        _make_folder(path.parent, reader)
    for file in files:
        require_free(file, reader.store, force=force)
    if target.form == "parquet":
        with new_file(path) as opened:
            write = export_parquet.write_runs if runs_only else export_parquet.write_points
            write(opened, found)
        return files
    for file in files:
        parts = texts() if file == path else export.records(found)
        with new_file(file) as opened:
            for text in parts:
                opened.write(text.encode())
    return files


def _texts(
    found: Export, form: str, *, runs_only: bool, records: bool
) -> Callable[[], Iterator[str]]:
    from expdb.report import export

    if form == "csv":
        return lambda: export.runs_as_csv(found) if runs_only else export.as_csv(found)
    if form == "json":
        return lambda: export.as_json(found, points=not runs_only)
    if runs_only:
        return lambda: export.records(found)
    return lambda: export.as_step_records(found) if records else export.as_jsonl(found)


def _make_folder(path: Path, reader: Reader) -> None:
    from expdb.report.new_file import require_outside

    require_outside(path, reader.store)
    try:
        path.mkdir()
    except OSError as error:
        raise BadInput(f"the folder {path} cannot be made: {error.strerror}") from error


def _say(context: Context, found: Export, written: list[Path]) -> None:
    from expdb.report.words import counted

    said = counted(len(found.runs), "run")
    if found.num_points:
        said = f"{counted(found.num_points, 'point')} of {said}"
    places = ", ".join(context.out.talk_style.say(context.shown(p.absolute())) for p in written)
    if places:
        context.out.talk(f"wrote {said} to {places}")
