"""`expdb doctor`."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand, Wrong
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode
from expdb.errors import ExpdbError

if TYPE_CHECKING:
    from expdb.query.entry import Entry
    from expdb.store.store import Store


@click.command(cls=VerbCommand)
@click.argument("experiment", required=False, metavar="[EXP]")
@click.option("--conf", is_flag=True, help="Check the declared experiments, or explain EXP.")
@options.all_rows
@options.as_json
@click.pass_obj
def doctor(
    context: Context, experiment: str | None, conf: bool, all_rows: bool, as_json: bool
) -> int:
    """Look at this machine, repository and store, and say what to do about what is not well.

    With --conf: compose every experiment as training does, and name what is to fix; with EXP: each
    key with the file and line that its value is from. Exit code 1: something is to fix.
    """
    if experiment is not None and not conf:
        with_conf = f"expdb doctor --conf {shlex.quote(experiment)}"
        raise Wrong("an experiment is looked at with --conf", hint=with_conf)
    if experiment is not None:
        return _explain(context, experiment, everything=all_rows, as_json=as_json)
    if conf:
        return _check_conf(context, everything=all_rows, as_json=as_json)
    return _doctor(context, as_json=as_json)


def _doctor(context: Context, *, as_json: bool) -> int:
    from expdb.actions.doctor import Surroundings, mounts_now
    from expdb.actions.doctor import doctor as look
    from expdb.actions.doctor_machine import Terminal
    from expdb.git.worktree import find_worktree
    from expdb.report import doctor as report

    out = context.out
    terminal = Terminal(
        is_terminal=out.style.terminal,
        is_utf8=out.is_utf8,
        columns=out.style.width,
        env=context.env,
    )
    checks = look(
        Surroundings(
            directory=context.directory,
            store=_store_or_why(context),
            worktree=find_worktree(context.directory),
            terminal=terminal,
            mounts=mounts_now(),
        )
    )
    if as_json:
        out.json(report.document(checks))
    else:
        out.lines(report.render(checks, out.style))
    is_well = all(check.mark != "problem" for check in checks)
    return ExitCode.OK if is_well else ExitCode.CONDITION_FALSE


def _check_conf(context: Context, *, everything: bool, as_json: bool) -> int:
    from expdb.actions.conf_check import check_conf
    from expdb.cli.progress import Progress
    from expdb.report import conf_check as report

    out = context.out
    with Progress(out, "composing", "experiments") as progress:
        found = check_conf(_entry(context), tick=progress)
    if as_json:
        out.json(report.document(found))
    else:
        shown = report.render(found, out.style, directory=context.directory, everything=everything)
        out.lines(shown)
        out.next(report.next_commands(found), gap=False)
    return ExitCode.CONDITION_FALSE if found.num_to_fix else ExitCode.OK


def _explain(context: Context, experiment: str, *, everything: bool, as_json: bool) -> int:
    from expdb.actions.conf_detail import explain
    from expdb.report import conf_check as report

    out = context.out
    with ExitStack() as stack:
        has_store = not isinstance(_store_or_why(context), ExpdbError)
        reader = stack.enter_context(context.reader(warn_unfinished=False)) if has_store else None
        found = explain(_entry(context), experiment, directory=context.directory, reader=reader)
    if as_json:
        out.json(report.detail_document(found))
    else:
        out.lines(report.render_detail(found, out.style, everything=everything))
    return ExitCode.OK


def _entry(context: Context) -> Entry:
    """Return the config that training composes here."""
    from expdb.query.entry import find_entry

    store = _store_or_why(context)
    return find_entry(context.places, None if isinstance(store, ExpdbError) else store)


def _store_or_why(context: Context) -> Store | ExpdbError:
    try:
        return context.open_store()
    except ExpdbError as error:
        return error
