"""`expdb events --watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli.context import Context
from expdb.cli.exit import ExitCode

if TYPE_CHECKING:
    from expdb.actions.watch import Watch
    from expdb.notify.channel import Channel


def follow(
    context: Context, severity: str | None, *, tells: bool, once: bool, as_jsonl: bool
) -> int:
    """Print what happens in all runs until Ctrl-C; with `tells` the channels are told."""
    from expdb.actions.watch import Watch
    from expdb.query.channels import declared_channels, one_of

    if once and not tells:
        raise click.UsageError("--once goes with --notify: without it nothing is done")
    store = context.open_store()
    if not tells:
        return _print(context, Watch(store), (), severity, as_jsonl)
    declared = declared_channels(context.places, store, context.env)
    if declared.note:
        context.out.warning(declared.note)
    channels = one_of(declared, None)
    watch = Watch(store, channels, declared.reach)
    if once:
        return _tell_once(context, watch)
    return _print(context, watch, channels, severity, as_jsonl)


def _tell_once(context: Context, watch: Watch) -> int:
    from expdb.report import notify as report

    for told in watch.look().told:
        context.out.talk(report.told(told))
    return ExitCode.CONDITION_FALSE if any(watch.waiting.values()) else ExitCode.OK


def _print(
    context: Context,
    watch: Watch,
    channels: tuple[Channel, ...],
    severity: str | None,
    as_jsonl: bool,
) -> int:
    from expdb.query.watch import shown
    from expdb.report import notify as report

    out, is_first = context.out, True
    for look in watch.follow():
        if is_first:
            out.talk(report.head(look, channels))
            is_first = False
        for item in shown(look.items, severity):
            if as_jsonl:
                out.text(report.json_line(item))
            else:
                out.lines([report.line(item, out.style)])
        out.flush()
        for told in look.told:
            if told.trouble:
                out.warning(report.told(told))
    return ExitCode.OK
