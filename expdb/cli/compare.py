"""`expdb compare`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand, Wrong
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode
from expdb.cli.forms import Form, form_of

if TYPE_CHECKING:
    from expdb.index.reader import Reader
    from expdb.query.patches import CodePatch
    from expdb.store.resolve import Resolved


@click.command(cls=VerbCommand)
@click.argument("runs", nargs=-1, metavar="RUN RUN...")
@click.option("--metric", metavar="METRIC", help="Judge by this metric, not by the objective.")
@options.where
@options.over
@click.option("--config", "config_only", is_flag=True, help="Only the config.")
@click.option("--code", "code", is_flag=True, help="Only the code, as a patch.")
@click.option("--stat", is_flag=True, help="Only the code, as files with their lines.")
@click.option(
    "--fail-if",
    "fail_if",
    multiple=True,
    type=click.Choice(["worse", "different", "inconclusive"]),
    help="Exit 1 if any run comes out so against the first.",
)
@options.all_rows
@options.quiet_as("the outcome, one word a run")
@options.as_json
@options.as_csv
@options.as_md
@click.pass_obj
def compare(
    context: Context,
    runs: tuple[str, ...],
    metric: str | None,
    where: tuple[str, ...],
    over: str | None,
    config_only: bool,
    code: bool,
    stat: bool,
    fail_if: tuple[str, ...],
    all_rows: bool,
    quiet: bool,
    as_json: bool,
    as_csv: bool,
    as_md: bool,
) -> int:
    """Compare RUNS with the first of them: config, code, environment, data, metrics.

    `better` and `worse` are beyond the noise between seeds, in the declared direction. Metrics are
    read at the last step that all runs have, or where RUN@STEP says. With -w the runs that the
    filter selects come behind RUNS, the oldest first. Over seeds, each run stands for all runs of
    its experiment, variant and config.

    --code and --stat compare what the runs pinned; no program of the repository runs for it.
    """
    kind = form_of(quiet=quiet, json=as_json, csv=as_csv, md=as_md)
    if code or stat:
        _only_code(kind, config_only=config_only, over=over, fail_if=fail_if)
    from expdb.query.compare import asked_step

    with context.reader() as reader:
        targets = _targets(context, reader, runs, where)
        if (code or stat) and kind != "json":
            _code(context, reader, targets, code=code, stat=stat)
            return ExitCode.OK
        if over:
            outcomes = _over_seeds(context, reader, targets, metric, kind)
        else:
            step = asked_step(runs, targets)
            outcomes = _runs(
                context, reader, targets, metric, kind,
                all_rows=all_rows, config_only=config_only, step=step, code=code, stat=stat,
            )  # fmt: skip
    return ExitCode.CONDITION_FALSE if _holds(set(fail_if), outcomes) else ExitCode.OK


def _targets(
    context: Context, reader: Reader, runs: tuple[str, ...], where: tuple[str, ...]
) -> list[Resolved]:
    from expdb.query.compare import with_selected

    if len(runs) < 2 and not where:
        other = f"expdb compare baseline {shlex.quote(runs[0])}" if runs else ""
        raise Wrong("compare needs two runs or more", hint=other)
    targets = context.resolve_many(reader, runs) if runs else []
    if where:
        chosen = context.where(reader, where)
        targets = with_selected(reader, targets, chosen.sql, chosen.params)
    return targets


def _runs(
    context: Context,
    reader: Reader,
    targets: list[Resolved],
    metric: str | None,
    kind: Form,
    *,
    all_rows: bool,
    config_only: bool,
    step: int | None,
    code: bool,
    stat: bool,
) -> set[str]:
    from expdb.query.compare import comparison
    from expdb.report import at_once, json, rows_out, verdict
    from expdb.report import comparison as report
    from expdb.report import comparison_tables as tables

    out = context.out
    found = comparison(reader, targets, metric=metric, step=step)
    for warning in found.warnings:
        out.warning(warning)
    if kind == "json":
        made = json.comparison(found, all=all_rows)
        if code or stat:
            from expdb.report import patch

            asked = patch.as_json(_patches(context, reader, targets, code), text=code)
            made["code"]["patches"] = asked
        out.json(made)
    elif kind == "csv":
        out.text(rows_out.write_csv(*tables.table(found, all=all_rows, config_only=config_only)))
    elif kind == "md":
        shown = tables.to_markdown(found, out.style, all=all_rows, config_only=config_only)
        out.lines(shown)
    elif kind == "quiet":
        out.lines([item.outcome.value for item in found.verdicts])
    else:
        out.lines(report.render(found, out.style, all=all_rows, config_only=config_only))
        if not config_only:
            out.next([*verdict.settle(found), *at_once.next_commands(found, out.talk_style)])
    return {item.outcome.value for item in found.verdicts}


def _only_code(kind: Form, *, config_only: bool, over: str | None, fail_if: Sequence[str]) -> None:
    if kind in ("csv", "md", "quiet"):
        raise click.UsageError(f"a patch is no table: --code and --stat go without --{kind}")
    if config_only or over or fail_if:
        raise click.UsageError("--code and --stat show the code alone: no metric is judged")


def _patches(
    context: Context, reader: Reader, targets: Sequence[Resolved], text: bool
) -> tuple[CodePatch, ...]:
    from expdb.query.patches import patches

    places = [context.directory, reader.store.root.parent]
    return patches([reader.run(one.run) for one in targets], places=places, text=text)


def _code(
    context: Context, reader: Reader, targets: Sequence[Resolved], *, code: bool, stat: bool
) -> None:
    from expdb.report import patch

    out = context.out
    found = _patches(context, reader, targets, code)
    out.lines(patch.render(found, out.style, stat=stat, text=code), page=True)


def _over_seeds(
    context: Context, reader: Reader, targets: list[Resolved], metric: str | None, kind: Form
) -> set[str]:
    from expdb.query.seed_compare import compare_seeds
    from expdb.report import rows_out, seeds_json
    from expdb.report import seed_comparison as report

    out = context.out
    found = compare_seeds(reader, [target.run for target in targets], metric=metric)
    outcomes = [report.outcome_of(group).value for group in found.groups[1:]]
    if kind == "json":
        out.json(seeds_json.comparison(found))
    elif kind == "csv":
        out.text(rows_out.write_csv(*report.comparison_table(found)))
    elif kind == "md":
        out.lines(report.to_markdown(found, out.style))
    elif kind == "quiet":
        out.lines(outcomes)
    else:
        out.lines(report.render_comparison(found, out.style))
    return set(outcomes)


def _holds(wanted: set[str], outcomes: set[str]) -> bool:
    if "different" in wanted:
        wanted = wanted | {"better", "worse"}
    return bool(wanted & outcomes)
