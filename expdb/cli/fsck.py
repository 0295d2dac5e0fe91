"""`expdb fsck`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from expdb.store.store import Store


@click.command(cls=VerbCommand)
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("--repair", is_flag=True, help="Mend what can be mended; set aside what cannot.")
@options.quiet_as("the ids of runs that have problems")
@options.as_json
@click.pass_obj
def fsck(context: Context, runs: tuple[str, ...], repair: bool, quiet: bool, as_json: bool) -> int:
    """Check every file of the store, or of some runs, and name what is damaged.

    Nothing that can be read is lost by a repair, and nothing is deleted: what cannot be read goes
    to the trash of the store. Runs that are being written are left alone. Exit code 5: something
    is damaged.
    """
    from expdb.actions.fsck import fsck as check
    from expdb.actions.fsck import ids_of
    from expdb.cli.progress import Progress
    from expdb.report import fsck as report
    from expdb.text import id_length

    out, store = context.out, context.open_store()
    out.set_id_cells(id_length(ids_of(store)))
    folders = _folders(context, store, runs) if runs else None
    worktree = context.worktree if repair else None
    with Progress(out, "checking", "runs") as progress:
        found = check(store, folders, repair=repair, worktree=worktree, tick=progress)
    if as_json:
        out.json(report.document(found))
    elif quiet:
        out.lines(report.quiet(found))
    else:
        out.lines(report.render(found, out.style))
        for line in report.talk(found, out.talk_style):
            out.talk(line)
        out.next(report.next_commands(found), gap=False)
    return ExitCode.STORE if found.left else ExitCode.OK


def _folders(context: Context, store: Store, words: tuple[str, ...]) -> list[Path]:
    """Return the folders that words name; the index is not brought up to date for it."""
    from expdb.actions.fsck import folders_of
    from expdb.index.reader import open_reader

    with open_reader(store, build=False) as reader:
        found = folders_of(reader, words, head=context.head())
    for _, resolved in found:
        if resolved is not None and not resolved.is_literal:
            context.out.resolution(resolved.said)
    return [folder for folder, _ in found]
