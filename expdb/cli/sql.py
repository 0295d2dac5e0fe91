"""`expdb sql`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context

if TYPE_CHECKING:
    import pyarrow as pa

    from expdb.cli.output import Output
    from expdb.store.store import Store

ROWS = 200


@click.command(cls=VerbCommand)
@click.argument("statement", metavar="SELECT")
@click.option(
    "-n",
    "limit",
    metavar="N",
    type=options.Whole(1, options.MAX_ROWS),
    help=f"Rows at most: {ROWS} in a table, else all.",
)
@options.as_json
@options.as_csv
@options.as_md
@options.as_jsonl
@click.option("--parquet", metavar="FILE", help="Write the rows to a new Parquet file.")
@click.option("--force", is_flag=True, help="Replace the file that --parquet names.")
@click.pass_obj
def sql(
    context: Context,
    statement: str,
    limit: int | None,
    as_json: bool,
    as_csv: bool,
    as_md: bool,
    as_jsonl: bool,
    parquet: str | None,
    force: bool,
) -> None:
    """Answer one SELECT over the store; `-` reads it from stdin.

    Tables: runs params series points evals events checkpoints refs attempts files, and texts hists
    tables images. `points` has run, experiment, key, step, time (ms), value, attempt, rank; the
    columns of each: expdb sql 'describe runs'.
    """
    from expdb.query.sql import answer, hints_of_nothing

    forms = {"json": as_json, "csv": as_csv, "md": as_md, "jsonl": as_jsonl}
    options.at_most_one(**forms, parquet=parquet is not None)
    text = sys.stdin.read() if statement == "-" else statement
    shown = as_md or not (any(forms.values()) or parquet is not None)
    most = (limit or ROWS) if shown else limit
    warnings: list[str] = []
    with context.reader() as reader:
        place = None if parquet is None else _place(parquet, reader.store, force=force)
        # One more row tells whether there are more.
        found = answer(
            reader, text, limit=None if most is None else most + shown, warnings=warnings
        )
        hints = () if found.num_rows else hints_of_nothing(reader, text)
    for warning in warnings:
        context.out.warning(warning)
    rows = found.slice(0, most) if shown else found
    if place is not None:
        _write(place, rows, context)
    elif as_json or as_csv or as_jsonl or as_md:
        _print(context.out, rows, as_json=as_json, as_csv=as_csv, as_md=as_md)
    else:
        _table(context.out, rows)
    for hint in hints:
        context.out.hint(hint)
    if shown and found.num_rows > rows.num_rows:
        context.out.hint(f"the first {rows.num_rows:,} rows; more: -n {rows.num_rows * 5}")


def _place(name: str, store: Store, *, force: bool) -> Path:
    from expdb.report.new_file import require_free

    path = Path(name)
    require_free(path, store, force=force)
    return path


def _write(place: Path, rows: pa.Table, context: Context) -> None:
    from expdb.report.export_parquet import write_table
    from expdb.report.new_file import new_file
    from expdb.report.words import counted

    with new_file(place) as file:
        write_table(file, rows)
    shown = context.out.talk_style.say(context.shown(place.absolute()))
    context.out.talk(f"wrote {counted(rows.num_rows, 'row')} to {shown}")


def _print(out: Output, rows: pa.Table, *, as_json: bool, as_csv: bool, as_md: bool) -> None:
    from expdb.report import answer as report
    from expdb.report import rows_out

    if as_json:
        out.json(report.json_of(rows))
    elif as_csv:
        out.text(rows_out.write_csv(rows.column_names, report.values(rows)))
    elif as_md:
        cells, right = report.markdown_cells(rows), report.numbers(rows)
        out.lines(rows_out.markdown(rows.column_names, cells, right=right))
    else:
        out.text(rows_out.jsonl(report.objects(rows)))


def _table(out: Output, rows: pa.Table) -> None:
    from expdb.report import answer as report

    if not rows.num_rows:
        out.talk("no rows")
        return
    out.lines(report.render(rows, out.style), page=True)
    left_out = report.num_left_out(rows, out.style)
    if left_out:
        out.hint(f"{left_out} of {rows.num_columns} columns do not fit; all: --csv or --json")
