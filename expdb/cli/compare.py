"""`expdb compare`."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode


@click.command()
@click.argument("runs", nargs=-1, required=True)
@click.option("--metric", metavar="METRIC", help="Judge by this metric, not by the objective.")
@click.option("--config", "config_only", is_flag=True, help="Only the config.")
@click.option(
    "--fail-if",
    "fail_if",
    multiple=True,
    type=click.Choice(["worse", "different", "inconclusive"]),
    help="Exit 1 if any run comes out so against the first.",
)
@options.all_rows
@options.quiet
@options.as_json
@click.pass_obj
def compare(
    context: Context,
    runs: tuple[str, ...],
    metric: str | None,
    config_only: bool,
    fail_if: tuple[str, ...],
    all_rows: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Compare RUNS with the first of them: config, code, environment, data, metrics.

    `better` and `worse` are beyond the noise between seeds, in the declared direction.
    """
    from expdb.query.compare import comparison
    from expdb.report import comparison as report
    from expdb.report import json, verdict

    if len(runs) < 2:
        raise click.UsageError("compare needs two runs or more")
    out = context.out
    with context.reader() as reader:
        found = comparison(reader, context.resolve_many(reader, runs), metric=metric)
        for warning in found.warnings:
            out.warning(warning)
        if as_json:
            out.json(json.comparison(found, all=all_rows))
        elif quiet:
            out.lines([item.outcome.value for item in found.verdicts])
        else:
            out.lines(report.render(found, out.style, all=all_rows, config_only=config_only))
            if not config_only:
                out.next(verdict.settle(found))
    outcomes = {item.outcome.value for item in found.verdicts}
    return ExitCode.CONDITION_FALSE if _holds(set(fail_if), outcomes) else ExitCode.OK


def _holds(wanted: set[str], outcomes: set[str]) -> bool:
    if "different" in wanted:
        wanted = wanted | {"better", "worse"}
    return bool(wanted & outcomes)
