"""`expdb probe`: short trainings and checks of data that record nothing."""

from __future__ import annotations

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand, Wrong
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode
from expdb.cli.probe_data import data
from expdb.cli.probe_measure import loader, lr, memory, throughput
from expdb.text import plain

RTOL = 1e-5


class ProbeGroup(click.Group):
    """The probes; an unknown one is an error that names those there are."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the probe."""
        if args[0] not in self.commands:
            known = ", ".join(self.commands)
            raise Wrong(f"no probe is called {plain(args[0])}; there is {known}", ctx=ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=ProbeGroup)
def probe() -> None:
    """Train a little, to measure, and record nothing in the store.

    `repro` does a run again from its pin. `throughput`, `loader`, `memory` and
    `lr` run your script as it stands, with `+exp=EXP` or as RUN was started,
    and look at the updates of its `expdb.Loop`; they evaluate and save nothing.
    `data` reads text files. What a probe writes is gone when it ends.
    """


@probe.command(cls=VerbCommand)
@click.argument("run")
@click.option(
    "--steps",
    metavar="N",
    type=options.Whole(1, 10**12),
    help="Do the first N steps again (50, or all of a shorter run).",
)
@click.option(
    "--rtol",
    metavar="X",
    type=options.Positive(zero=True),
    default=RTOL,
    help="The relative difference that counts as equal (1e-5); 0: the bits alone.",
)
@click.option("--keep", is_flag=True, help="Leave the work tree and the store of the repetition.")
@options.as_json
@click.pass_obj
def repro(
    context: Context, run: str, steps: int | None, rtol: float, keep: bool, as_json: bool
) -> int:
    """Do the first steps of RUN again from its pin, and say whether they are the same.

    The recorded command runs at the pinned code, uncommitted edits of then included, with the
    packages, data and machine of now; it stops after N updates without a change to its schedule.
    Exit 0: bit-equal, or within the tolerance; 1: the first step and metric that differ.
    """
    from expdb.actions.probe.repro import prepare, reproduce
    from expdb.report import repro as report

    out = context.out
    worktree = context.require_worktree()
    with context.reader() as reader:
        plan = prepare(reader, worktree, context.resolve(reader, run), steps=steps)
    for line in report.begin_lines(plan, out.talk_style):
        out.talk(line)
    found = reproduce(worktree, plan, rtol=rtol, keep=keep, here=context.directory)
    if as_json:
        out.json(report.json_of_repro(found))
    else:
        out.lines(report.render_repro(found, out.style))
    differs = found.match.outcome == "differs"
    return ExitCode.CONDITION_FALSE if differs else ExitCode.OK


for measuring in (throughput, loader, memory, lr, data):
    probe.add_command(measuring)
